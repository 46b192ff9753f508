"""The functions of `kernels.c`: loading them, and checking that they are right.

The C code is compiled when proxrl is installed, if there is a C compiler with Python's headers. It
needs a CPU with AVX2. Whether it was available to a run is in its `machine.jsonl`.
"""

import ctypes
import functools
import importlib.util
from collections.abc import Callable

import numpy as np
import torch

from proxrl.types import Array

MODULE = "proxrl.agents._kernels"  # empty for Python: its functions are called by address
SIDE, CHANNELS = 3, 16  # of the convolution
PANEL = 16  # columns of a product in `kernels.c`

_ADDRESS, _SIZE, _FLAG = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_ARGUMENTS = {
    "dense_forward": [*[_SIZE] * 3, *[_ADDRESS] * 3, _FLAG, _ADDRESS],
    "dense_backward": [*[_SIZE] * 3, *[_ADDRESS] * 3, _FLAG, *[_ADDRESS] * 5],
    "convolution_forward": [*[_SIZE] * 4, *[_ADDRESS] * 5],
    "convolution_backward": [*[_SIZE] * 4, *[_ADDRESS] * 6],
}


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


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled functions; None if they were not built, cannot be loaded, or are wrong."""
    module = importlib.util.find_spec(MODULE)
    if module is None or module.origin is None:
        return None
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return None
    try:
        found = ctypes.CDLL(module.origin)
        for name, arguments in _ARGUMENTS.items():
            getattr(found, name).argtypes = arguments
            getattr(found, name).restype = None
    except (OSError, AttributeError):
        return None
    return found if _is_right(found) else None


def _is_right(found: ctypes.CDLL) -> bool:
    """Whether both layers agree with NumPy, forward and backward: compilers have errors too."""
    generator = np.random.default_rng(0)
    return (
        _dense_is_right(found, generator, relu=True)
        and _dense_is_right(found, generator, relu=False)
        and _convolution_is_right(found, generator)
    )


def _dense_is_right(found: ctypes.CDLL, generator: np.random.Generator, relu: bool) -> bool:
    batch, inputs, units = sizes = (9, 35, 266)  # nothing fills a register, a panel or its depth
    x, weight = _normal(generator, batch, inputs), _normal(generator, units, inputs)
    bias, gradient = _normal(generator, units), _normal(generator, batch, units)
    x[0, 0] = np.nan
    y, scratch = _unset(batch, units), _unset(batch * units + units * PANEL)
    to_weight, to_bias, to_x = _unset(units, inputs), _unset(units), _unset(batch, inputs)
    Call(found.dense_forward, *sizes, x, weight, bias, int(relu), y)()
    if not np.isnan(y[0]).all():
        return False
    x[0, 0], y[0] = 0.0, 1.0
    into = (to_weight, to_bias, to_x)
    before = (*sizes, x, weight, y, int(relu), gradient, scratch)
    Call(found.dense_backward, *before, *into)()
    passed = gradient * (y > 0) if relu else gradient
    sums = (x @ weight.T + bias)[1:]
    pairs = [(y[1:], np.maximum(sums, 0.0) if relu else sums), (to_weight, passed.T @ x)]
    pairs += [(to_bias, passed.sum(axis=0)), (to_x, passed @ weight)]
    again = _unset(units, inputs)
    Call(found.dense_backward, *before, again, to_bias, None)()
    return _agree([*pairs, (again, to_weight)])


def _convolution_is_right(found: ctypes.CDLL, generator: np.random.Generator) -> bool:
    batch, height, width, channels = sizes = (5, 6, 7, 3)
    images = generator.integers(1, 3, sizes).astype(np.uint8)
    images[generator.random(sizes) < 0.9] = 0
    kernel, bias = _normal(generator, CHANNELS, SIDE, SIDE, channels), _normal(generator, CHANNELS)
    places = (batch, height - SIDE + 1, width - SIDE + 1, CHANNELS)
    y, gradient = _unset(*places), _normal(generator, *places)
    scratch = _unset((SIDE * SIDE * channels + (height + 2) * (width + 2)) * CHANNELS)
    to_kernel, to_bias = _unset(*kernel.shape), _unset(CHANNELS)
    before = (*sizes, images)
    Call(found.convolution_forward, *before, kernel, bias, scratch, y)()
    Call(found.convolution_backward, *before, y, gradient, scratch, to_kernel, to_bias)()
    values, passed = images.astype(np.float32), gradient * (y > 0)
    patches = np.lib.stride_tricks.sliding_window_view(values, (SIDE, SIDE), (1, 2))
    sums = np.einsum("nhwcij,oijc->nhwo", patches, kernel) + bias
    pairs = [(y, np.maximum(sums, 0.0)), (to_bias, passed.sum(axis=(0, 1, 2)))]
    return _agree([*pairs, (to_kernel, np.einsum("nhwcij,nhwo->oijc", patches, passed))])


def _normal(generator: np.random.Generator, *shape: int) -> Array:
    return generator.normal(size=shape).astype(np.float32)


def _unset(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def _agree(pairs: list[tuple[Array, Array]]) -> bool:
    return all(np.allclose(mine, its, rtol=1e-3, atol=1e-4) for mine, its in pairs)
