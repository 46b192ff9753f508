"""Whether a network is a function of weights and state, which bit-identical resuming requires."""

import itertools
import random

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.errors import UserError
from proxrl.types import ObservationSpec

SMALL = 64  # items of a collection whose content is compared; of a larger one, only their number


@torch.no_grad()
def require_function(body: nn.Module, spec: ObservationSpec, outputs: int, kind: str) -> None:
    """Raise `UserError` unless the output shape is right and values depend only on weights and
    state: two calls on the same random states must agree and change nothing."""
    states = _random_states(spec)
    one = body(states[:1].clone())  # lazy layers draw their weights here
    if not isinstance(one, Tensor):
        raise UserError(f"network {kind} returned a {type(one).__name__}, expected a tensor")
    shape = tuple(one.shape)
    if one.dtype != torch.float32:
        raise UserError(
            f"network {kind} returned {one.dtype}, expected torch.float32: add .float()"
        )
    if shape != (1, outputs):
        raise UserError(
            f"network {kind} returned shape {shape} for one state, expected (1, {outputs})"
        )
    if not one.isfinite().all():
        raise UserError(f"network {kind} returned nan or inf for a state within its range")
    given, before, drawn = states.clone(), _held(body), _random_state()
    first, second = body(given), body(given)
    if _was_written(given) or not torch.equal(given, states):
        raise UserError(f"network {kind} changes its input in forward(): it must not")
    if drawn != _random_state():
        raise UserError(f"network {kind} draws random numbers: it must be deterministic")
    after = _held(body)
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            raise UserError(f"network {kind} changes its {name} in forward(): it must be stateless")
    if not torch.equal(first, second):
        raise UserError(f"network {kind} returned two values for one state: it must be a function")
    if not torch.allclose(first[:1], one, rtol=1e-3, atol=1e-4):
        raise UserError(
            f"network {kind} returned other values for a state beside others: rows of a batch must "
            "not affect each other"
        )
    with torch.enable_grad():
        if not body(given).requires_grad:
            raise UserError(f"network {kind} has no parameter to train that its output depends on")


def _was_written(new: Tensor) -> bool:
    """Whether a new tensor was changed in place, even if no value shows it (relu_)."""
    return not new.is_inference() and new._version > 0


def _random_states(spec: ObservationSpec) -> Tensor:
    """Three states, the same for every run."""
    generator = np.random.default_rng(0)
    size = (3, *spec.state_shape)
    if spec.dtype == "uint8":
        return torch.from_numpy(generator.integers(0, int(spec.high) + 1, size, dtype=np.uint8))
    return torch.from_numpy(generator.random(size, dtype=np.float32))


def _random_state() -> tuple[object, ...]:
    """The state of all global generators."""
    numpy_state = repr(np.random.get_state(legacy=False))  # noqa: NPY002
    return torch.random.get_rng_state().numpy().tobytes(), numpy_state, random.getstate()


def _held(body: nn.Module) -> dict[str, object]:
    """Parameters, buffers and plain attributes by name, as comparable values."""
    held: dict[str, object] = {name: _bits(one) for name, one in body.state_dict().items()}
    held |= {name: _bits(buffer) for name, buffer in body.named_buffers()}
    for prefix, module in body.named_modules():
        for name, value in vars(module).items():
            held[f"{prefix}.{name}".lstrip(".")] = _content(value)
    return held


def _content(value: object) -> object:
    """What can be compared of an attribute; None of what cannot (modules, functions, objects)."""
    if isinstance(value, int | float | str | bytes | tuple | itertools.count | None):
        return repr(value)
    if isinstance(value, list | dict | set):
        return repr(value) if _is_plain(value) else len(value)
    if isinstance(value, Tensor):
        return _bits(value)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, random.Random):
        return value.getstate()
    return None


def _bits(tensor: Tensor) -> bytes:
    """The content of a tensor of any dtype: NumPy has no bfloat16."""
    return tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()


def _is_plain(value: object, depth: int = 3) -> bool:
    """Whether this is a number, text, or a small collection of such, also a nested one."""
    if isinstance(value, dict):
        return _is_plain(list(value), depth) and _is_plain(list(value.values()), depth)
    if isinstance(value, list | tuple | set):
        small = len(value) <= SMALL and depth > 0
        return small and all(_is_plain(one, depth - 1) for one in value)
    return isinstance(value, int | float | str | bytes | None)
