"""What is wrong with a command line, in one line: tyro's messages in the words of `UserError`."""

import difflib
import re
import typing
from collections.abc import Sequence
from typing import Any

from proxrl.commands.help import Option, alternatives

ALSO = {  # what other libraries call a setting
    "alpha": "learner.learning_rate",
    "batch": "replay.batch_size",
    "buffer-size": "replay.capacity",
    "epsilon": "exploration.final_epsilon",
    "game": "env",
    "gamma": "learner.discount",
    "kappa": "proximal.pull_per_sync",
    "lr": "learner.learning_rate",
    "num-steps": "steps",
    "out": "folder",
    "timesteps": "steps",
    "total-timesteps": "steps",
}


def one_line(box: str, arguments: Sequence[str], options: Sequence[Option]) -> str:
    """tyro's box of text (title, message and hints, separated by rules) as one line."""
    inside = "\n".join(line.strip("│╭╮╰╯ ") for line in box.splitlines())
    parts = [" ".join(part.split()) for part in re.split("[─-]{4,}", inside)]
    message = parts[1] if len(parts) > 1 else " ".join(parts)
    if found := re.match(r"Unrecognized options: (.*)", message):
        return _unknown(found[1].split(", "), arguments, options)
    if message.startswith("Missing from "):
        one = next(one for one in options if one.positional)
        return f"missing argument: {one.flag}, {_lower(one.text).rstrip('.')}"
    if found := re.match(r"Missing value for argument '(\S+)'", message):
        return f"missing value after {found[1]}"
    if found := re.match(r"Error parsing (\S+?):|invalid choice .* for argument '(\S+)'", message):
        return _invalid((found[1] or found[2]).rstrip("."), arguments, options) or message
    return message


def _unknown(words: Sequence[str], arguments: Sequence[str], options: Sequence[Option]) -> str:
    names = [word for word in words if word.startswith("-")]
    if names:
        name = names[0].partition("=")[0]
        return f"unknown option {name}{_near(name, options)}"
    unexpected = " ".join(words)
    before = list(arguments[: arguments.index(words[0])]) if words[0] in arguments else []
    if before[-2:-1] == ["--seed"] and any(one.path == "seeds" for one in options):
        return f"--seed takes one value; did you mean --seeds {before[-1]} {unexpected}?"
    return f"unexpected argument {unexpected}"


def _near(name: str, options: Sequence[Option]) -> str:
    """A suggestion, first by the last part of a dotted name: --learning-rate, --step."""
    bare = name.lstrip("-").replace("_", "-").lower()
    flags = [one.flag for one in options if not one.positional]
    also = f"--{ALSO.get(bare, '').replace('_', '-')}"
    last = {flag.rsplit(".", 1)[-1].lstrip("-"): flag for flag in reversed(flags)}
    if also in flags:
        near = [also]
    elif bare in last:
        near = [flag for flag in flags if flag.rsplit(".", 1)[-1].lstrip("-") == bare]
    else:
        near = difflib.get_close_matches(f"--{bare}", flags, n=1, cutoff=0.7)
        near = near or [last[one] for one in difflib.get_close_matches(bare, last, n=1, cutoff=0.7)]
    return f"; did you mean {' or '.join(near[:3])}?" if near else ""


def _invalid(name: str, arguments: Sequence[str], options: Sequence[Option]) -> str | None:
    """invalid --seeds 0,1: must be integers separated by spaces."""
    for one in options:
        if name in (one.flag, one.path):
            value = " ".join(_values(one, arguments))
            what = one.path if one.positional else one.flag
            return f"invalid {what} {value}: {_valid(one.kind, value)}"
    return None


def _values(one: Option, arguments: Sequence[str]) -> list[str]:
    """What was given for an option."""
    values: list[str] = []
    if one.positional:
        return [word for word in arguments if not word.startswith("-")][:1]
    for at, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") == one.flag:
            values = [value] if equals else []
            for following in arguments[at + 1 :] if not equals else ():
                if following.startswith("--"):
                    break
                values.append(following)
    return values if typing.get_origin(one.kind) is tuple else values[:1]


def _valid(kind: Any, value: str) -> str:
    first = alternatives(kind)[0]
    if typing.get_origin(first) is typing.Literal:
        return f"choose from {', '.join(map(str, typing.get_args(first)))}"
    if first is bool:
        return "must be True or False"
    of = typing.get_args(first)[0] if typing.get_origin(first) is tuple else None
    what = {int: "an integer", float: "a number"}.get(first, "a valid value")
    if of is not None:
        what = f"{'integers' if of is int else 'numbers'} separated by spaces"
    if first is int and re.fullmatch(r"[0-9.]+[eE][0-9]+", value):
        return f"must be {what} (write {int(float(value)):_})"
    return f"must be {what}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
