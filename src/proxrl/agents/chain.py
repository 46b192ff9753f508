"""A network body as a function of states, with its backward pass.

    outputs, backward = function.with_backward(states)
    backward(dh_doutputs)      # dh/dw is now in the .grad of every parameter

Built-in bodies are a `Chain` of layers with their own backward pass (`agents/layers.py`): no graph
is recorded, every gradient is written in place, and that of the input is never computed. If they
are small, compiled functions take the place of the chain (`agents/compiled.py`). Any other module
is `Recorded` by autograd. The choice is made when the network is built.

A chain of small layers is also a function of one state on arrays (`of_state`), for acting: with one
state, a call of PyTorch takes longer than its arithmetic.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from proxrl.types import Array, ArrayFunction

Backward = Callable[[Tensor], None]


class Function(Protocol):
    """A function from states to outputs [batch, outputs]."""

    def forward(self, states: Tensor) -> Tensor:
        """The outputs; differentiable by autograd."""

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        """The outputs, and a function that, given dh/d outputs, writes dh/dw to each `.grad`.

        To be used in inference mode, with states from outside of it.
        """

    def of_state(self) -> ArrayFunction | None:
        """The function on arrays, from one state to outputs [outputs], with the weights where they
        are now, for one thread; None if there is none."""


class Layer(Protocol):
    """A differentiable layer."""

    def forward(self, inputs: Tensor) -> Tensor: ...

    def backward(
        self, inputs: Tensor, outputs: Tensor, gradient: Tensor, wanted: bool
    ) -> Tensor | None:
        """Given dh/d outputs (of any shape), write dh/dw to the `.grad` of the layer's weights;
        return dh/d inputs if `wanted`."""

    def of_state(self) -> ArrayFunction | None:
        """The layer on an array, the values of one state; None if only PyTorch computes it."""


class Chain:
    """Layers applied in sequence."""

    def __init__(self, inputs: Callable[[Tensor], Tensor], layers: Sequence[Layer]) -> None:
        self._inputs = inputs  # from states to the first layer's input
        self._layers = list(layers)

    def forward(self, states: Tensor) -> Tensor:
        values = self._inputs(states)
        for layer in self._layers:
            values = layer.forward(values)
        return values

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        values = [self._inputs(states)]
        for layer in self._layers:
            values.append(layer.forward(values[-1]))

        def backward(gradient: Tensor) -> None:
            following: Tensor | None = gradient
            for number in reversed(range(len(self._layers))):
                assert following is not None
                following = self._layers[number].backward(
                    values[number], values[number + 1], following, wanted=number > 0
                )

        return values[-1], backward

    def of_state(self) -> ArrayFunction | None:
        layers = [layer.of_state() for layer in self._layers]
        functions = [function for function in layers if function is not None]
        if len(functions) < len(layers):
            return None

        def outputs(state: Array) -> Array:
            values = state
            for function in functions:
                values = function(values)
            return values

        return outputs


class Recorded:
    """Any module, differentiated by autograd."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def forward(self, states: Tensor) -> Tensor:
        outputs: Tensor = self._module(states)
        return outputs

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        with torch.inference_mode(False), torch.enable_grad():
            outputs = self.forward(states)

        @torch.inference_mode(False)
        def backward(gradient: Tensor) -> None:
            gradients = [p.grad for p in self._module.parameters() if p.grad is not None]
            torch._foreach_zero_(gradients)  # autograd accumulates in place
            torch.autograd.backward(outputs, gradient.clone())  # no inference tensor

        return outputs.detach(), backward

    def of_state(self) -> ArrayFunction | None:
        return None
