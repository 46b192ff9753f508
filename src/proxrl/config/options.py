"""Options of a rule that is not built in: KEY=VALUE, read as the rule's own dataclass."""

import ast
import dataclasses
import inspect
import itertools
import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any, TypeVar, get_type_hints

from proxrl.config.kinds import convert
from proxrl.config.rules import RuleOptions
from proxrl.errors import UserError

Options = TypeVar("Options", bound=RuleOptions)
AS_PYTHON = {"inf": math.inf, "True": True, "False": False, "None": None}


def read_options(kind: type[Options], pairs: Sequence[str], rule: str) -> Options:
    """`["half_life=3"]` as an instance of `kind`, or a `UserError`."""
    where = f"proximal.options of {rule}"
    known = [field.name for field in dataclasses.fields(kind)]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UserError(f"{where}: invalid {pair!r}: must be KEY=VALUE")
        if name not in known:
            choices = f"choose from {', '.join(known)}" if known else "the rule has no options"
            raise UserError(f"{where}: unknown option {name}: {choices}")
        if name in values:
            raise UserError(f"{where}: {name} is set twice")
        values[name] = _read(f"{where}: {name}", text, hints[name])
    try:
        options = kind(**values)
    except TypeError:
        missing = [name for name in known if name not in values]
        raise UserError(f"{where}: missing one of {', '.join(missing)}") from None
    check_options(options, f"{where}: ")
    return options


def check_options(options: RuleOptions, prefix: str) -> None:
    """A `UserError` that names the first invalid option, with `prefix` before its name."""
    for name, invalid, valid in options.problems():
        if invalid:
            raise UserError(f"invalid {prefix}{name} {getattr(options, name)}: {valid}")


def describe_options(kind: type[RuleOptions]) -> str:
    """A line for each option: its name, its default and its docstring."""
    lines = []
    for field in dataclasses.fields(kind):
        default = "" if field.default is dataclasses.MISSING else f"{field.default}"
        lines.append(f"  {field.name}={default}  {docstrings(kind).get(field.name, '')}".rstrip())
    return "\n".join(lines) or "  (none)"


def docstrings(kind: type) -> dict[str, str]:
    """The strings that follow a class's fields in its source, by field; empty without a source."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        return {}
    body = getattr(tree, "body", [])
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _read(path: str, text: str, kind: Any) -> Any:
    """The text as JSON (3, 0.5, true, [1, 2]) or as Python writes it (inf, True, None), or as it
    stands if the type is a string's."""
    try:
        return convert(path, text, kind)
    except UserError:
        pass
    try:
        value = AS_PYTHON[text] if text in AS_PYTHON else json.loads(text)
    except ValueError:
        value = text
    return convert(path, value, kind)
