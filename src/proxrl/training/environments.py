"""The environments of a run. They differ in one point: scores never end on a lost life."""

from dataclasses import replace

from proxrl.config import RunConfig
from proxrl.envs import Environment, make


def training_environment(config: RunConfig) -> Environment:
    """As the agent learns in it."""
    return make(config.env, config.protocol)


def scoring_environment(config: RunConfig, pictures: bool = False) -> Environment:
    """As the agent is scored in it; `pictures` if it will be rendered."""
    return make(config.env, replace(config.protocol, life_loss_terminal=False), pictures)


def scoring_environments(config: RunConfig) -> list[Environment]:
    """As many as an evaluation of the run needs."""
    return [scoring_environment(config) for _ in range(side_by_side(config))]


def side_by_side(config: RunConfig, episodes: int | None = None) -> int:
    """How many of an evaluation's episodes advance together; `episodes`: other than the config's
    (`evaluation.min_steps` leaves open how many there will be)."""
    if episodes is None and config.evaluation.min_steps:
        return config.evaluation.environments
    return min(config.evaluation.environments, episodes or config.evaluation.episodes)
