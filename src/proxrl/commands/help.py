"""`--help`: the options of a command with their documentation and defaults.

Options are dataclasses, documented by the strings after their fields. tyro parses them; its own
help keeps the line breaks of these strings, which leaves ragged text at 80 columns.
"""

import dataclasses
import inspect
import os
import shutil
import sys
import textwrap
import types
import typing
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from proxrl.config import RunConfig
from proxrl.config.options import docstrings

WIDEST = 100  # columns
BESIDE = 26  # columns: longer options have their text below them
INDENT = 6  # of that text
_POSITIONAL = typing.get_args(tyro.conf.Positional[int])[1]
_NAMES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


class Option(NamedTuple):
    """One option of a command."""

    path: str  # proximal.pull_per_sync
    kind: Any
    default: Any  # dataclasses.MISSING if it is required
    text: str
    positional: bool = False

    @property
    def flag(self) -> str:
        """--proximal.pull-per-sync, or RUN."""
        return self.metavar if self.positional else f"--{self.path.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        if self.positional and _choices(self.kind) is None:
            several = typing.get_origin(self.kind) is tuple
            return (self.path.removesuffix("s") if several else self.path).upper()
        return _metavar(self.kind)


class Group(NamedTuple):
    """Options under one title."""

    title: str
    options: list[Option]


def groups_of(kind: type, default: Any = None) -> list[Group]:
    """All options of a dataclass: its arguments, its own options and one group for each table of
    settings of a `RunConfig`."""
    own = _fields(kind, default)
    found = [
        Group("arguments", [one for one in own if one.positional]),
        Group("options", [one for one in own if not one.positional]),
    ]
    config = getattr(default, "config", None)
    if isinstance(config, RunConfig):
        found += _settings(config)
    return [group for group in found if group.options]


def help_of(program: str, kind: type, default: Any = None, switches: bool = True) -> str:
    """The whole text. `switches`: boolean options take no value."""
    width = min(shutil.get_terminal_size().columns, WIDEST) - 1
    groups = groups_of(kind, default)
    arguments = [one for group in groups for one in group.options if one.positional]
    words = [program, *(_usage(one) for one in arguments)]
    options = any(not one.positional for group in groups for one in group.options)
    parts = [f"usage: {' '.join(words)}{' [OPTIONS]' * options}"]
    parts.append(paragraphs(inspect.cleandoc(kind.__doc__ or ""), width))
    parts += [_shown(group, width, switches) for group in groups]
    return "\n\n".join(parts)


def paragraphs(text: str, width: int) -> str:
    """Wrapped text; a paragraph of commands is indented and kept line by line."""
    return "\n\n".join(
        "\n".join(f"  {line.strip()}" for line in part.splitlines())
        if all(line.strip().startswith("proxrl ") for line in part.splitlines())
        else _wrapped(part, width)
        for part in text.split("\n\n")
    )


# ----------------------------------------------------------------------------------------- details


def _fields(kind: type, default: Any, prefix: str = "") -> list[Option]:
    hints = typing.get_type_hints(kind, include_extras=True)
    texts = docstrings(kind)
    found = []
    for field in dataclasses.fields(kind):
        hint, notes = hints[field.name], ()
        while typing.get_origin(hint) is typing.Annotated:
            notes += typing.get_args(hint)[1:]
            hint = typing.get_args(hint)[0]
        if dataclasses.is_dataclass(hint) or tyro.conf.Suppress in notes:
            continue
        value = field.default if default is None else getattr(default, field.name)
        text = texts.get(field.name, "")
        found.append(Option(prefix + field.name, hint, value, text, _POSITIONAL in notes))
    return found


def _settings(node: Any, prefix: str = "") -> list[Group]:
    """The settings of a config, table by table."""
    title = prefix.rstrip(".") or "the run"
    about = " ".join((type(node).__doc__ or "").split())
    own = [one for one in _fields(type(node), node, prefix) if one.path != "agent"]
    found = [Group(f"{title}: {about[0].lower()}{about[1:]}" if prefix else title, own)]
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if dataclasses.is_dataclass(value):
            found += _settings(value, f"{prefix}{field.name}.")
    return found


def _shown(group: Group, width: int, switches: bool) -> str:
    heads = [_head(one, switches) for one in group.options]
    column = max(map(len, heads)) + 4
    beside = column <= BESIDE + 4
    lines = [_bold(_wrapped(group.title, width))]
    for one, head in zip(group.options, heads, strict=True):
        text = _wrapped(_text(one, switches), width - (column if beside else INDENT))
        first, *rest = text.splitlines() or [""]
        start = f"  {_bold(head)}"
        indent = " " * (column if beside else INDENT)
        lines += [start + " " * (column - 2 - len(head)) + first] if beside else [start]
        lines += [indent + line for line in (rest if beside else [first, *rest]) if line]
    return "\n".join(lines)


def _head(one: Option, switches: bool) -> str:
    if one.positional or _is_switch(one, switches):
        return one.flag
    return f"{one.flag} {one.metavar}"


def _is_switch(one: Option, switches: bool) -> bool:
    """Whether it needs no value: all booleans, or those that are off and not a setting."""
    return one.kind is bool and (switches or (one.default is False and "." not in one.path))


def _text(one: Option, switches: bool) -> str:
    value = one.default
    named = value is None and "None" not in one.text
    if value is dataclasses.MISSING or value == () or named or _is_switch(one, switches):
        return one.text
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return f"{one.text} (default: {value})"


def _usage(one: Option) -> str:
    several = typing.get_origin(one.kind) is tuple
    word = one.metavar + " ..." * several
    return word if one.default is dataclasses.MISSING else f"[{word}]"


def _metavar(kind: Any) -> str:
    if (choices := _choices(kind)) is not None:
        return "{" + ",".join(choices) + "}"
    if typing.get_origin(kind) is tuple:
        return f"{_metavar(typing.get_args(kind)[0])} ..."
    several = alternatives(kind)
    if several != [kind]:
        return "|".join(dict.fromkeys(map(_metavar, several)))
    return _NAMES.get(kind, "VALUE")


def alternatives(kind: Any) -> list[Any]:
    """The types of a union, without None; of another type, itself."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return [kind]
    return [one for one in typing.get_args(kind) if one is not type(None)]


def _choices(kind: Any) -> list[str] | None:
    if kind is bool:
        return ["True", "False"]
    if typing.get_origin(kind) is typing.Literal:
        return list(map(str, typing.get_args(kind)))
    return None


def _wrapped(text: str, width: int) -> str:
    lines = textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _bold(text: str) -> str:
    is_plain = "NO_COLOR" in os.environ or not sys.stdout.isatty()
    return text if is_plain else f"\033[1m{text}\033[0m"
