"""The anchor of the pull: how it is given, and whether it matches the weights.

An anchor is a module (the target network), its parameters, or a callable that returns either and is
called at each step, for a target network that is created or replaced later.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import is_

import torch
from torch import Tensor, nn

Tensors = nn.Module | Iterable[Tensor]
Anchor = Tensors | Callable[[], Tensors]
Source = list[Tensor] | Callable[[], Tensors]


def source(anchor: Anchor) -> Source:
    """A fixed list, or a callable for each step (a module's `parameters`)."""
    if isinstance(anchor, nn.Module):
        return anchor.parameters  # not a list: `load_state_dict(assign=True)` replaces parameters
    return anchor if callable(anchor) else _as_list(anchor)


def read(anchor: Source) -> list[Tensor]:
    """The current tensors of the anchor."""
    if not callable(anchor):
        return anchor
    tensors = anchor()
    return list(tensors.parameters()) if isinstance(tensors, nn.Module) else _as_list(tensors)


def _as_list(tensors: Iterable[Tensor]) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError("the anchor is a single tensor: pass a list of tensors")
    try:
        return list(tensors)
    except TypeError:
        raise TypeError(
            f"the anchor is a {type(tensors).__name__}: pass the target network or its parameters()"
        ) from None


def same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether these are the same tensor objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def check(weights: Sequence[Tensor], anchor: Sequence[Tensor]) -> None:
    """Raise unless every weight has an anchor of the same shape, dtype and device."""
    if len(weights) != len(anchor):
        raise ValueError(f"the optimizer has {len(weights)} parameters, the anchor {len(anchor)}")
    trained = {id(weight) for weight in weights if weight.requires_grad}
    for number, (weight, fixed) in enumerate(zip(weights, anchor, strict=True)):
        if not isinstance(fixed, Tensor):
            raise TypeError(
                f"anchor {number} is a {type(fixed).__name__}, not a tensor: "
                "pass the target network or its parameters()"
            )
        for what, own, other in (
            ("has shape", tuple(weight.shape), tuple(fixed.shape)),
            ("is", weight.dtype, fixed.dtype),
            ("is on", weight.device, fixed.device),
        ):
            if own != other:
                raise ValueError(
                    f"parameter {number} {what} {own}, its anchor {other}: "
                    "anchors must be in the order of the optimizer's parameter groups"
                )
        if id(fixed) in trained or (weight.requires_grad and _share_memory(weight, fixed)):
            raise ValueError(
                f"anchor {number} is trained by this optimizer: pass a copy of the network"
            )
        if fixed.requires_grad:
            raise ValueError(
                f"anchor {number} requires grad: call requires_grad_(False) on the target network"
            )


def check_precision(weights: Sequence[Tensor]) -> None:
    """Raise for half-precision weights: w + (lr/c)(anchor - w) would be rounded back to w."""
    for number, weight in enumerate(weights):
        if weight.dtype in (torch.float16, torch.bfloat16):
            raise ValueError(
                f"parameter {number} is {weight.dtype}, too imprecise for a pull of lr/c: "
                "keep the weights in float32, as torch.autocast does"
            )


def _share_memory(weight: Tensor, fixed: Tensor) -> bool:
    (start, end), (other_start, other_end) = _extent(weight), _extent(fixed)
    return start < other_end and other_start < end


def _extent(tensor: Tensor) -> tuple[int, int]:
    """Address range [start, end); (0, 0) without memory (empty tensors, the meta device)."""
    start = tensor.data_ptr()
    if not start or not tensor.numel():
        return 0, 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    return start, start + (last + 1) * tensor.element_size()
