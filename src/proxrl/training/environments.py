"""The two environments of a run. They differ in one point: scores never end on a lost life."""

from dataclasses import replace

from proxrl.config import RunConfig
from proxrl.envs import Environment, make


def training_environment(config: RunConfig) -> Environment:
    """As the agent learns in it."""
    return make(config.env, config.protocol)


def scoring_environment(config: RunConfig, pictures: bool = False) -> Environment:
    """As the agent is scored in it; `pictures` if it will be rendered."""
    return make(config.env, replace(config.protocol, life_loss_terminal=False), pictures)
