"""Copies of small arrays to the device."""

import torch

from proxrl.types import Array


def to_device(array: Array, device: torch.device) -> torch.Tensor:
    """The array as a tensor on the device; on the CPU it shares the array's memory.

    From pinned memory, a copy to a GPU does not wait for the work that the GPU has been given. The
    allocator keeps that memory until the copy is done.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
