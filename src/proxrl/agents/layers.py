"""Layers with their own backward pass, for a `Chain`.

They are plain objects that hold the parameters of a module, because looking a parameter up in a
module takes as long as a small operation. Each includes its ReLU, so that its outputs show where
the gradient passes. Images are [batch, height, width, channels], in this memory order.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from proxrl.agents.noisy import NoisyLinear
from proxrl.agents.padding import SameConvolution
from proxrl.agents.weights import gradient_of
from proxrl.types import Array, ArrayFunction, ObservationSpec

NARROW = 16  # with fewer inputs, the transposed product of a weight's gradient is faster
WIDE = 32  # states; from here on W x^T is up to twice as fast as x W^T (MKL with AVX-512)


class Dense:
    """y = x W^T + b on flattened inputs, then a ReLU unless it is the last layer."""

    def __init__(self, module: nn.Linear, relu: bool) -> None:
        self._weight, self._bias = module.weight, module.bias
        self._relu = relu

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.dim() > 2:
            inputs = inputs.flatten(1)
        if not self._relu:
            return functional.linear(inputs, self._weight, self._bias)
        if len(inputs) < WIDE:
            return functional.linear(inputs, self._weight, self._bias).relu_()
        return torch.addmm(self._bias[:, None], self._weight, inputs.t()).relu_().t()

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        if self._relu:
            gradient = _relu_backward(gradient, outputs)
        _write_gradient(gradient, inputs.flatten(1), self._weight, self._bias)
        if not wanted:
            return None
        if inputs.is_contiguous():
            return gradient.mm(self._weight)
        return self._weight.t().mm(gradient.t()).t()  # in the inputs' memory order

    def of_state(self) -> ArrayFunction | None:
        weight, bias, relu = array_of(self._weight), array_of(self._bias), self._relu

        def outputs(inputs: Array) -> Array:
            values: Array = weight @ inputs.ravel()
            values += bias
            return np.maximum(values, 0.0, out=values) if relu else values

        return outputs


class NoisyDense:
    """A noisy dense layer: y = x W^T + b + f_out * ((f_in * x) S^T + s) (`agents/noisy.py`)."""

    def __init__(self, module: NoisyLinear, relu: bool) -> None:
        self._module = module
        self._weight, self._bias = module.weight, module.bias
        self._weight_sigma, self._bias_sigma = module.weight_sigma, module.bias_sigma
        self._relu = relu

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self._module.forward(inputs.flatten(1))
        return outputs.relu_() if self._relu else outputs

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        noise_in, noise_out = self._module.noise_in, self._module.noise_out
        inputs = inputs.flatten(1)
        if self._relu:
            gradient = _relu_backward(gradient, outputs)
        _write_gradient(gradient, inputs, self._weight, self._bias)
        if self._module.silent:
            gradient_of(self._weight_sigma).zero_()
            gradient_of(self._bias_sigma).zero_()
            return gradient.mm(self._weight) if wanted else None
        to_noise = gradient * noise_out
        _write_gradient(to_noise, inputs * noise_in, self._weight_sigma, self._bias_sigma)
        if not wanted:
            return None
        return gradient.mm(self._weight).addcmul_(to_noise.mm(self._weight_sigma), noise_in)

    def of_state(self) -> ArrayFunction | None:
        module, relu = self._module, self._relu
        weight, bias = array_of(self._weight), array_of(self._bias)
        weight_sigma, bias_sigma = array_of(self._weight_sigma), array_of(self._bias_sigma)
        noise_in, noise_out = array_of(module.noise_in), array_of(module.noise_out)

        def outputs(inputs: Array) -> Array:
            inputs = inputs.ravel()
            values: Array = weight @ inputs + bias
            if not module.silent:
                values += (weight_sigma @ (inputs * noise_in) + bias_sigma) * noise_out
            return np.maximum(values, 0.0, out=values) if relu else values

        return outputs


class Convolution:
    """A convolution with SAME or symmetric padding, and its ReLU."""

    def __init__(self, module: nn.Conv2d) -> None:
        self._module = module
        self._weight, self._bias = module.weight, module.bias

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self._module.forward(inputs.permute(0, 3, 1, 2))
        return outputs.relu_().permute(0, 2, 3, 1)

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        module, images = self._module, inputs.permute(0, 3, 1, 2)
        same = module if isinstance(module, SameConvolution) else None
        padded, padding = (images, module.padding) if same is None else same.pad(images)
        gradient = _relu_backward(gradient.view_as(outputs), outputs)
        to_inputs, to_weight, to_bias = torch.ops.aten.convolution_backward(
            gradient.permute(0, 3, 1, 2),
            padded,
            self._weight,
            [module.out_channels],
            module.stride,
            padding,
            module.dilation,
            False,  # transposed
            [0, 0],  # output padding
            module.groups,
            [wanted, True, True],
        )
        gradient_of(self._weight).copy_(to_weight)
        gradient_of(self._bias).copy_(to_bias)
        if not wanted:
            return None
        if same is not None and padded is not images:
            top, bottom, left, right = same.zeros(images)
            height, width = padded.shape[2:]
            to_inputs = to_inputs[:, :, top : height - bottom, left : width - right]
        before: Tensor = to_inputs.permute(0, 2, 3, 1)
        return before

    def of_state(self) -> ArrayFunction | None:
        return None


class SmallConvolution:
    """A convolution of stride 1 as one matrix product over all patches, and its ReLU: for images so
    small (10 x 10) that the overhead of a convolution exceeds its arithmetic. It reads the
    patches of states (`inputs`), so it must be the first layer."""

    def __init__(self, module: nn.Conv2d, spec: ObservationSpec) -> None:
        self._weight, self._bias = module.weight, module.bias
        self._scale = 1.0 / spec.high
        side = module.kernel_size[0]
        # Indices of every patch in a flattened state. Selecting by index takes half the time of
        # copying a strided view.
        numbers = torch.arange(math.prod(spec.state_shape)).view(1, *spec.state_shape)
        images = to_images(numbers, spec)[0]  # [height, width, channels]
        patches = images.unfold(0, side, 1).unfold(1, side, 1).permute(0, 1, 3, 4, 2)
        self._patch = math.prod(patches.shape[2:])
        self._features = math.prod(patches.shape[:2]) * module.out_channels
        self._index = patches.flatten()

    def inputs(self, states: Tensor) -> Tensor:
        """Patches [batch x places, side x side x channels], values within [0, 1]."""
        if self._index.device != states.device:
            self._index = self._index.to(states.device)
        numbers = states.flatten(1).float()
        if self._scale != 1.0:
            numbers = numbers * self._scale
        return numbers.index_select(1, self._index).view(-1, self._patch)

    def forward(self, inputs: Tensor) -> Tensor:
        kernel = self._weight.permute(0, 2, 3, 1).flatten(1)  # [out, side x side x channels]
        outputs = functional.linear(inputs, kernel, self._bias).relu_()
        return outputs.view(-1, self._features)

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        assert not wanted, "a small convolution must be the first layer"
        channels = len(self._weight)
        gradient = _relu_backward(gradient.view(-1, channels), outputs.view(-1, channels))
        kernel = gradient_of(self._weight).permute(0, 2, 3, 1).view(channels, -1)
        kernel.copy_(inputs.t().mm(gradient).t())  # a fifth faster than its transpose
        torch.sum(gradient, dim=0, out=gradient_of(self._bias))
        return None

    def of_state(self) -> ArrayFunction | None:
        index, shape = self._index.cpu().numpy(), (-1, self._patch)
        kernel = array_of(self._weight.permute(0, 2, 3, 1).view(len(self._weight), -1)).T
        bias, scale = array_of(self._bias), np.float32(self._scale)

        def outputs(state: Array) -> Array:
            patches = state.ravel().take(index).astype(np.float32)
            if scale != 1.0:
                patches *= scale
            values: Array = patches.reshape(shape) @ kernel
            values += bias
            return np.maximum(values, 0.0, out=values)

        return outputs


def to_images(states: Tensor, spec: ObservationSpec) -> Tensor:
    """States [batch, stack, height, width(, channels)] as images [batch, height, width, stack x
    channels]."""
    if len(spec.shape) == 2:
        return states.permute(0, 2, 3, 1)
    return states[:, 0] if spec.stack == 1 else states.permute(0, 2, 3, 1, 4).flatten(3)


def array_of(tensor: Tensor | None) -> Array:
    """A view of the same memory."""
    assert tensor is not None
    array: Array = tensor.detach().numpy()
    return array


def _relu_backward(gradient: Tensor, outputs: Tensor) -> Tensor:
    """The gradient before a ReLU: it passes where the output is positive."""
    before: Tensor = torch.ops.aten.threshold_backward(gradient, outputs, 0)
    return before


def _write_gradient(gradient: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor) -> None:
    """dh/dW = (dh/dy)^T x and dh/db = sum dh/dy, over the batch."""
    if inputs.shape[1] < NARROW <= gradient.shape[1]:
        gradient_of(weight).copy_(inputs.t().mm(gradient).t())
    else:
        torch.mm(gradient.t(), inputs, out=gradient_of(weight))
    torch.sum(gradient, dim=0, out=gradient_of(bias))
