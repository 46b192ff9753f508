"""The environments of a run. They differ in one point: scores never end on a lost life."""

from dataclasses import replace

from proxrl.config import RunConfig
from proxrl.envs import Environment, make


def training_environment(config: RunConfig) -> Environment:
    """As the agent learns in it."""
    return make(config.env, config.protocol)


def scoring_environments(
    config: RunConfig, episodes: int | None = None, pictures: bool = False
) -> list[Environment]:
    """As the agent is scored in them, as many as advance together; `pictures` if they will be
    rendered."""
    wanted = config.evaluation.episodes if episodes is None else episodes
    if config.evaluation.min_steps and episodes is None:
        wanted = config.evaluation.environments  # how many episodes there will be is not known
    rules = replace(config.protocol, life_loss_terminal=False)
    count = min(config.evaluation.environments, wanted)
    return [make(config.env, rules, pictures) for _ in range(count)]
