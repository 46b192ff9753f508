"""Episodes that can be lived again.

An episode depends on nothing before it: it is a pure function of (run seed, episode number,
actions). So its actions are all that a checkpoint needs to bring any environment back to where it
was, without asking the environment to save itself. What is replayed is compared with what the
replay log remembers; an environment that does not come back the same is named as not restorable.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from proxrl.types import Array, End, ObservationSpec, State, TimeStep


class Environment(Protocol):
    """What every environment here is: a seed begins an episode, actions continue it."""

    observation: ObservationSpec
    actions: int  # number of discrete actions
    first_action: int  # the environment's own name for action 0
    raw_shape: tuple[int, ...] | None  # of what it gives itself; None: that is no array

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        """Begin an episode that depends on this seed alone, and on no episode before it."""
        ...

    def step(self, action: int) -> TimeStep: ...

    def encode(self, raw: Any) -> Array:
        """What the environment itself gives, as an observation here."""
        ...

    def render(self) -> Array:
        """The present as a picture, [height, width, 3] uint8."""
        ...

    def close(self) -> None: ...


class NotRestorable(RuntimeError):
    """An environment that did not repeat itself under the same seed and actions."""


class Episodes:
    """Numbered episodes of one environment, the current one journalled.

    `stream` keeps the seeds of training and of each evaluation apart.
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
        step = self.environment.step(action)
        limit = self._max_episode_steps
        if limit is not None and len(self.actions) >= limit and not step.game_over:
            end = step.end if step.end == End.TERMINATED else End.TRUNCATED
            return step._replace(end=end, game_over=True)
        return step

    def state(self) -> State:
        return {"number": self.number, "actions": np.array(self.actions, dtype=np.int16)}

    def load(self, state: State) -> None:
        """Which episode it is, and its actions; `relive` brings the environment there."""
        self.number, self.actions = state["number"], state["actions"].tolist()

    def relive(self, number: int, actions: Sequence[int]) -> Iterator[TimeStep]:
        """Episode `number` again with these actions, its first time step included."""
        yield self._begin(number)
        for action in actions:
            yield self.step(int(action))

    def _begin(self, number: int) -> TimeStep:
        self.number = number
        self.actions = []
        key = (*self._stream, number)
        return self.environment.reset(np.random.SeedSequence(self._seed, spawn_key=key))
