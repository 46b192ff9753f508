"""Layers of small networks on one CPU core, compiled from C (`kernels.c`), for a `Chain`.

With 32 states of 10 x 10 pixels, calling an operation costs as much as its arithmetic. Here a layer
is one call, its ReLU included, and a convolution skips zeros, which most pixels of small games are.

The C code is compiled when proxrl is installed, if there is a C compiler, and compared with NumPy
when it is loaded. Without it, on another device, with autograd, and for layers so large that
PyTorch is faster, the layers of `agents/layers.py` compute the same function up to rounding. Which
of them a run used is in its `machine.jsonl`.
"""

import ctypes
import functools
import importlib.util
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.agents import layers
from proxrl.agents.layers import array_of
from proxrl.agents.weights import gradient_of
from proxrl.types import Array, ArrayFunction, ObservationSpec

MODULE = "proxrl.agents._kernels"  # empty for Python: its functions are called by address
MOST_PRODUCTS = 6_000_000  # of a layer, for the whole batch; above, PyTorch is faster
SIDE, CHANNELS = 3, 16  # of the convolution
PANEL = 16  # columns of a product in `kernels.c`

_ADDRESS, _SIZE, _FLOAT, _FLAG = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float, ctypes.c_int
_ARGUMENTS = {
    "dense_forward": [*[_SIZE] * 3, *[_ADDRESS] * 3, _FLAG, _ADDRESS],
    "dense_backward": [*[_SIZE] * 3, *[_ADDRESS] * 3, _FLAG, *[_ADDRESS] * 5],
    "convolution_forward": [*[_SIZE] * 4, _ADDRESS, _FLOAT, *[_ADDRESS] * 4],
    "convolution_backward": [*[_SIZE] * 4, _ADDRESS, _FLOAT, *[_ADDRESS] * 5],
}


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled functions; None if they were not built, cannot be loaded, or are wrong."""
    module = importlib.util.find_spec(MODULE)
    if module is None or module.origin is None:
        return None
    try:
        found = ctypes.CDLL(module.origin)
    except OSError:
        return None
    for name, arguments in _ARGUMENTS.items():
        getattr(found, name).argtypes = arguments
        getattr(found, name).restype = None
    return found if _is_right(found) else None


def _is_right(found: ctypes.CDLL) -> bool:
    """Whether both layers agree with NumPy, forward and backward: compilers have errors too."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return generator.normal(size=shape).astype(np.float32)

    def empty(*shape: int) -> Array:
        return np.full(shape, np.nan, np.float32)

    x, weight, bias, gradient = normal(7, 35), normal(19, 35), normal(19), normal(7, 19)
    y, scratch = empty(7, 19), empty(7 * 19 + 19 * PANEL)
    to_weight, to_bias, to_x = empty(19, 35), empty(19), empty(7, 35)
    _Call(found.dense_forward, 7, 35, 19, x, weight, bias, 1, y)()
    wanted = (to_weight, to_bias, to_x)
    _Call(found.dense_backward, 7, 35, 19, x, weight, y, 1, gradient, scratch, *wanted)()
    passed = gradient * (y > 0)
    pairs = [(y, np.maximum(x @ weight.T + bias, 0.0)), (to_weight, passed.T @ x)]
    pairs += [(to_bias, passed.sum(axis=0)), (to_x, passed @ weight)]

    images = generator.integers(0, 3, (5, 6, 7, 2)).astype(np.uint8)
    kernel, bias = normal(CHANNELS, SIDE, SIDE, 2), normal(CHANNELS)
    y, gradient = empty(5, 4, 5, CHANNELS), normal(5, 4, 5, CHANNELS)
    scratch = empty((SIDE * SIDE * 2 + 8 * 9) * CHANNELS)
    to_kernel, to_bias = empty(*kernel.shape), empty(CHANNELS)
    size = (5, 6, 7, 2)
    _Call(found.convolution_forward, *size, images, 0.5, kernel, bias, scratch, y)()
    _Call(
        found.convolution_backward, *size, images, 0.5, y, gradient, scratch, to_kernel, to_bias
    )()
    patches = np.lib.stride_tricks.sliding_window_view(images * np.float32(0.5), (3, 3), (1, 2))
    passed = gradient * (y > 0)
    pairs += [
        (y, np.maximum(np.einsum("nhwcij,oijc->nhwo", patches, kernel) + bias, 0.0)),
        (to_kernel, np.einsum("nhwcij,nhwo->oijc", patches, passed)),
        (to_bias, passed.sum(axis=(0, 1, 2))),
    ]
    return all(np.allclose(mine, its, rtol=1e-3, atol=1e-4) for mine, its in pairs)


def _compiled() -> ctypes.CDLL:
    """The library of a layer that was made with it; not an attribute, as it cannot be copied."""
    found = library()
    assert found is not None
    return found


def _is_watched() -> bool:
    """Whether PyTorch must see the operations: autograd, a FLOP counter, an export."""
    return torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack() > 0


def make_dense(module: nn.Linear, relu: bool) -> "layers.Dense | Dense":
    """The layer for a linear module: compiled if possible."""
    return layers.Dense(module, relu) if library() is None else Dense(module, relu)


def make_convolution(
    module: nn.Conv2d, spec: ObservationSpec
) -> "layers.SmallConvolution | Convolution":
    """The layer for the convolution of a small image: compiled if possible."""
    fits = module.kernel_size[0] == SIDE and module.out_channels == CHANNELS
    if library() is None or not fits or spec.dtype not in ("bool", "uint8"):
        return layers.SmallConvolution(module, spec)
    return Convolution(module, spec)


