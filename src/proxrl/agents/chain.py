"""A network's body as a function of states, and the way back from its outputs to its weights.

    outputs, backward = function.with_backward(states)
    backward(dh_doutputs)      # dh/dw is now in the .grad of every parameter

Built-in bodies are a `Chain`, layers that know their own backward pass (`agents/layers.py`): no
graph is recorded, every gradient is written where it belongs, and that of the input is never
computed. Any other module is `Recorded` by autograd. Which it is, is decided when the network is
built.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

Backward = Callable[[Tensor], None]


class Function(Protocol):
    """States to numbers, [batch, outputs]."""

    def forward(self, states: Tensor) -> Tensor:
        """The outputs; autograd can follow."""

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        """The outputs, and the function that takes dh/d outputs to dh/dw, in each `.grad`."""


class Layer(Protocol):
    """A differentiable function with weights."""

    def forward(self, inputs: Tensor) -> Tensor: ...

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        """Write dh/dw of this layer into the `.grad` of its weights, given dh/d outputs (in any
        shape); return dh/d inputs if it is wanted."""


class Chain:
    """Layers, one after the other."""

    def __init__(self, inputs: Callable[[Tensor], Tensor], layers: Sequence[Layer]) -> None:
        self._inputs = inputs  # states to what the first layer reads
        self._layers = list(layers)

    def forward(self, states: Tensor) -> Tensor:
        values = self._inputs(states)
        for layer in self._layers:
            values = layer.forward(values)
        return values

    @torch.no_grad()
    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        values = [self._inputs(states)]
        for layer in self._layers:
            values.append(layer.forward(values[-1]))

        @torch.no_grad()
        def backward(gradient: Tensor) -> None:
            following: Tensor | None = gradient
            for number in reversed(range(len(self._layers))):
                assert following is not None
                following = self._layers[number].backward(
                    values[number], values[number + 1], following, wanted=number > 0
                )

        return values[-1], backward


class Recorded:
    """Any module, differentiated by autograd."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def forward(self, states: Tensor) -> Tensor:
        outputs: Tensor = self._module(states)
        return outputs

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        with torch.enable_grad():
            outputs = self.forward(states)

        def backward(gradient: Tensor) -> None:
            gradients = [p.grad for p in self._module.parameters() if p.grad is not None]
            torch._foreach_zero_(gradients)  # autograd adds to them, in place
            torch.autograd.backward(outputs, gradient)

        return outputs.detach(), backward
