"""Command-line options with tyro: errors on one line, switches with and without a value."""

import contextlib
import dataclasses
import io
import re
from itertools import pairwise
from typing import Any, TypeVar

import tyro

from proxrl.config import RunConfig, flatten, validated
from proxrl.errors import UserError

Options = TypeVar("Options")
LONGEST = 300  # characters of a message


def value_of(option: str, arguments: list[str]) -> str | None:
    """The value of an option, before the rest is parsed; raises `UserError` if it is given twice,
    because the parser would take the last one."""
    given = [value for name, value in pairwise(arguments) if name == option]
    given += [one.removeprefix(f"{option}=") for one in arguments if one.startswith(f"{option}=")]
    if len(given) > 1:
        raise UserError(f"{option} is given {len(given)} times: {', '.join(given)}")
    return given[0] if given else None


def parse_settings(
    kind: type[Options], arguments: list[str], program: str, default: Any
) -> Options:
    """Options with a valid `RunConfig`: its switches take True, False or no value (True), as do
    those of the options themselves."""
    own = {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}
    switches = {
        path.replace("_", "-")
        for path, value in {**flatten(default.config), **own}.items()
        if isinstance(value, bool)
    }
    explicit: list[str] = []
    for argument, following in pairwise([*arguments, "--"]):
        explicit.append(argument)
        is_switch = argument.removeprefix("--").replace("_", "-") in switches
        if argument.startswith("--") and is_switch and following.startswith("-"):
            explicit.append("True")
    options = parse_options(kind, explicit, program, default, (tyro.conf.FlagConversionOff,))
    config: RunConfig = options.config  # type: ignore[attr-defined]
    if config != default.config:
        try:
            validated(config)
        except UserError as error:  # names the setting: with dashes, as it was typed
            raise UserError(re.sub("^invalid (?=[a-z])", "invalid --", str(error))) from None
    return options


def parse_options(
    kind: type[Options],
    arguments: list[str],
    program: str,
    default: Any = None,
    conf: tuple[Any, ...] = (tyro.conf.FlagCreatePairsOff,),
) -> Options:
    """Parse options with tyro, booleans as bare flags; its errors become one line."""
    words: dict[str, Any] = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options: Options = tyro.cli(kind, args=arguments, prog=program, config=conf, **words)
            return options
    except SystemExit as leaving:
        if not leaving.code:
            raise
    raise UserError(f"{_one_line(complaint.getvalue())} (see {program} --help)")


def _one_line(box: str) -> str:
    """The message in tyro's box (title, message and hints, separated by rules) on one line."""
    inside = "\n".join(line.strip("│╭╮╰╯ ") for line in box.splitlines())
    _, message, *hints = (" ".join(part.split()) for part in re.split("[─-]{4,}", inside))
    message = re.sub(
        r"invalid literal for int\(\) with base 10: ('[^']*')",
        r"\1 is not an integer (write 1_000_000, not 1e6)",
        message,
    )
    near = re.search(r"Perhaps you meant: (--\S+)", " ".join(hints))
    if len(message) > LONGEST:  # an odd value that it quotes
        message = f"{message[:LONGEST]}..."
    return f"{message}; did you mean {near.group(1)}?" if near else message
