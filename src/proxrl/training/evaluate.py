"""Scores with their protocol.

A return is undiscounted and unclipped, played in an environment of its own. An evaluation is a
pure function of (weights, run seed, step): it draws from generators derived from them and leaves
nothing behind in the training run.

The episodes advance side by side, one call of the network for all. The call always has a row for
every environment, and episode i is always played in environment i mod `environments`: its bits
depend neither on when the others end nor on what they see.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from proxrl.agents.policy import greedy_actions
from proxrl.config import RunConfig
from proxrl.envs import Environment, Episodes, FrameStack, make
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


def protocol(config: RunConfig, episodes: int, epsilon: float) -> dict[str, Any]:
    """Everything that a score depends on besides the agent; scores compare only if it agrees."""
    rules = config.protocol
    return {
        "env": config.env,
        "returns": "evaluation, undiscounted, unclipped",
        "epsilon": epsilon,
        "episodes": episodes,
        "sticky_actions": rules.sticky_actions,
        "frame_skip": rules.frame_skip,
        "stack": rules.stack,
        "max_episode_steps": rules.max_episode_steps,
        "life_loss_terminal": False,
        "trained_with_life_loss_terminal": rules.life_loss_terminal,
    }


def make_scoring_environments(
    config: RunConfig, episodes: int | None = None, pictures: bool = False
) -> list[Environment]:
    """As many as advance together: where scores are taken a lost life never ends an episode."""
    rules = replace(config.protocol, life_loss_terminal=False)
    count = min(config.evaluation.environments, episodes or config.evaluation.episodes)
    return [make(config.env, rules, pictures) for _ in range(count)]


def evaluate(
    network: nn.Module,
    environments: Sequence[Environment],
    config: RunConfig,
    step: int,
    device: torch.device,
    episodes: int | None = None,
    epsilon: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Array], None] | None = None,
) -> Evaluation:
    """Play `episodes` episodes in environments that are all alike (some idle, if there are more).

    `watch` is given a picture of each step in the first environment.
    """
    episodes = config.evaluation.episodes if episodes is None else episodes
    epsilon = config.evaluation.epsilon if epsilon is None else epsilon
    used = environments[:episodes]
    spec = used[0].observation
    states = np.zeros((len(used), *spec.state_shape), spec.dtype)
    lanes = [
        _Lane(environment, FrameStack(spec, states[place]), config, step, epsilon)
        for place, environment in enumerate(used)
    ]
    for place, lane in enumerate(lanes):
        lane.begin(range(1 + place, 1 + episodes, len(lanes)))
    while any(lane.playing for lane in lanes):
        if stop():
            raise Interrupted
        if watch is not None:
            watch(used[0].render())
        for lane, action in zip(lanes, greedy_actions(network, states, device), strict=True):
            if lane.playing:
                lane.step(int(action))
    if watch is not None:
        watch(used[0].render())
    results = sorted(result for lane in lanes for result in lane.results)
    return Evaluation(
        returns=[result.total for result in results],
        lengths=[result.length for result in results],
        protocol=protocol(config, episodes, epsilon),
    )


class _Result(NamedTuple):
    number: int  # of the episode, from 1
    total: float
    length: int


class _Lane:
    """One environment and the episodes that are played in it, one after the other."""

    def __init__(
        self,
        environment: Environment,
        stack: FrameStack,
        config: RunConfig,
        step: int,
        epsilon: float,
    ) -> None:
        self.playing = False
        self.results: list[_Result] = []
        self._key = (EVALUATION_STREAM, step)
        self._episodes = Episodes(
            environment, config.seed, self._key, config.protocol.max_episode_steps
        )
        self._stack = stack
        self._seed = config.seed
        self._epsilon = epsilon
        self._generator = np.random.default_rng(0)
        self._total = 0.0
        self._numbers: list[int] = []

    def begin(self, numbers: Iterable[int]) -> None:
        """Play the episodes with these numbers."""
        self._numbers = list(numbers)
        self._next()

    def step(self, greedy: int) -> None:
        """One step of the running episode, by the greedy action or a random one."""
        if self._generator.random() < self._epsilon:
            greedy = int(self._generator.integers(self._episodes.environment.actions))
        now = self._episodes.step(greedy)
        self._stack.push(now.observation)
        self._total += now.reward
        if now.game_over:
            length = len(self._episodes.actions)
            self.results.append(_Result(self._episodes.number, self._total, length))
            self._next()

    def _next(self) -> None:
        self.playing = bool(self._numbers)
        if not self.playing:
            return
        number = self._numbers.pop(0)
        self._generator = np.random.default_rng(
            np.random.SeedSequence(self._seed, spawn_key=(*self._key, 0, number))
        )
        self._total = 0.0
        self._stack.begin(self._episodes.begin(number).observation)
