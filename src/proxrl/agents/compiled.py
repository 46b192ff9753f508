"""A chain of small layers as compiled functions: for each number of states a list of calls.

With 32 states of 10 x 10 pixels, calling an operation of PyTorch costs as much as its arithmetic.
So the calls of a network's layers, with all of their arguments, are put together once for each
number of states that the network is given, on buffers of their own; applying the network is then to
copy the states and to make these calls.

Without the compiled library (`native/`), on another device, with autograd, on images of
more than two values, and for layers so large that PyTorch is faster, the chain itself computes the
same function up to rounding.
"""

import threading
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from proxrl.agents.chain import Backward, Chain, Function
from proxrl.agents.kernels import Convolution, Dense
from proxrl.agents.weights import gradient_of
from proxrl.native import library
from proxrl.types import Array, ArrayFunction, ObservationSpec

MOST_PRODUCTS = (
    10_000_000  # of a layer, for the whole batch; PyTorch is faster above it (AVX2: near it)
)
MOST_PLANS = 8  # kept by a network

Layers = list[Dense | Convolution]
Places = list[tuple[int, tuple[int, ...]]]  # addresses and strides


def compile_chain(
    chain: Chain, modules: Sequence[nn.Module], spec: ObservationSpec | None = None
) -> Function:
    """The function of these modules with a ReLU after each but the last: compiled if the library
    has such layers, or else the chain of them. `spec` is for convolutions."""
    found: Layers = []
    for module in modules:
        if isinstance(module, nn.Conv2d) and spec and Convolution.computes(module, spec):
            found.append(Convolution(module, spec))
        elif type(module) is nn.Linear:
            found.append(Dense(module, relu=module is not modules[-1]))
    return Compiled(chain, found) if library() and len(found) == len(modules) else chain


class Compiled:
    """A network of compiled layers. What these cannot compute is left to the chain."""

    def __init__(self, chain: Chain, layers: Layers) -> None:
        self._chain = chain
        self._layers = layers
        self._parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
        self._plans = _Plans()

    def forward(self, states: Tensor) -> Tensor:
        plan = self._plan(states, backward=False)
        return self._chain.forward(states) if plan is None else plan.outputs_of(states)

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        plan = self._plan(states, backward=True)
        if plan is None:
            return self._chain.with_backward(states)
        outputs, turn = plan.outputs_of(states), plan.turn

        def backward(gradient: Tensor) -> None:
            if plan.turn != turn or plan.places != self._places(backward=True):
                raise RuntimeError(
                    "the network was applied again, or moved, before its backward pass"
                )
            plan.differentiate(gradient)

        return outputs, backward

    def of_state(self) -> ArrayFunction | None:
        if not all(layer.is_here for layer in self._layers):
            return self._chain.of_state()
        otherwise = self._chain.of_state()
        plan = _Plan(self._layers, 1, self._places(backward=False), backward=False)
        place: Array = plan.states.numpy()[0]
        outputs: Array = plan.outputs.numpy()[0]

        def values(state: Array) -> Array:
            if place.dtype == np.uint8 and state.dtype.kind != "b" and state.dtype != np.uint8:
                assert otherwise is not None
                return otherwise(state)
            place[...] = state.reshape(place.shape)
            plan.run()
            return outputs.copy()

        return values

    def _plan(self, states: Tensor, backward: bool) -> "_Plan | None":
        """The calls for this number of states; None if PyTorch must compute it."""
        if _is_watched() or not states.is_cpu or not self._layers[0].takes(states):
            return None
        batch, places = states.shape[0], self._places(backward)
        plan = self._plans.take((batch, backward))
        if plan is None or plan.places != places:
            most = batch * max(layer.products for layer in self._layers)
            if most > MOST_PRODUCTS or batch == 0 or not all(one.is_here for one in self._layers):
                return None
            plan = _Plan(self._layers, batch, places, backward)
        self._plans.keep((batch, backward), plan)
        return plan

    def _places(self, backward: bool) -> Places:
        """Where the weights are, and their gradients: a plan is for these."""
        places: Places = [(one.data_ptr(), one.stride()) for one in self._parameters]
        if backward:
            gradients = map(gradient_of, self._parameters)
            places += [(one.data_ptr(), one.stride()) for one in gradients]
        return places


class _Plan:
    """The calls of all layers for `batch` states, and what they read and write."""

    @torch.inference_mode(False)
    def __init__(self, layers: Layers, batch: int, places: Places, backward: bool) -> None:
        self.places = places
        self.turn = 0  # how often it was applied
        self.states, inputs = layers[0].room(batch)
        values = [inputs, *(np.empty((batch, layer.units), np.float32) for layer in layers)]
        self.outputs = torch.from_numpy(values[-1])
        self._forward = [layer.forward(values[i], values[i + 1]) for i, layer in enumerate(layers)]
        gradients = [np.empty_like(y) for y in values[1:]] if backward else []
        self._backward = [
            layers[i].backward(
                values[i], values[i + 1], gradients[i], gradients[i - 1] if i > 0 else None
            )
            for i in reversed(range(len(gradients)))
        ]
        self._gradient = torch.from_numpy(gradients[-1]) if backward else None

    def outputs_of(self, states: Tensor) -> Tensor:
        """The outputs of these states, [batch, outputs]."""
        self.states.copy_(states.reshape(self.states.shape))
        self.turn += 1
        self.run()
        return self.outputs.clone()

    def run(self) -> None:
        for call in self._forward:
            call()

    def differentiate(self, gradient: Tensor) -> None:
        """From dh/d outputs to dh/dw, for the states of the last call."""
        assert self._gradient is not None
        self._gradient.copy_(gradient.reshape(self._gradient.shape))
        for call in self._backward:
            call()


class _Plans(threading.local):
    """The latest plans of a network, in each thread; a copy of the network makes its own."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], _Plan] = {}

    def take(self, key: tuple[int, bool]) -> _Plan | None:
        return self._kept.pop(key, None)

    def keep(self, key: tuple[int, bool], plan: _Plan) -> None:
        if len(self._kept) >= MOST_PLANS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = plan

    def __len__(self) -> int:
        return len(self._kept)

    def __deepcopy__(self, memo: object) -> "_Plans":
        return _Plans()

    def __reduce__(self) -> tuple[type["_Plans"], tuple[()]]:
        return _Plans, ()


def _is_watched() -> bool:
    """Whether PyTorch must see the operations: autograd, autocast, FLOP counters, tracing, vmap."""
    return (
        torch.is_grad_enabled()
        or forward_ad._current_level >= 0
        or torch.is_autocast_enabled("cpu")
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.maybe_current_level() is not None
    )
