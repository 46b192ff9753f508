"""Sixty environments that misbehave, each in one way.

refused    found before anything is written: exit code 2, one line
late       found while training: exit code 2, one line, named in failure.txt
harmless   trains on, bit-identical to the one that behaves
"""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

LATE = 170  # steps of one instance: after the 150 of the preflight
LENGTH = 20  # of an episode, in steps

Fate = Literal["refused", "late", "harmless"]
Answer = tuple[Any, Any, Any, Any, dict[str, Any]]


class Tame(gymnasium.Env[Any, Any]):
    """Behaves: a random walk, restorable, with episodes of 20 steps."""

    observation_space: Any = spaces.Box(-np.inf, np.inf, (3,))
    action_space: Any = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.taken = self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length, self.place = 0, self.np_random.normal(size=3).astype(np.float32)
        return self.observed(self.place.copy()), {}

    def step(self, action: Any) -> Any:
        self.taken += 1
        self.length += 1
        self.place += self.np_random.normal(size=3).astype(np.float32)
        rest = (float(action), False, self.length == LENGTH, {})
        return self.answered((self.observed(self.place.copy()), *rest))

    def observed(self, observation: Any) -> Any:
        return observation

    def answered(self, answer: Answer) -> Any:
        return answer


@dataclass(frozen=True)
class Animal:
    """An environment and what must become of it."""

    kind: type[gymnasium.Env[Any, Any]]
    fate: Fate
    says: str = ""  # part of the line


def _with(**changed: Any) -> type[Tame]:
    return type("Wild", (Tame,), changed)


def _observing(observed: Callable[[Any], Any], space: Any = None) -> type[Tame]:
    space = Tame.observation_space if space is None else space
    return _with(observed=lambda self, place: observed(place), observation_space=space)


def _image(observed: Callable[[Any], Any], space: Any = None) -> type[Tame]:
    space = spaces.Box(0, 255, (12, 12), np.uint8) if space is None else space
    return _observing(lambda place: observed(np.zeros((12, 12), np.uint8)), space)


def _late(change: Callable[[Answer], Any]) -> type[Tame]:
    def answered(self: Tame, answer: Answer) -> Any:
        return change(answer) if self.taken > LATE else answer

    return _with(answered=answered)


def _rewarding(reward: Any, late: bool = False) -> type[Tame]:
    def change(answer: Answer) -> Any:
        return (answer[0], reward, *answer[2:])

    return _late(change) if late else _with(answered=lambda self, answer: change(answer))


def _ending(flag: Any) -> type[Tame]:
    return _with(answered=lambda self, answer: (*answer[:2], flag, *answer[3:]))


def _raise(error: BaseException) -> Any:
    raise error


def _moving(self: Tame, answer: Answer) -> Answer:
    os.chdir("/")
    return answer


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


BYTES = spaces.Box(0, 255, (3,), np.uint8)
BITS = spaces.Box(0, 1, (3,), np.bool_)


class OldApi(Tame):
    """Gym before 0.26."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class PairOfValues(Tame):
    """An observation of two values, which could be taken for (observation, info)."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0][:2]


class Seedless(Tame):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class FallsAtReset(Tame):
    resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.resets += 1
        if self.resets > 9:
            raise OSError("the level file is gone")
        return super().reset(seed=seed)


class Unborn(Tame):
    def __init__(self, render_mode: str | None = None) -> None:
        raise ZeroDivisionError("no such\nworld")


class LeavesAtBirth(Tame):
    def __init__(self, render_mode: str | None = None) -> None:
        sys.exit(0)


class Wanders(Tame):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        os.chdir("/")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        os.chdir("/")
        return super().reset(seed=seed)


class WillNotClose(Tame):
    def close(self) -> None:
        raise RuntimeError("the window is stuck")


class LeavesAtTheEnd(Tame):
    def close(self) -> None:
        sys.exit(3)


class Spaceless(gymnasium.Env[Any, Any]):
    def __init__(self, render_mode: str | None = None) -> None:
        pass


NOT_A_SPACE: Any = 5
IN_UINT8 = "the space declares uint8"
FLOAT_IMAGE = spaces.Box(0, 1, (12, 12, 3))
TWO = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,))})
PAIR = spaces.Tuple((spaces.Discrete(3), spaces.Discrete(3)))
DIGITS = spaces.MultiDiscrete([3, 4])

