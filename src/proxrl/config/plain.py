"""Settings as flat dictionaries and as JSON."""

import dataclasses
import math
import typing
from typing import Any

from proxrl.config.kinds import convert, hints_of
from proxrl.config.settings import RunConfig
from proxrl.errors import UserError


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting by its dotted name: {"learner.discount": 0.99, ...}."""
    flat: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            flat |= flatten(value, f"{prefix}{item.name}.")
        else:
            flat[prefix + item.name] = value
    return flat


def differences(one: RunConfig, other: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Settings in which two configs differ, by dotted name."""
    left, right = flatten(one), flatten(other)
    return {path: (left[path], right[path]) for path in left if left[path] != right[path]}


def to_json(config: RunConfig) -> dict[str, Any]:
    """Plain JSON values; infinity becomes the string "inf"."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return list(value)
        return "inf" if value == math.inf else value

    return typing.cast(dict[str, Any], plain(dataclasses.asdict(config)))


def from_json(values: dict[str, Any]) -> RunConfig:
    """The inverse of `to_json`; raises `UserError` for unknown or invalid settings."""
    config: RunConfig = _from_plain(RunConfig, values, "")
    return config


def _from_plain(kind: Any, values: Any, prefix: str) -> Any:
    if not isinstance(values, dict):
        raise UserError(f"{prefix.rstrip('.') or 'config.json'} holds {values!r:.40}, not settings")
    hints = hints_of(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UserError(f"unknown setting {prefix}{unknown[0]} in config.json")
    arguments = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(hints[name]):
            value = _from_plain(hints[name], value, f"{prefix}{name}.")
        else:
            known = math.inf if value == "inf" else value
            value = convert(f"{prefix}{name}", known, hints[name])
            if isinstance(value, str) and not value.isprintable():  # it would be printed
                raise UserError(f"invalid {prefix}{name} {value!r:.40}: not printable")
        arguments[name] = value
    return kind(**arguments)
