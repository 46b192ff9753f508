"""The result of a head's loss, and indexing by action."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from proxrl.native import library


class Loss(NamedTuple):
    """Loss, gradient, value and priority of each transition."""

    losses: Tensor  # [batch]; h is their (weighted) mean
    gradients: Tensor  # of the mean of the losses by the outputs, [batch, actions, ...]
    values: Tensor  # Q(s, a; w), [batch]
    priorities: Tensor  # |TD error| or cross-entropy, [batch]


def are_compiled(numbers: Sequence[Tensor], actions: Tensor | None = None) -> bool:
    """Whether the compiled functions (`native/update.c`), which take less time than PyTorch's, can
    read these, all as long as the first: in an update on the CPU."""
    batch = len(numbers[0])
    return (
        torch.is_inference_mode_enabled()
        and library() is not None
        and torch._C._len_torch_dispatch_stack() == 0
        and all(_fits(tensor, torch.float32, batch) for tensor in numbers)
        and (actions is None or _fits(actions, torch.int64, batch))
    )


def _fits(tensor: Tensor, dtype: torch.dtype, batch: int) -> bool:
    return (
        tensor.is_cpu
        and tensor.dtype == dtype
        and tensor.shape[0] == batch
        and tensor.is_contiguous()
    )


def addresses(*tensors: Tensor) -> list[int]:
    """For compiled functions."""
    return [tensor.data_ptr() for tensor in tensors]


def of_action(outputs: Tensor, actions: Tensor) -> Tensor:
    """The outputs of each state's action: [batch, actions, ...] -> [batch, ...]."""
    return outputs.gather(1, _as_index(actions, outputs)).squeeze(1)


def at_action(chosen: Tensor, actions: Tensor, outputs: Tensor) -> Tensor:
    """Inverse of `of_action`, zero for other actions: [batch, ...] -> [batch, actions, ...]."""
    zeros = torch.zeros_like(outputs)
    return zeros.scatter_(1, _as_index(actions, outputs), chosen.unsqueeze(1))


def _as_index(actions: Tensor, outputs: Tensor) -> Tensor:
    if outputs.dim() == 2:
        return actions.unsqueeze(1)
    return actions[:, None, None].expand(-1, 1, outputs.shape[2])