ZOO: dict[str, Animal] = {
    # observations
    "floats-in-uint8": Animal(_image(lambda image: image / 2), "refused", IN_UINT8),
    "int64-in-uint8": Animal(_image(lambda image: image.astype(np.int64)), "refused", IN_UINT8),
    "bool-in-uint8": Animal(_image(lambda image: image > 0), "refused", IN_UINT8),
    "image-transposed": Animal(
        _image(lambda image: image[:6], spaces.Box(0, 255, (12, 6), np.uint8)),
        "refused",
        "has shape (6, 12): the space declares (12, 6)",
    ),
    "image-broadcasts": Animal(_image(lambda image: image[:1]), "refused", "has shape (1, 12)"),
    "image-a-list": Animal(_image(lambda image: image.tolist()), "refused", "of type list"),
    "image-none": Animal(_image(lambda image: None), "refused", "the observation is None"),
    "image-above-its-bound": Animal(
        _image(lambda image: image + np.uint8(9), spaces.Box(0, 7, (12, 12), np.uint8)),
        "refused",
        "value 9, outside of its declared range [0, 7]",
    ),
    "float-image-of-bytes": Animal(
        _observing(lambda place: np.full((12, 12, 3), 200.0, np.float32), FLOAT_IMAGE),
        "refused",
        "value 200, outside of its declared range [0, 1]",
    ),
    "float-image-uint8": Animal(
        _observing(lambda place: np.ones((12, 12, 3), np.uint8), FLOAT_IMAGE),
        "refused",
        "the observation is uint8: the space declares float32",
    ),
    "float-image-nan": Animal(
        _observing(lambda place: np.full((12, 12, 3), np.nan, np.float32), FLOAT_IMAGE),
        "refused",
        "value nan",
    ),
    "vector-broadcasts": Animal(_observing(lambda place: place[:1]), "refused", "shape (1,)"),
    "vector-a-scalar": Animal(_observing(lambda place: place[0]), "refused", "shape ()"),
    "vector-too-long": Animal(
        _observing(lambda place: np.tile(place, 2)), "refused", "has shape (6,)"
    ),
    "vector-nested": Animal(_observing(lambda place: place[None]), "refused", "shape (1, 3)"),
    "vector-of-strings": Animal(
        _observing(lambda place: list("abc")), "refused", "must be an array of numbers"
    ),
    "vector-ragged": Animal(
        _observing(lambda place: [[1.0], [1.0, 2.0], 3.0]), "refused", "must be an array of numbers"
    ),
    "vector-complex": Animal(
        _observing(lambda place: place + 1j), "refused", "must be an array of numbers"
    ),
    "vector-none": Animal(_observing(lambda place: None), "refused", "the observation is None"),
    "vector-infinite": Animal(
        _observing(lambda place: place * np.float32(np.inf)), "refused", "must be finite"
    ),
    "vector-too-large-for-float32": Animal(
        _observing(lambda place: place.astype(np.float64) * 1e300), "refused", "must be finite"
    ),
    "vector-nan-late": Animal(
        _late(lambda answer: (answer[0] * np.nan, *answer[1:])),
        "late",
        "the observation has the value nan: must be finite, at step 11 of episode 9",
    ),
    "vector-shrinks-late": Animal(
        _late(lambda answer: (answer[0][:2], *answer[1:])), "late", "has shape (2,)"
    ),
    "vector-of-bytes-in-halves": Animal(
        _observing(lambda place: np.full(3, 0.7), BYTES), "refused", "is float64: the space"
    ),
    "vector-of-bytes-too-large": Animal(
        _observing(lambda place: np.full(3, 300), BYTES), "refused", "has the value 300: the space"
    ),
    "vector-of-bytes-negative": Animal(
        _observing(lambda place: [-1, 0, 0], BYTES), "refused", "has the value -1: the space"
    ),
    "vector-of-bits-too-large": Animal(
        _observing(lambda place: [0, 2, 0], BITS), "refused", "has the value 2: the space declares"
    ),
    "vector-masked": Animal(
        _observing(lambda place: np.ma.masked_greater(place, -9.0)), "refused", "masked array"
    ),
    "vector-a-tensor-with-a-gradient": Animal(
        _observing(lambda place: torch.tensor(place, requires_grad=True)), "refused", "of numbers"
    ),
    "dictionary-of-bytes-in-halves": Animal(
        _observing(lambda place: {"x": np.full(3, 0.7)}, spaces.Dict(x=BYTES)),
        "refused",
        "the observation['x'] is float64: the space declares uint8",
    ),
    "discrete-too-high": Animal(
        _observing(lambda place: 3, spaces.Discrete(3)), "refused", "must be in Discrete(3)"
    ),
    "discrete-negative": Animal(
        _observing(lambda place: -1, spaces.Discrete(3)), "refused", "must be in Discrete(3)"
    ),
    "discrete-a-float": Animal(
        _observing(lambda place: 1.5, spaces.Discrete(3)), "refused", "must be in Discrete(3)"
    ),
    "digits-too-high": Animal(
        _observing(lambda place: np.array([1, 4]), DIGITS), "refused", "must be in MultiDiscrete"
    ),
    "bits-of-two": Animal(
        _observing(lambda place: np.array([0, 2, 1]), spaces.MultiBinary(3)),
        "refused",
        "must be in MultiBinary(3)",
    ),
    "dictionary-lacks-a-key": Animal(
        _observing(lambda place: {"a": 1}, TWO), "refused", "must have the keys a, b"
    ),
    "dictionary-lies-inside": Animal(
        _observing(lambda place: {"a": 7, "b": place[:2]}, TWO),
        "refused",
        "the observation['a'] is 7: must be in Discrete(3)",
    ),
    "tuple-too-short": Animal(
        _observing(lambda place: (1,), PAIR), "refused", "must be a tuple of 2"
    ),
    # rewards and flags
    "reward-nan": Animal(_rewarding(float("nan")), "refused", "the reward is nan: must be finite"),
    "reward-infinite-late": Animal(
        _rewarding(-float("inf"), late=True), "late", "the reward is -inf: must be finite"
    ),
    "reward-none": Animal(_rewarding(None), "refused", "the reward is None: must be a number"),
    "reward-an-array": Animal(_rewarding(np.ones(1)), "refused", "an array of shape (1,)"),
    "reward-a-string": Animal(_rewarding("1.5"), "refused", "the string '1.5'"),
    "reward-of-400-digits": Animal(_rewarding(10**400), "refused", "must be finite"),
    "terminated-none": Animal(_ending(None), "refused", "terminated is None"),
    "terminated-an-array": Animal(_ending(np.array([True, False])), "refused", "terminated is an"),
    "terminated-a-string": Animal(_ending("False"), "refused", "the string 'False'"),
    # the interface
    "old-reset": Animal(OldApi, "refused", "reset() returned an array of shape (3,)"),
    "old-reset-of-two": Animal(PairOfValues, "refused", "reset() returned an array of shape (2,)"),
    "old-step": Animal(
        _with(answered=lambda self, answer: answer[:4]), "refused", "step() returned 4 values"
    ),
    "seedless": Animal(Seedless, "refused", "reset() raised TypeError"),
    "spaceless": Animal(Spaceless, "refused", "action_space"),
    "not-a-space": Animal(_with(observation_space=NOT_A_SPACE), "refused", "observation space 5"),
    "raises-at-birth": Animal(
        Unborn, "refused", "its constructor raised ZeroDivisionError: no such (zoo.py, line"
    ),
    "raises-late": Animal(
        _late(lambda answer: _raise(KeyError("lost"))), "late", "step() raised KeyError: 'lost'"
    ),
    "raises-without-words": Animal(
        _late(lambda answer: _raise(Unspeakable())), "late", "step() raised Unspeakable"
    ),
    "cancelled-late": Animal(
        _late(lambda answer: _raise(asyncio.CancelledError())), "late", "raised CancelledError"
    ),
    "raises-at-reset": Animal(
        FallsAtReset, "late", "reset() raised OSError: the level file is gone (zoo.py, line"
    ),
    "exits-at-birth": Animal(LeavesAtBirth, "refused", "its constructor called sys.exit(0)"),
    "exits-late": Animal(
        _late(lambda answer: sys.exit(0)), "late", "step() called sys.exit(0) (zoo.py, line"
    ),
    # harmless
    "changes-folder": Animal(Wanders, "harmless"),
    "changes-folder-in-step": Animal(_with(answered=_moving), "harmless"),
    "close-raises": Animal(WillNotClose, "harmless", "close() raised RuntimeError: the window is"),
    "close-exits": Animal(LeavesAtTheEnd, "harmless", "close() called sys.exit(3)"),
    "float64-for-float32": Animal(_observing(lambda place: place.astype(np.float64)), "harmless"),
    "lists-for-arrays": Animal(_observing(lambda place: place.tolist()), "harmless"),
    "numpy-rewards": Animal(
        _with(answered=lambda self, answer: (answer[0], np.float32(answer[1]), *answer[2:])),
        "harmless",
    ),
    "numpy-flags": Animal(
        _with(answered=lambda self, answer: (*answer[:2], np.bool_(False), *answer[3:])), "harmless"
    ),
    "vector-out-of-bounds": Animal(
        _observing(lambda place: place, spaces.Box(-0.1, 0.1, (3,))),
        "harmless",
        "outside of its declared range [-0.1, 0.1]",
    ),
}


def id_of(name: str) -> str:
    """Register an animal, once; returns its id."""
    env = f"proxrl-zoo/{name}-v0"
    if env not in gymnasium.registry:
        gymnasium.register(env, entry_point=Tame if name == "tame" else ZOO[name].kind)
    return env
