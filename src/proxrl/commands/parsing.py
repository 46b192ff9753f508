"""Command-line options with tyro: errors on one line, switches with and without a value."""

import contextlib
import dataclasses
import io
import re
from itertools import pairwise
from typing import Any, TypeVar

import tyro

from proxrl.commands.help import Option, groups_of, help_of
from proxrl.commands.mistakes import one_line
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
    switches = tyro.conf.FlagConversionOff not in conf
    if {"-h", "--help"} & set(arguments):
        print(help_of(program, kind, default, switches))
        raise SystemExit(0)
    known = [one for group in groups_of(kind, default) for one in group.options]
    _require_values(arguments, known)
    words: dict[str, Any] = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options: Options = tyro.cli(kind, args=arguments, prog=program, config=conf, **words)
            return options
    except SystemExit as leaving:
        if not leaving.code:
            raise
    wrong = one_line(complaint.getvalue(), arguments, known)
    if len(wrong) > LONGEST:  # an odd value that it quotes
        wrong = f"{wrong[:LONGEST]}..."
    raise UserError(f"{wrong} (see {program} --help)")


def _require_values(arguments: list[str], options: list[Option]) -> None:
    """A list without values would be taken for the default; settings may be empty lists."""
    lists = {one.flag for one in options if one.default == () and "." not in one.path}
    for argument, following in pairwise([*arguments, "--"]):
        if argument in lists and following.startswith("--"):
            raise UserError(f"missing value after {argument}")
