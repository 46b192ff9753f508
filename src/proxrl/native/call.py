"""A compiled function with its arguments, and what its callers must know of the C code."""

from collections.abc import Callable

import numpy as np

from proxrl.types import Array

SIDE, CHANNELS = 3, 16  # of the convolution in `layers.c`
REST = 32  # WIDTH there, at most
FANOUT = 100  # of a sum tree in `replay.c`
STEP = np.dtype(  # a record of the replay's log
    [("frame", "<i8"), ("reward", "<f4"), ("action", "<i2"), ("age", "u1"), ("end", "u1")]
)


def backward_room(batch: int, units: int) -> int:
    """Numbers that `dense_backward` needs room for."""
    return 3 * batch * units + max(batch, units) * (REST + 1)


class Call:
    """A compiled function with its arguments, for one thread. It keeps the arrays: only their
    addresses, which take some microseconds to look up, are passed on."""

    def __init__(self, function: Callable[..., None], *arguments: Array | float | None) -> None:
        self._kept = arguments
        self._function = function
        self._arguments = [
            argument.ctypes.data if isinstance(argument, np.ndarray) else argument
            for argument in arguments
        ]

    def __call__(self) -> None:
        self._function(*self._arguments)
