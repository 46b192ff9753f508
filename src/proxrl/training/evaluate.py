"""Evaluation: scores with their protocol.

Returns are undiscounted and unclipped, from separate environments. An evaluation is a pure function
of (weights, run seed, step): it draws from generators derived from them and does not affect the
training run.

Episodes are played side by side, with one batched forward pass for all. The batch always has a row
for every environment, at least as many as the run's own evaluations have, and an episode has
generators of its own, so that its result does not depend on the other episodes.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from proxrl.agents.policy import greedy_actions
from proxrl.config import ProtocolConfig, RunConfig
from proxrl.envs import Environment, Episodes, FrameStack
from proxrl.training.environments import side_by_side
from proxrl.training.streams import EVALUATION_STREAM
from proxrl.types import Array

EPISODE_LIMIT = 27_000  # agent steps, if neither protocol nor environment limit an episode


class Interrupted(Exception):
    """The evaluation was asked to stop."""


class Evaluation(NamedTuple):
    """The returns of an evaluation's episodes, with their protocol."""

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
    """Everything that a score depends on besides the agent; comparable scores have the same."""
    rules, usual = config.protocol, _frames(ProtocolConfig())
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
        **{name: value for name, value in _frames(rules).items() if value != usual[name]},
    }


def _frames(rules: ProtocolConfig) -> dict[str, Any]:
    """How a frame is shown, which only Atari can change; recorded where it is not the default."""
    return {"frame_size": rules.frame_size, "grayscale": rules.grayscale}


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
    """Play `episodes` episodes in identical environments.

    By default `evaluation.episodes`, and further ones until they total `evaluation.min_steps` agent
    steps. `watch` is called with a rendered image of each step in the first environment.
    """
    min_steps = config.evaluation.min_steps if episodes is None else 0
    episodes = config.evaluation.episodes if episodes is None else episodes
    epsilon = config.evaluation.epsilon if epsilon is None else epsilon
    used = environments if min_steps else environments[:episodes]
    spec = used[0].observation
    rows = max(len(used), side_by_side(config))  # also for one: its bits depend on their number
    states = np.zeros((rows, *spec.state_shape), spec.dtype)
    lanes = [
        _Lane(
            environment,
            FrameStack(spec, states[place]),
            config,
            step,
            epsilon,
            numbers=(
                itertools.count(1 + place, len(used))
                if min_steps
                else iter(range(1 + place, 1 + episodes, len(used)))
            ),
        )
        for place, environment in enumerate(used)
    ]
    results: list[_Result] = []
    wanted: list[_Result] | None = None
    while wanted is None:
        if stop():
            raise Interrupted
        if watch is not None:
            watch(used[0].render())
        actions = greedy_actions(network, states, device)
        played = [
            lane.step(int(action))
            for lane, action in zip(lanes, actions[: len(lanes)], strict=True)
            if lane.playing
        ]
        if ended := [result for result in played if result is not None]:
            results += ended
            wanted = _wanted(results, episodes, min_steps)
    if watch is not None:
        watch(used[0].render())
    return Evaluation(
        returns=[result.total for result in wanted],
        lengths=[result.length for result in wanted],
        protocol=protocol(config, episodes, epsilon, min_steps),
    )


def no_time_limit(environment: Environment, config: RunConfig) -> str:
    """What to say before the first episode of an environment that declares no time limit; empty if
    it declares one (or its suite's protocol does)."""
    limit, what = config.protocol.max_episode_steps, "episodes are truncated"
    if getattr(environment, "time_limit", limit) is not None:
        return ""
    how = "protocol.max_episode_steps"
    if limit is None:
        limit, what, how = EPISODE_LIMIT, "evaluation episodes are truncated", f"set {how}"
    return f"{config.env} declares no time limit: {what} after {limit:,} steps ({how})"


def _limit_of(environment: Environment, config: RunConfig) -> int | None:
    """`EPISODE_LIMIT` if nothing else limits an episode: an evaluation must end."""
    own = config.protocol.max_episode_steps or getattr(environment, "time_limit", None)
    return None if own else EPISODE_LIMIT


class _Result(NamedTuple):
    number: int  # of the episode, from 1
    total: float
    length: int


def _wanted(results: list[_Result], episodes: int, min_steps: int) -> list[_Result] | None:
    """The first episodes by number that satisfy `episodes` and `min_steps`; None if some are still
    being played."""
    if len(results) < episodes:
        return None
    steps, wanted = 0, sorted(results)
    for number, result in enumerate(wanted, start=1):
        if result.number != number:
            return None  # an earlier one is still being played
        steps += result.length
        if number >= episodes and steps >= min_steps:
            return wanted[:number]
    return None


class _Lane:
    """One environment, which plays its episodes one after the other."""

    def __init__(
        self,
        environment: Environment,
        stack: FrameStack,
        config: RunConfig,
        step: int,
        epsilon: float,
        numbers: Iterator[int],
    ) -> None:
        self._key = (EVALUATION_STREAM, step)
        self._episodes = Episodes(
            environment,
            config.seed,
            self._key,
            config.protocol.max_episode_steps or _limit_of(environment, config),
        )
        self._stack = stack
        self._seed = config.seed
        self._epsilon = epsilon
        self._numbers = numbers
        self._begin()

    def step(self, greedy: int) -> _Result | None:
        """Take the greedy or a random action; returns the result if the episode ended."""
        if self._generator.random() < self._epsilon:
            greedy = int(self._generator.integers(self._episodes.environment.actions))
        now = self._episodes.step(greedy)
        self._stack.push(now.observation)
        self._total += now.reward
        if not now.game_over:
            return None
        result = _Result(self._episodes.number, self._total, len(self._episodes.actions))
        self._begin()
        return result

    def _begin(self) -> None:
        """Start the next episode, if there is one."""
        number = next(self._numbers, None)
        self.playing = number is not None
        if number is not None:
            self._total = 0.0
            self._generator = np.random.default_rng(
                np.random.SeedSequence(self._seed, spawn_key=(*self._key, 0, number))
            )
            self._stack.begin(self._episodes.begin(number).observation)