class Dense:
    """y = x W^T + b on flattened inputs, then a ReLU unless it is the last layer."""

    def __init__(self, module: nn.Linear, relu: bool) -> None:
        assert module.bias is not None
        self._weight, self._bias = module.weight, module.bias
        self._units, self._inputs = module.weight.shape
        self._relu = int(relu)
        self._otherwise = layers.Dense(module, relu)

    def _computes(self, inputs: Tensor) -> bool:
        return (
            inputs.is_cpu
            and inputs.numel() * self._units <= MOST_PRODUCTS
            and inputs.dtype == self._weight.dtype == torch.float32
            and inputs.is_contiguous()
            and not _is_watched()
        )

    def forward(self, inputs: Tensor) -> Tensor:
        if not self._computes(inputs):
            return self._otherwise.forward(inputs)
        batch = inputs.shape[0]  # len(inputs) takes some microseconds
        outputs = torch.empty(batch, self._units)
        _compiled().dense_forward(
            batch,
            self._inputs,
            self._units,
            inputs.data_ptr(),
            self._weight.data_ptr(),
            self._bias.data_ptr(),
            self._relu,
            outputs.data_ptr(),
        )
        return outputs

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        if not self._computes(inputs):
            return self._otherwise.backward(inputs, outputs, gradient, wanted)
        batch, gradient = inputs.shape[0], gradient.contiguous()
        scratch = torch.empty(batch * self._units + max(batch, self._units) * PANEL)
        before = torch.empty_like(inputs) if wanted else None
        _compiled().dense_backward(
            batch,
            self._inputs,
            self._units,
            inputs.data_ptr(),
            self._weight.data_ptr(),
            outputs.data_ptr(),
            self._relu,
            gradient.data_ptr(),
            scratch.data_ptr(),
            gradient_of(self._weight).data_ptr(),
            gradient_of(self._bias).data_ptr(),
            None if before is None else before.data_ptr(),
        )
        return before

    def of_state(self) -> ArrayFunction | None:
        inputs, outputs = (np.empty(size, np.float32) for size in (self._inputs, self._units))
        weights = (array_of(self._weight), array_of(self._bias))
        sizes = (1, self._inputs, self._units)
        forward = _Call(_compiled().dense_forward, *sizes, inputs, *weights, self._relu, outputs)

        def function(values: Array) -> Array:
            inputs[:] = values.ravel()
            forward()
            return outputs.copy()

        return function


class Convolution:
    """A 3 x 3 convolution of stride 1 from bytes to 16 channels, and its ReLU. It must be the first
    layer, on the `inputs` of states."""

    def __init__(self, module: nn.Conv2d, spec: ObservationSpec) -> None:
        assert module.bias is not None
        self._weight, self._bias = module.weight, module.bias
        self._spec, self._scale = spec, 1.0 / spec.high
        self._otherwise = layers.SmallConvolution(module, spec)
        height, width = spec.shape[:2]
        self._size = (height, width, module.in_channels)
        self._features = (height - SIDE + 1) * (width - SIDE + 1) * CHANNELS
        padded = (height + SIDE - 1) * (width + SIDE - 1)
        self._scratch = (SIDE * SIDE * module.in_channels + padded) * CHANNELS

    def inputs(self, states: Tensor) -> Tensor:
        """Bytes [batch, height, width, channels]; where this layer cannot compute, patches."""
        byte = states.is_cpu and states.element_size() == 1
        if not byte or self._weight.dtype != torch.float32 or _is_watched():
            return self._otherwise.inputs(states)
        return layers.to_images(states, self._spec).contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.element_size() != 1:
            return self._otherwise.forward(inputs)
        batch = inputs.shape[0]
        outputs, scratch = torch.empty(batch, self._features), torch.empty(self._scratch)
        _compiled().convolution_forward(
            batch,
            *self._size,
            inputs.data_ptr(),
            self._scale,
            self._weight.data_ptr(),
            self._bias.data_ptr(),
            scratch.data_ptr(),
            outputs.data_ptr(),
        )
        return outputs

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        if inputs.element_size() != 1:
            return self._otherwise.backward(inputs, outputs, gradient, wanted)
        assert not wanted, "this convolution must be the first layer"
        gradient, scratch = gradient.contiguous(), torch.empty(self._scratch)
        _compiled().convolution_backward(
            inputs.shape[0],
            *self._size,
            inputs.data_ptr(),
            self._scale,
            outputs.data_ptr(),
            gradient.data_ptr(),
            scratch.data_ptr(),
            gradient_of(self._weight).data_ptr(),
            gradient_of(self._bias).data_ptr(),
        )
        return None

    def of_state(self) -> ArrayFunction | None:
        image = np.empty(math.prod(self._size), self._spec.dtype)
        scratch, outputs = (np.empty(size, np.float32) for size in (self._scratch, self._features))
        weights = (array_of(self._weight.permute(0, 2, 3, 1)), array_of(self._bias))
        arguments = (image, self._scale, *weights, scratch, outputs)
        forward = _Call(_compiled().convolution_forward, 1, *self._size, *arguments)
        numbers = torch.arange(len(image)).view(1, *self._spec.state_shape)
        order = layers.to_images(numbers, self._spec).flatten().numpy()

        def function(state: Array) -> Array:
            state.take(order, out=image, mode="clip")  # of numbers from 0: nothing to clip
            forward()
            return outputs

        return function


class _Call:
    """A compiled function with its arguments. It keeps the arrays: only their addresses, which take
    some microseconds to look up, are passed on."""

    def __init__(self, function: Callable[..., None], *arguments: Array | float) -> None:
        self._kept = arguments
        self._function = function
        self._arguments = [
            argument.ctypes.data if isinstance(argument, np.ndarray) else argument
            for argument in arguments
        ]

    def __call__(self) -> None:
        self._function(*self._arguments)
