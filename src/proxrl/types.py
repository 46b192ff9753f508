"""The words that rooms exchange: what an environment gives, what the replay holds, what learns.

An *observation* is one frame as the environment gives it and the replay stores it, once. A *state*
is what a network sees: the last `stack` observations, oldest first, zeros before the episode began.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
State = dict[str, Any]  # leaves: arrays, tensors or JSON values; dictionaries inside are groups


class Saveable(Protocol):
    """A part of a run that a checkpoint holds: learner, rule, replay, log, generators, ..."""

    def state(self) -> State:
        """Everything the next step depends on; copies, which nothing that follows changes."""

    def load(self, state: State) -> None:
        """Continue where `state` was taken. Tensors may come back as arrays."""


class End(IntEnum):
    """How a step left its episode."""

    NO = 0
    TERMINATED = 1  # the future is worth nothing
    TRUNCATED = 2  # cut short: bootstrap from the true last observation


class TimeStep(NamedTuple):
    """What an environment answers to an action (or to a reset: reward 0, end NO)."""

    observation: Array  # one frame, `ObservationSpec.shape`
    reward: float  # as the environment gives it; the training loop clips what is learnt from
    end: End  # for learning: a lost life may terminate
    game_over: bool  # the environment needs a reset


@dataclass(frozen=True)
class ObservationSpec:
    """Shape and type of one observation, and how many make a state."""

    shape: tuple[int, ...]
    dtype: str  # NumPy name: uint8 for images, float32 for vectors
    stack: int = 1
    high: float = 1.0  # largest value of an image, which networks scale to 1

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.stack, *self.shape)

    @property
    def is_image(self) -> bool:
        return len(self.shape) >= 2

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


class Batch(NamedTuple):
    """A minibatch of n-step transitions; tensors on the learner's device.

    For a transition that starts at step t and spans k <= n steps (fewer at an episode's end):
    `returns` = sum_{j<k} gamma^j r_{t+j}, `discounts` = gamma^k, or 0 if it terminated.
    """

    states: Any  # torch.Tensor [batch, stack, *observation]
    actions: Any  # torch.Tensor [batch], int64
    returns: Any  # torch.Tensor [batch], float32
    discounts: Any  # torch.Tensor [batch], float32
    next_states: Any  # torch.Tensor [batch, stack, *observation]
    indices: Array  # [batch], absolute step numbers: where new priorities go
    weights: Any = None  # torch.Tensor [batch], importance weights; None: all 1
