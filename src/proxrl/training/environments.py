"""The environments of a run. Evaluation differs in one point: a lost life never ends an episode."""

import os
from dataclasses import replace

import numpy as np

from proxrl.config import RunConfig
from proxrl.envs import Environment, make


def training_environment(config: RunConfig) -> Environment:
    """The environment to train in."""
    return make(config.env, config.protocol)


def scoring_environment(config: RunConfig, pictures: bool = False) -> Environment:
    """The environment to evaluate in; `pictures`: enable rendering."""
    return make(config.env, replace(config.protocol, life_loss_terminal=False), pictures)


def film_environment(config: RunConfig) -> Environment | None:
    """The environment for the videos of a run (`evaluation.video`), if it makes any; raises
    `UserError` if it cannot be rendered."""
    if not config.evaluation.video:
        return None
    draw_in_memory()
    environment = scoring_environment(config, pictures=True)
    environment.reset(np.random.SeedSequence(config.seed))
    environment.render()
    return environment


def draw_in_memory() -> None:
    """Let pygame draw without a screen."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def scoring_environments(config: RunConfig) -> list[Environment]:
    """As many environments as an evaluation of the run needs."""
    return [scoring_environment(config) for _ in range(side_by_side(config))]


def side_by_side(config: RunConfig, episodes: int | None = None) -> int:
    """Number of episodes that an evaluation plays side by side; `episodes` overrides the config
    (with `evaluation.min_steps`, their number is not known in advance)."""
    if episodes is None and config.evaluation.min_steps:
        return config.evaluation.environments
    return min(config.evaluation.environments, episodes or config.evaluation.episodes)
