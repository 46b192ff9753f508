"""Settings from TOML: nested tables become dotted names; names and types are checked."""

from typing import Any

from proxrl.config import RunConfig, flatten
from proxrl.config.kinds import convert, kind_of
from proxrl.errors import UserError, did_you_mean


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
    """Convert a value for `RunConfig`; raises `UserError` for an unknown setting or wrong type.

    `beside`: other keys that are allowed here, for the suggestion.
    """
    kind = kind_of(path)
    if kind is None:
        known = [*flatten(RunConfig(agent="", env="")), *beside]
        meant = did_you_mean(path, known)
        raise UserError(f"unknown key {path}{meant or ' (see proxrl train dqn --help)'}")
    return convert(path, value, kind)
