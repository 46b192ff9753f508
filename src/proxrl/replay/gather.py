"""From step numbers to a minibatch: one gather of all states into preallocated tensors."""

import itertools
import math
from collections.abc import Callable

import cv2
import numpy as np
import torch

from proxrl.native import Call, functions, library
from proxrl.replay.log import ReplayLog
from proxrl.replay.nstep import n_step, powers_of
from proxrl.transfer import to_device
from proxrl.types import Array, Batch, ObservationSpec

PAIRWISE = 8  # from here on NumPy does not add rewards one after the other


class Gather:
    """Builds batches of `batch_size` n-step transitions from a log, in its own buffers."""

    def __init__(
        self, log: ReplayLog, batch_size: int, n: int, discount: float, device: torch.device
    ) -> None:
        self.log = log
        self.batch_size = batch_size
        self._n = n
        self._device = device
        compiled = library() is not None and n < PAIRWISE
        self._transitions = (
            _in_c(log, batch_size, n, discount) if compiled else _in_numpy(log, n, discount)
        )
        self._frames = torch.from_numpy(log.frames).flatten(1)  # [slots, values]: shares memory
        # Both states of every transition: gathered with the stack outermost, then with the stack
        # innermost (channels last), as convolutions prefer.
        values, self._stack = self._frames.shape[1], log.spec.stack
        gathered = (self._stack, 2 * batch_size, values)
        self._gathered = torch.empty(gathered, dtype=self._frames.dtype)
        self._buffers = itertools.cycle(
            [_Buffer(batch_size, log.spec, self._frames.dtype, device) for _ in range(2)]
        )

    @property
    def complete(self) -> int:
        """Transitions below this number are complete: all but a running episode's last n - 1."""
        return self.log.steps - min(self._n - 1, self.log.running)

    def __call__(self, steps: Array) -> Batch:
        """The transitions starting at these steps; states are valid until the call after next."""
        if len(steps) != self.batch_size:
            raise ValueError(f"{len(steps)} steps for batches of {self.batch_size}")
        actions, returns, discounts, slots = self._transitions(steps)
        states, next_states = self._gather(torch.from_numpy(slots.reshape(-1)))
        return Batch(
            states=states,
            actions=to_device(actions, self._device),
            returns=to_device(returns, self._device),
            discounts=to_device(discounts, self._device),
            next_states=next_states,
            indices=steps,
        )

    def _gather(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """States and next states, [batch, stack, *observation], the stack innermost in memory."""
        buffer = next(self._buffers)
        buffer.wait()
        into = self._gathered if self._stack > 1 else buffer.states
        torch.index_select(self._frames, 0, slots, out=into.view(slots.numel(), -1))
        if self._stack > 1:  # OpenCV interleaves several times faster than torch.stack
            cv2.merge(list(self._gathered.numpy()), buffer.states.numpy())
        return buffer.sent()


Transitions = tuple[Array, Array, Array, Array]


def _in_numpy(log: ReplayLog, n: int, discount: float) -> Callable[[Array], Transitions]:
    """A function from steps to actions, returns and discounts [batch], and to the slots of both
    states, [stack, 2 x batch]."""
    window = np.arange(n)

    def transitions(steps: Array) -> Transitions:
        frames, actions, rewards, ages, ends = log.records(steps[:, None] + window)
        returns, discounts, spans = n_step(rewards, ends, discount)
        first, age = frames[:, 0], ages[:, 0].astype(np.int64)
        slots = log.stack_slots(
            np.concatenate([first, first + spans]), np.concatenate([age, age + spans])
        )
        return actions[:, 0].astype(np.int64), returns, discounts, slots

    return transitions


def _in_c(log: ReplayLog, batch: int, n: int, discount: float) -> Callable[[Array], Transitions]:
    """The same, compiled, for batches of this size; with the same bits for n < PAIRWISE."""
    stack, (records, frames) = log.spec.stack, log.rings
    numbers, actions = np.empty((2, batch), np.int64)
    returns, discounts = np.empty((2, batch), np.float32)
    slots = np.empty((stack, 2 * batch), np.int64)
    rings = (records, len(records), stack, frames, log.zero_slot, powers_of(discount, n))
    into = (actions, returns, discounts, slots)
    read = Call(functions().read_transitions, batch, n, numbers, *rings, *into)

    def transitions(steps: Array) -> Transitions:
        np.copyto(numbers, steps, casting="same_kind")
        read()
        return actions.copy(), returns.copy(), discounts.copy(), slots

    return transitions


class _Buffer:
    """A staging buffer. On CUDA copies are asynchronous; there are two buffers, and one is refilled
    only after its last copy has finished."""

    def __init__(
        self, batch_size: int, spec: ObservationSpec, dtype: torch.dtype, device: torch.device
    ) -> None:
        on_cuda = device.type == "cuda"
        shape = (2 * batch_size, math.prod(spec.shape), spec.stack)
        self.states = torch.empty(shape, dtype=dtype, pin_memory=on_cuda)
        self._spec = spec
        self._device = device
        self._copied = torch.Event(device) if on_cuda else None
        self._split_here = self._split(self.states)

    def wait(self) -> None:
        if self._copied is not None:
            self._copied.synchronize()

    def sent(self) -> tuple[torch.Tensor, torch.Tensor]:
        """States and next states, copied to the device."""
        if self._device.type == "cpu":
            return self._split_here
        states = self.states.to(self._device, non_blocking=self._copied is not None)
        if self._copied is not None:
            self._copied.record()
        return self._split(states)

    def _split(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views [batch, stack, *observation] of both halves."""
        images = states.view(2, -1, *self._spec.shape, self._spec.stack).movedim(-1, 2)
        return images[0], images[1]
