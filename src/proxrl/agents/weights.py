"""A network's weights as one vector, as the paper writes them: w, theta.

A `Layout` maps each parameter to its place in the vector; the parameters become views of it. Pull,
Adam, sync, Polyak averaging and distances are then calls on one tensor, for any network.

The vector contains only parameters that require a gradient. A network with several dtypes has one
vector for each, so everything here is a list, usually of length one.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from proxrl.errors import UserError

ALIGNMENT = 16  # elements; every parameter starts on a cache line of float32


class Slot(NamedTuple):
    """The place of one parameter."""

    name: str
    vector: int  # which of the vectors
    offset: int  # elements
    shape: torch.Size
    stride: tuple[int, ...]  # keeps the memory format, e.g. channels last


class Layout:
    """The places of all trained parameters of a network."""

    def __init__(self, network: nn.Module) -> None:
        trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        if not trained:
            raise UserError("the network has no parameter that requires a gradient")
        _require_separate(dict(network.named_parameters()))
        self.device = next(iter(trained.values())).device
        self.dtypes = list(dict.fromkeys(p.dtype for p in trained.values()))
        self._lengths = [0] * len(self.dtypes)
        self.slots = list(self._place(trained))

    def _place(self, trained: dict[str, nn.Parameter]) -> Iterator[Slot]:
        for name, parameter in trained.items():
            number = self.dtypes.index(parameter.dtype)
            offset = self._lengths[number]
            self._lengths[number] += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
            stride = torch.empty_like(parameter).stride()  # dense, in the parameter's memory order
            yield Slot(name, number, offset, parameter.shape, stride)

    def zeros(self) -> list[Tensor]:
        """New zero vectors."""
        return [
            torch.zeros(length, dtype=dtype, device=self.device)
            for length, dtype in zip(self._lengths, self.dtypes, strict=True)
        ]

    def views(self, vectors: list[Tensor]) -> dict[str, Tensor]:
        """Views of the vectors by parameter name, in the parameter's shape."""
        return {
            slot.name: vectors[slot.vector].as_strided(slot.shape, slot.stride, slot.offset)
            for slot in self.slots
        }

    @torch.no_grad()
    def move_(self, network: nn.Module, with_gradient: bool) -> list[Tensor]:
        """Turn the network's parameters into views of new vectors and return these.

        With gradients, each vector has a `.grad`, and each parameter a view of it.
        """
        vectors = self.zeros()
        parameters = dict(network.named_parameters())
        for name, view in self.views(vectors).items():
            parameters[name].data = view.copy_(parameters[name])
        if with_gradient:
            gradients = self.zeros()
            for vector, gradient in zip(vectors, gradients, strict=True):
                vector.requires_grad_().grad = gradient
            for name, view in self.views(gradients).items():
                parameters[name].grad = view
        return vectors


def _require_separate(parameters: dict[str, nn.Parameter]) -> None:
    """Raise if two parameters share memory; tied weights must be one `nn.Parameter`."""
    spans = sorted(
        (p.data_ptr(), p.data_ptr() + p.numel() * p.element_size(), name)
        for name, p in parameters.items()
        if p.numel()
    )
    for (_, end, one), (start, _, other) in itertools.pairwise(spans):
        trained = parameters[one].requires_grad or parameters[other].requires_grad
        if trained and start < end:
            raise UserError(
                f"the network's parameters {one} and {other} share memory: to tie weights, use the "
                "same nn.Parameter in both places"
            )


def gradient_of(weight: Tensor | None) -> Tensor:
    """The gradient buffer of a vector or parameter."""
    assert weight is not None
    assert weight.grad is not None, "move the network's weights into vectors first"
    return weight.grad
