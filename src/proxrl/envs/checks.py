"""Checks of what a Gymnasium environment returns.

Rewards, flags, shapes and dtypes are checked on every step, ranges in the first episodes only. What
would train on silently wrong data raises an `EnvironmentFault` of one line, which `Episodes`
completes with the step. Two deviations change nothing that is learned and are accepted: float64 for
float32, and bounded vectors outside of their bounds (one warning: vectors are not rescaled).
"""

import asyncio
import contextlib
import logging
import math
import operator
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from proxrl.errors import EnvironmentFault, UserError, what_raised
from proxrl.types import Array

LARGEST = float(np.finfo(np.float32).max)  # of a reward: the replay stores float32
PASSED_ON = (UserError, MemoryError)  # not the environment's own exceptions
OF_THE_ENVIRONMENT = (Exception, SystemExit, asyncio.CancelledError)
NUMBERS = "biuf"  # kinds of dtypes

log = logging.getLogger("proxrl")
_warned: set[str] = set()


def warn_once(name: str, warning: str) -> None:
    """Log a warning about an environment, once per process: a run has several instances."""
    if name not in _warned:
        _warned.add(name)
        log.warning("proxrl: %s: %s", name, warning)


def number(reward: Any) -> float:
    """A reward as a float."""
    scalar = hasattr(reward, "__float__") and not getattr(reward, "ndim", 0)
    if not scalar or isinstance(reward, complex):
        raise EnvironmentFault(f"the reward is {described(reward)}: must be a number")
    try:
        value = float(reward)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError):
        raise EnvironmentFault(f"the reward is {described(reward)}: must be a number") from None
    if not -LARGEST <= value <= LARGEST:
        raise EnvironmentFault(f"the reward is {value}: must be finite (in float32)")
    return value


def flag(value: Any, name: str) -> bool:
    """`terminated` or `truncated` as a bool."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    integer = isinstance(value, int | np.integer | np.ndarray) and np.ndim(value) == 0
    if integer and value in (0, 1):
        return bool(value)
    raise EnvironmentFault(f"{name} is {described(value)}: must be True or False")


def wrong_answer(method: str, answer: Any, names: str) -> EnvironmentFault:
    """The fault of a `reset` or `step` that returned something else than a tuple of these."""
    found = f"{len(answer)} values" if isinstance(answer, tuple) else described(answer)
    return EnvironmentFault(f"{method}() returned {found}: must return ({names})")


def require_image(space: spaces.Box, raw: Any) -> None:
    """Check shape and dtype of an image."""
    if not isinstance(raw, np.ndarray):
        raise EnvironmentFault(f"the observation is {described(raw)}: must be a NumPy array")
    _require_shape(space, raw, "")
    floats = np.issubdtype(space.dtype, np.floating) and raw.dtype.kind == "f"
    if raw.dtype != space.dtype and not floats:
        raise EnvironmentFault(f"the observation is {raw.dtype}: the space declares {space.dtype}")


def require_valid(space: "spaces.Space[Any]", raw: Any, name: str = "") -> None:
    """Check an observation that is flattened to a vector, also a nested one."""
    what = f"the observation{name}"
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        array = _array(raw, what)
        _require_shape(space, array, name)
        if isinstance(space, spaces.Box):
            _require_castable(space, array, what)
            return
        digits = array - space.start if isinstance(space, spaces.MultiDiscrete) else array
        base = space.nvec if isinstance(space, spaces.MultiDiscrete) else 2
        if not ((digits >= 0) & (digits < base)).all() or (digits != digits // 1).any():
            raise EnvironmentFault(f"{what} is {described(raw)}: must be in {space}")
    elif isinstance(space, spaces.Discrete):
        try:
            valid = 0 <= operator.index(raw) - int(space.start) < int(space.n)
        except TypeError:
            valid = False
        if not valid:
            raise EnvironmentFault(f"{what} is {described(raw)}: must be in {space}")
    elif isinstance(space, spaces.Dict):
        if not isinstance(raw, Mapping) or set(raw) != set(space.spaces):
            keys = ", ".join(map(str, space.spaces))
            raise EnvironmentFault(f"{what} is {described(raw)}: must have the keys {keys}")
        for key, part in space.spaces.items():
            require_valid(part, raw[key], f"{name}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(raw, tuple | list) or len(raw) != len(space.spaces):
            raise EnvironmentFault(
                f"{what} is {described(raw)}: must be a tuple of {len(space.spaces)}"
            )
        for place, part in enumerate(space.spaces):
            require_valid(part, raw[place], f"{name}[{place}]")
    elif not space.contains(raw):
        raise EnvironmentFault(f"{what} is {described(raw)}: must be in {space}")


def require_finite(flat: Array) -> None:
    """Check the values of an observation."""
    if not np.isfinite(flat).all():
        bad = flat[~np.isfinite(flat)][0]
        raise EnvironmentFault(f"the observation has the value {bad}: must be finite")


def out_of_range(space: "spaces.Space[Any]", raw: Any) -> str | None:
    """The first value outside of a Box's bounds, and the bounds; None if there is none."""
    if not isinstance(space, spaces.Box):
        return None
    array = np.asarray(raw)
    outside = (array < space.low) | (array > space.high)
    if not outside.any():
        return None
    low, high = space.low[outside][0], space.high[outside][0]
    return f"{array[outside][0]:g}, outside of its declared range [{low:g}, {high:g}]"


