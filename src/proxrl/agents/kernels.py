"""Layers of small networks on one CPU core, compiled from C (`kernels.c`), for a `Chain`.

With 32 states of 10 x 10 pixels, calling an operation costs as much as its arithmetic. Here a layer
is one call, its ReLU included, and a convolution skips zeros, which most pixels of small games are.

Without the compiled library (`agents/library.py`), on another device, with autograd, on images of
more than two values, and for layers so large that PyTorch is faster, the layers of
`agents/layers.py` compute the same function up to rounding.
"""

import ctypes
import math

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.agents import layers
from proxrl.agents.layers import array_of
from proxrl.agents.library import CHANNELS, PANEL, SIDE, Call, library
from proxrl.agents.weights import gradient_of
from proxrl.types import Array, ArrayFunction, ObservationSpec

MOST_PRODUCTS = 6_000_000  # of a layer, for the whole batch; above, PyTorch is faster


def _compiled() -> ctypes.CDLL:
    """The library; layers do not keep it, because a CDLL cannot be deep-copied or pickled."""
    found = library()
    assert found is not None
    return found


def _is_here(weight: Tensor, bias: Tensor, memory_format: torch.memory_format) -> bool:
    """Whether weight and bias are as the compiled functions read them."""
    return (
        weight.is_cpu
        and bias.is_cpu
        and weight.dtype == bias.dtype == torch.float32
        and weight.is_contiguous(memory_format=memory_format)
        and bias.is_contiguous()
        and library() is not None
    )


def _gradient_addresses(weight: Tensor, bias: Tensor) -> tuple[int, int]:
    """Where the compiled functions write both gradients."""
    gradients = (gradient_of(weight), gradient_of(bias))
    for parameter, gradient in zip((weight, bias), gradients, strict=True):
        if gradient.stride() != parameter.stride() or gradient.dtype != parameter.dtype:
            raise ValueError("a gradient has another memory order or dtype than its parameter")
    return gradients[0].data_ptr(), gradients[1].data_ptr()


def _is_watched() -> bool:
    """Whether PyTorch must see the operations: autograd, a FLOP counter, tracing, vmap."""
    return (
        torch.is_grad_enabled()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.maybe_current_level() is not None
    )


def make_dense(module: nn.Linear, relu: bool) -> "layers.Dense | Dense":
    """The layer for a linear module: compiled if possible."""
    return layers.Dense(module, relu) if library() is None else Dense(module, relu)


def make_convolution(
    module: nn.Conv2d, spec: ObservationSpec
) -> "layers.SmallConvolution | Convolution":
    """The layer for the convolution of a small image: compiled if possible."""
    fits = module.kernel_size[0] == SIDE and module.out_channels == CHANNELS
    sparse = spec.dtype in ("bool", "uint8") and spec.high == 1.0  # most values should be zero
    if library() is None or not fits or not sparse:
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
            not _is_watched()
            and inputs.is_cpu
            and inputs.dtype == torch.float32
            and inputs.is_contiguous()
            and inputs.numel() == inputs.shape[0] * self._inputs
            and inputs.numel() * self._units <= MOST_PRODUCTS
            and _is_here(self._weight, self._bias, torch.contiguous_format)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        if not self._computes(inputs):
            return self._otherwise.forward(inputs)
        batch = inputs.shape[0]  # len(inputs) takes some microseconds
        outputs = self._weight.new_empty(batch, self._units)
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
        if not (self._computes(inputs) and _fits(gradient, outputs)):
            return self._otherwise.backward(inputs, outputs, gradient, wanted)
        batch, gradient = inputs.shape[0], gradient.contiguous()
        rest = max(batch, self._units) * PANEL
        scratch = self._weight.new_empty(batch * self._units + rest)
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
            *_gradient_addresses(self._weight, self._bias),
            None if before is None else before.data_ptr(),
        )
        return before

    def of_state(self) -> ArrayFunction | None:
        if not _is_here(self._weight, self._bias, torch.contiguous_format):
            return self._otherwise.of_state()
        inputs, outputs = (np.empty(size, np.float32) for size in (self._inputs, self._units))
        weights = (array_of(self._weight), array_of(self._bias))
        sizes = (1, self._inputs, self._units)
        forward = Call(_compiled().dense_forward, *sizes, inputs, *weights, self._relu, outputs)

        def function(values: Array) -> Array:
            inputs[:] = values.reshape(inputs.shape)
            forward()
            return outputs.copy()

        return function


class Convolution:
    """A 3 x 3 convolution of stride 1 from bytes to 16 channels, and its ReLU. It must be the first
    layer, on the `inputs` of states."""

    def __init__(self, module: nn.Conv2d, spec: ObservationSpec) -> None:
        assert module.bias is not None
        self._weight, self._bias = module.weight, module.bias
        self._spec = spec
        self._otherwise = layers.SmallConvolution(module, spec)
        height, width = spec.shape[:2]
        self._size = (height, width, module.in_channels)
        self._features = (height - SIDE + 1) * (width - SIDE + 1) * CHANNELS
        padded = (height + SIDE - 1) * (width + SIDE - 1)
        self._scratch = (SIDE * SIDE * module.in_channels + padded) * CHANNELS

    def inputs(self, states: Tensor) -> Tensor:
        """Bytes [batch, height, width, channels]; where this layer cannot compute, patches."""
        bytes_here = states.is_cpu and states.dtype in (torch.bool, torch.uint8)
        if _is_watched() or not (
            bytes_here and _is_here(self._weight, self._bias, torch.channels_last)
        ):
            return self._otherwise.inputs(states)
        images = layers.to_images(states, self._spec).contiguous()
        return images if images.shape[1:] == self._size else self._otherwise.inputs(states)

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.element_size() != 1:
            return self._otherwise.forward(inputs)
        batch = inputs.shape[0]
        outputs = self._weight.new_empty(batch, self._features)
        scratch = self._weight.new_empty(self._scratch)
        _compiled().convolution_forward(
            batch,
            *self._size,
            inputs.data_ptr(),
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
        assert _fits(gradient, outputs)
        gradient, scratch = gradient.contiguous(), self._weight.new_empty(self._scratch)
        _compiled().convolution_backward(
            inputs.shape[0],
            *self._size,
            inputs.data_ptr(),
            outputs.data_ptr(),
            gradient.data_ptr(),
            scratch.data_ptr(),
            *_gradient_addresses(self._weight, self._bias),
        )
        return None

    def of_state(self) -> ArrayFunction | None:
        if not _is_here(self._weight, self._bias, torch.channels_last):
            return self._otherwise.of_state()
        image = np.empty(math.prod(self._size), self._spec.dtype)
        scratch, outputs = (np.empty(size, np.float32) for size in (self._scratch, self._features))
        weights = (array_of(self._weight.permute(0, 2, 3, 1)), array_of(self._bias))
        arguments = (image, *weights, scratch, outputs)
        forward = Call(_compiled().convolution_forward, 1, *self._size, *arguments)
        numbers = torch.arange(len(image)).view(1, *self._spec.state_shape)
        order = layers.to_images(numbers, self._spec).flatten().numpy()

        def function(state: Array) -> Array:
            assert state.size == image.size
            state.take(order, out=image, mode="clip")  # nothing is clipped; "raise" copies
            forward()
            return outputs

        return function


def _fits(gradient: Tensor, outputs: Tensor) -> bool:
    same = gradient.dtype == outputs.dtype and gradient.numel() == outputs.numel()
    return same and outputs.is_contiguous()
