"""Episodes that can be replayed exactly.

An episode is independent of earlier ones: it is a pure function of (run seed, episode number,
actions). A checkpoint therefore stores only its actions to restore any environment, which does not
need to support saving. The replayed episode is compared with the replay log; an environment that
differs is reported as not restorable.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from proxrl.errors import EnvironmentFault
from proxrl.types import Array, End, ObservationSpec, State, TimeStep


class Environment(Protocol):
    """The interface of all environments."""

    observation: ObservationSpec
    actions: int  # number of discrete actions
    first_action: int  # the environment's own index of action 0
    raw_shape: tuple[int, ...] | None  # of its raw observations; None: not an array

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        """Begin an episode that depends only on this seed, not on earlier episodes."""
        ...

    def step(self, action: int) -> TimeStep: ...

    def encode(self, raw: Any) -> Array:
        """Convert a raw observation of the environment."""
        ...

    def render(self) -> Array:
        """The current frame, [height, width, 3] uint8."""
        ...

    def close(self) -> None: ...


class NotRestorable(RuntimeError):
    """An environment that differed under the same seed and actions."""


class Episodes:
    """Numbered episodes of one environment; the actions of the current one are recorded.

    `stream` separates the seeds of training and of each evaluation.
    """

    def __init__(
        self,
        environment: Environment,
        seed: int,
        stream: tuple[int, ...],
        max_episode_steps: int | None = None,
    ) -> None:
        self.environment = environment
        self.number = 0  # of the current episode, from 1
        self.actions: list[int] = []  # of the current episode, so far
        self._seed = seed
        self._stream = stream
        self._max_episode_steps = max_episode_steps

    def begin(self, number: int | None = None) -> TimeStep:
        """The first time step of the next episode, or of the one with this number."""
        return self._begin(self.number + 1 if number is None else number)

    def step(self, action: int) -> TimeStep:
        self.actions.append(action)
        try:
            step = self.environment.step(action)
        except EnvironmentFault as fault:
            raise self._located(fault, f"at step {len(self.actions):,}") from fault.__cause__
        limit = self._max_episode_steps
        if limit is not None and len(self.actions) >= limit and not step.game_over:
            end = step.end if step.end == End.TERMINATED else End.TRUNCATED
            return step._replace(end=end, game_over=True)
        return step

    def state(self) -> State:
        return {"number": self.number, "actions": np.array(self.actions, dtype=np.int16)}

    def load(self, state: State) -> None:
        """Restore number and actions; `relive` then restores the environment."""
        self.number, self.actions = state["number"], state["actions"].tolist()

    def relive(self, number: int, actions: Sequence[int]) -> Iterator[TimeStep]:
        """Replay episode `number` with these actions, including its first time step."""
        yield self._begin(number)
        for action in actions:
            yield self.step(int(action))

    def _begin(self, number: int) -> TimeStep:
        self.number = number
        self.actions = []
        key = (*self._stream, number)
        try:
            return self.environment.reset(np.random.SeedSequence(self._seed, spawn_key=key))
        except EnvironmentFault as fault:
            raise self._located(fault, "at the start") from fault.__cause__

    def _located(self, fault: EnvironmentFault, where: str) -> EnvironmentFault:
        return EnvironmentFault(f"{fault}, {where} of episode {self.number:,}")
