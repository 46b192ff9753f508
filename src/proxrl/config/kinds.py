"""Type lookup and conversion of setting values."""

import functools
import types
import typing
from pathlib import Path
from typing import Any

from proxrl.config.settings import RunConfig
from proxrl.errors import UserError

hints_of = functools.cache(typing.get_type_hints)  # called thousands of times per study


@functools.cache
def kind_of(path: str) -> Any:
    """The type of a setting by its dotted name; None if unknown."""
    kind: Any = RunConfig
    for name in path.split("."):
        hints = hints_of(kind) if isinstance(kind, type) else {}
        if name not in hints:
            return None
        kind = hints[name]
    return None if hasattr(kind, "__dataclass_fields__") else kind


def convert(path: str, value: Any, kind: Any) -> Any:
    """Convert a value to its setting's type (list to tuple, int to float) or raise `UserError`."""
    try:
        return _convert(value, kind)
    except (TypeError, OverflowError):  # an integer that no float can hold
        raise UserError(f"invalid {path} {shown(value)}: must be {_format(kind)}") from None


def _convert(value: Any, kind: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        for one in inner:
            try:
                return _convert(value, one)
            except TypeError:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(one, inner[0]) for one in value)
    elif origin is typing.Literal and type(value) is str and value in inner:
        return value
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif kind is Path and type(value) is str:
        return Path(value)
    elif type(value) is kind:
        return value
    raise TypeError


def shown(value: Any) -> str:
    """A value in an error message."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # an integer of more than 4,300 digits, which Python does not print
        return "with a huge integer"


def _format(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is None:
        return "a group of settings"
    if origin is typing.Literal:
        return " or ".join(map(str, inner))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_format(one) for one in inner if one is not type(None))
    if origin is tuple:
        return f"a list, each item {_format(inner[0])}"
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    return names.get(kind, "a string")
