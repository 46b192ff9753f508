"""Strict reading of TOML tables: unknown keys and wrong types are errors."""

from collections.abc import Iterable
from typing import Any

from proxrl.errors import UserError, did_you_mean


def merged(usual: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`usual` updated with `own`; nested tables are merged."""
    both = dict(usual)
    for key, value in own.items():
        tables = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if tables else value
    return both


def only_keys(table: dict[str, Any], known: Iterable[str], where: str) -> None:
    """Raise a `UserError` naming the first unknown key."""
    for key in table:
        if key not in known:
            inside = f" in [{where}]" if where else ""
            raise UserError(f"unknown key {key}{inside}{nearest(key, known)}")


def take(table: dict[str, Any], key: str, kind: type, where: str, default: Any = None) -> Any:
    """The value of a key; raises `UserError` if it is missing or of another type."""
    value = table.get(key, default)
    if not is_a(value, kind):
        inside = f"{where}: " if where else ""
        words = {str: "a string", int: "an integer", dict: "a table"}
        problem = "is missing" if value is None else f"must be {words[kind]}"
        raise UserError(f"{inside}{key} {problem}")
    return value


def is_a(value: Any, kind: type) -> bool:
    """`isinstance`, except that booleans are not integers."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the closest match, or all choices."""
    known = list(known)
    return did_you_mean(word, known) or f": choose from {', '.join(known)}"