def raised(method: str, error: BaseException) -> EnvironmentFault:
    """The fault for an exception in the environment's own code, in one line with its place."""
    return EnvironmentFault(what_raised(f"{method}()", error))


@contextlib.contextmanager
def calling(method: str) -> Iterator[None]:
    """Turn an exception in the environment's own code into a fault."""
    try:
        yield
    except PASSED_ON:
        raise
    except OF_THE_ENVIRONMENT as error:
        raise raised(method, error) from error


@contextlib.contextmanager
def staying() -> Iterator[None]:
    """Undo a change of the working directory."""
    home = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield
    finally:
        os.fchdir(home)
        os.close(home)


def described(value: Any) -> str:
    """A value in an error message: its content if short, else its type."""
    if value is None or isinstance(value, bool | int | float | np.generic):
        return f"{value!s:.40}"
    if isinstance(value, str):
        return f"the string {value!r:.40}"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of shape {tuple(shape)}" if len(shape) else f"{value!s:.40}"
    return f"of type {type(value).__name__}"


def _array(raw: Any, what: str) -> Array:
    if isinstance(raw, np.ma.MaskedArray) and np.ma.is_masked(raw):
        raise EnvironmentFault(f"{what} is a masked array with masked values: must have values")
    try:
        array = np.asarray(raw)
    except (ValueError, TypeError, RuntimeError):  # ragged, or a tensor that needs a gradient
        array = np.empty(0, object)
    if array.dtype.kind not in NUMBERS:
        raise EnvironmentFault(f"{what} is {described(raw)}: must be an array of numbers")
    return array


def _require_castable(space: spaces.Box, array: Array, what: str) -> None:
    """Check that an array fits an integer or boolean Box: a cast would cut or wrap its values."""
    if space.dtype.kind not in "biu":
        return
    if array.dtype.kind == "f":
        raise EnvironmentFault(f"{what} is {array.dtype}: the space declares {space.dtype}")
    low, high = (0, 1) if space.dtype.kind == "b" else _limits(space.dtype)
    outside = (array < low) | (array > high)
    if outside.any():
        raise EnvironmentFault(
            f"{what} has the value {array[outside][0]}: the space declares {space.dtype}"
        )


def _limits(dtype: "np.dtype[Any]") -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def _require_shape(space: "spaces.Space[Any]", array: Array, name: str) -> None:
    if array.shape != space.shape:
        raise EnvironmentFault(
            f"the observation{name} has shape {array.shape}: the space declares {space.shape}"
        )
