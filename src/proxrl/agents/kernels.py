"""Layers of small networks on one CPU core, compiled from C (`native/layers.c`).

A layer is one call, its ReLU included, on arrays that do not move; a convolution skips zeros, which
most pixels of small games are.
"""

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.agents.layers import array_of
from proxrl.agents.weights import gradient_of
from proxrl.native import CHANNELS, SIDE, Call, backward_room, functions, library
from proxrl.types import Array, ObservationSpec

BYTES = (torch.bool, torch.uint8)


class Dense:
    """y = x W^T + b on flattened inputs, then a ReLU unless it is the last layer."""

    def __init__(self, module: nn.Linear, relu: bool) -> None:
        assert module.bias is not None
        self.weight, self.bias = module.weight, module.bias
        self.units, self._inputs = module.weight.shape
        self.products = self._inputs * self.units  # per state
        self._relu = int(relu)

    @property
    def is_here(self) -> bool:
        """Whether the weights are as the compiled functions read them."""
        return _is_here(self.weight, self.bias, torch.contiguous_format)

    def takes(self, states: Tensor) -> bool:
        """Whether these can be the inputs of the first layer: any numbers."""
        return states.numel() == states.shape[0] * self._inputs

    def room(self, batch: int) -> tuple[Tensor, Array]:
        """Room for states as the inputs of the first layer, and the same as its x."""
        inputs = torch.zeros(batch, self._inputs, dtype=torch.float32, device="cpu")
        return inputs, inputs.numpy()

    def forward(self, x: Array, y: Array) -> Call:
        """From x to y, [batch, inputs] to [batch, units]."""
        weights = (array_of(self.weight), array_of(self.bias))
        return Call(functions().dense_forward, *self._sizes(x), x, *weights, self._relu, y)

    def backward(self, x: Array, y: Array, gradient: Array, to_x: Array | None) -> Call:
        """From dh/dy to dh/dw, and to dh/dx where there is room for it."""
        before = (x, array_of(self.weight), y, self._relu, gradient)
        scratch = np.empty(backward_room(len(x), self.units), np.float32)
        into = (_gradient(self.weight), _gradient(self.bias), to_x)
        return Call(functions().dense_backward, *self._sizes(x), *before, scratch, *into)

    def _sizes(self, x: Array) -> tuple[int, int, int]:
        return len(x), self._inputs, self.units


class Convolution:
    """A 3 x 3 convolution of stride 1 from bytes to 16 channels, and its ReLU: the first layer."""

    def __init__(self, module: nn.Conv2d, spec: ObservationSpec) -> None:
        assert module.bias is not None
        self.weight, self.bias = module.weight, module.bias
        height, width = spec.shape[:2]
        places = (height - SIDE + 1) * (width - SIDE + 1)
        self.units = places * CHANNELS
        self.products = 0  # few: most pixels are zero
        self._spec = spec
        self._image = (height, width, module.in_channels)
        padded = (height + SIDE - 1) * (width + SIDE - 1)
        self._scratch = (SIDE * SIDE * module.in_channels + padded) * CHANNELS

    @staticmethod
    def computes(module: nn.Conv2d, spec: ObservationSpec) -> bool:
        """Whether it is of the compiled size, on images of zeros and ones."""
        fits = module.kernel_size[0] == SIDE and module.out_channels == CHANNELS
        return fits and spec.dtype in ("bool", "uint8") and spec.high == 1.0

    @property
    def is_here(self) -> bool:
        """Whether the weights are as the compiled functions read them."""
        return _is_here(self.weight, self.bias, torch.channels_last)

    def takes(self, states: Tensor) -> bool:
        """Whether these can be the inputs: bytes."""
        return states.dtype in BYTES and states.shape[1:] == self._spec.state_shape

    def room(self, batch: int) -> tuple[Tensor, Array]:
        """Room for states [batch, stack, height, width(, channels)], and the same memory as images
        [batch, height, width, stack x channels] (`layers.to_images`)."""
        images = torch.zeros((batch, *self._image), dtype=torch.uint8, device="cpu")
        stacked = images.view(batch, *self._spec.shape[:2], self._spec.stack, -1)
        states = stacked.permute(0, 3, 1, 2, 4)
        return states.view(batch, *self._spec.state_shape), images.numpy()

    def forward(self, x: Array, y: Array) -> Call:
        """From images to y, [batch, units]."""
        weights = (array_of(self.weight.permute(0, 2, 3, 1)), array_of(self.bias))
        before = (len(x), *self._image, x)
        return Call(functions().convolution_forward, *before, *weights, self._room(), y)

    def backward(self, x: Array, y: Array, gradient: Array, to_x: Array | None) -> Call:
        """From dh/dy to dh/dw."""
        assert to_x is None, "this convolution must be the first layer"
        before = (len(x), *self._image, x, y, gradient, self._room())
        into = (_gradient(self.weight, (0, 2, 3, 1)), _gradient(self.bias))
        return Call(functions().convolution_backward, *before, *into)

    def _room(self) -> Array:
        return np.empty(self._scratch, np.float32)


def _is_here(weight: Tensor, bias: Tensor, memory_format: torch.memory_format) -> bool:
    return (
        weight.is_cpu
        and bias.is_cpu
        and weight.dtype == bias.dtype == torch.float32
        and weight.is_contiguous(memory_format=memory_format)
        and bias.is_contiguous()
        and library() is not None
    )


def _gradient(parameter: Tensor, order: tuple[int, ...] | None = None) -> Array:
    """The gradient as an array, in the memory order of its parameter."""
    gradient = gradient_of(parameter)
    if gradient.stride() != parameter.stride() or gradient.dtype != parameter.dtype:
        raise ValueError("a gradient has another memory order or dtype than its parameter")
    return array_of(gradient if order is None else gradient.permute(order))
