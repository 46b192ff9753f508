"""Types shared by all packages: time steps, observations, batches, checkpoint state.

An *observation* is one frame as the environment gives it and the replay stores it, once. A *state*
is the network's input: the last `stack` observations, oldest first, zero-padded at episode start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ArrayFunction = Callable[[Array], Array]
State = dict[str, Any]  # nested; leaves are arrays, tensors or JSON values


class Saveable(Protocol):
    """A part of a run stored in checkpoints: learner, rule, replay, log, generators, ..."""

    def state(self) -> State:
        """A copy of everything the next step depends on."""

    def load(self, state: State) -> None:
        """Restore `state`. Tensors may come back as arrays."""


class End(IntEnum):
    """Whether and how a step ended its episode."""

    NO = 0
    TERMINATED = 1  # no bootstrapping
    TRUNCATED = 2  # bootstrap from the true last observation


class TimeStep(NamedTuple):
    """The result of a step, or of a reset (reward 0, end NO)."""

    observation: Array  # one frame, `ObservationSpec.shape`
    reward: float  # unclipped; the training loop clips the rewards used for learning
    end: End  # as seen by the learner: a lost life may terminate
    game_over: bool  # the environment needs a reset


@dataclass(frozen=True)
class ObservationSpec:
    """Shape and dtype of one observation, and how many are stacked into a state."""

    shape: tuple[int, ...]
    dtype: str  # NumPy name: uint8 for images, float32 for vectors
    stack: int = 1
    high: float = 1.0  # largest pixel value; networks scale images to [0, 1]

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

    For a transition that starts at step t and spans k <= n steps (k < n at the end of an episode):
    `returns` = sum_{j<k} gamma^j r_{t+j}, `discounts` = gamma^k, or 0 if it terminated.
    """

    states: Any  # torch.Tensor [batch, stack, *observation]
    actions: Any  # torch.Tensor [batch], int64
    returns: Any  # torch.Tensor [batch], float32
    discounts: Any  # torch.Tensor [batch], float32
    next_states: Any  # torch.Tensor [batch, stack, *observation]
    indices: Array  # [batch], absolute step numbers, for priority updates
    weights: Any = None  # torch.Tensor [batch], importance weights; None: all 1
