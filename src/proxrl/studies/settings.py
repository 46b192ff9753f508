"""Settings as TOML writes them: nested tables to dotted names, names and types checked."""

import types
import typing
from pathlib import Path
from typing import Any

from proxrl.config import RunConfig, flatten
from proxrl.errors import UserError, did_you_mean
from proxrl.training import presets


def dotted(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"target": {"tau": 0.1}} as {"target.tau": 0.1}."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= dotted(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def check_setting(path: str, value: Any, beside: tuple[str, ...] = ()) -> Any:
    """The value as a `RunConfig` holds it; a `UserError` if there is no such setting or type.

    `beside`: other keys that may stand at this place, for the suggestion.
    """
    hint = _hint(path)
    if hint is None:
        known = [*flatten(presets.ATARI), *beside]
        meant = did_you_mean(path, known)
        raise UserError(f"unknown key {path}{meant or ' (see proxrl train dqn --help)'}")
    return convert(path, value, hint)


def convert(path: str, value: Any, hint: Any) -> Any:
    """The value as the type has it (lists to tuples, whole numbers to floats), or a `UserError`."""
    try:
        return _converted(value, hint)
    except TypeError:
        raise UserError(f"{path} = {value!r} cannot be: it must be {_said(hint)}") from None


def _hint(path: str) -> Any:
    kind: Any = RunConfig
    for name in path.split("."):
        hints = typing.get_type_hints(kind) if isinstance(kind, type) else {}
        if name not in hints:
            return None
        kind = hints[name]
    return None if hasattr(kind, "__dataclass_fields__") else kind


def _converted(value: Any, hint: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        for one in inner:
            try:
                return _converted(value, one)
            except TypeError:
                continue
    elif origin is tuple and isinstance(value, list):
        return tuple(_converted(one, inner[0]) for one in value)
    elif origin is typing.Literal and value in inner:
        return value
    elif hint is float and type(value) in (int, float):
        return float(value)
    elif hint is Path and type(value) is str:
        return Path(value)
    elif type(value) is hint:
        return value
    raise TypeError


def _said(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(map(str, inner))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_said(one) for one in inner if one is not type(None))
    if origin is tuple:
        return f"a list, each {_said(inner[0])}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return words.get(hint, "a text")
