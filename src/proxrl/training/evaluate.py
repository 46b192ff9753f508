"""Scores with their protocol.

A return is undiscounted and unclipped, played in an environment of its own. An evaluation is a
pure function of (weights, run seed, step): it draws from generators derived from them and leaves
nothing behind in the training run.
"""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from proxrl.agents.policy import epsilon_greedy
from proxrl.config import RunConfig
from proxrl.envs import Environment, Episodes, FrameStack
from proxrl.training.streams import EVALUATION_STREAM
from proxrl.types import Array


class Interrupted(Exception):
    """Asked to stop in the middle of an evaluation."""


class Evaluation(NamedTuple):
    """Returns of an evaluation's episodes, and how they were obtained."""

    returns: list[float]
    lengths: list[int]  # agent steps
    protocol: dict[str, Any]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.returns)

    @property
    def standard_deviation(self) -> float | None:
        return statistics.stdev(self.returns) if len(self.returns) > 1 else None


def protocol(
    config: RunConfig, episodes: int, epsilon: float, min_steps: int = 0
) -> dict[str, Any]:
    """Everything that a score depends on besides the agent; scores compare only if it agrees."""
    rules = config.protocol
    return {
        "env": config.env,
        "returns": "evaluation, undiscounted, unclipped",
        "epsilon": epsilon,
        "episodes": episodes,
        "min_steps": min_steps,
        "sticky_actions": rules.sticky_actions,
        "frame_skip": rules.frame_skip,
        "stack": rules.stack,
        "max_episode_steps": rules.max_episode_steps,
        "life_loss_terminal": False,
        "trained_with_life_loss_terminal": rules.life_loss_terminal,
        "trained_with_time_limit_terminal": rules.time_limit_terminal,
    }


def evaluate(
    network: nn.Module,
    environment: Environment,
    config: RunConfig,
    step: int,
    device: torch.device,
    episodes: int | None = None,
    epsilon: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Array], None] | None = None,
) -> Evaluation:
    """Play `episodes` episodes; `watch` is given a picture of each step.

    By default as many as the config says: `evaluation.episodes`, and further ones until all have
    `evaluation.min_steps` agent steps together.
    """
    min_steps = config.evaluation.min_steps if episodes is None else 0
    episodes = config.evaluation.episodes if episodes is None else episodes
    epsilon = config.evaluation.epsilon if epsilon is None else epsilon
    key = (EVALUATION_STREAM, step)
    generator = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(*key, 0)))
    played = Episodes(environment, config.seed, key, config.protocol.max_episode_steps)
    stack = FrameStack(environment.observation)
    returns: list[float] = []
    lengths: list[int] = []
    while len(returns) < episodes or sum(lengths) < min_steps:
        now = played.begin()
        stack.begin(now.observation)
        total = 0.0
        while not now.game_over:
            if stop():
                raise Interrupted
            if watch is not None:
                watch(environment.render())
            action = epsilon_greedy(
                network, stack.state, epsilon, environment.actions, generator, device
            )
            now = played.step(action)
            stack.push(now.observation)
            total += now.reward
        if watch is not None:
            watch(environment.render())
        returns.append(total)
        lengths.append(len(played.actions))
    return Evaluation(returns, lengths, protocol(config, episodes, epsilon, min_steps))
