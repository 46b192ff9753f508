"""Exceptions with one-line messages: what is wrong, and what would be valid."""

import difflib
import os
import traceback
from collections.abc import Iterable


class UserError(ValueError):
    """Invalid input; the command line prints the message and exits with 2."""


class EnvironmentFault(UserError):
    """An environment that returned something invalid, or raised an exception (the cause)."""


class RunFailed(RuntimeError):
    """A run that stopped (disk full, loss diverged); its last checkpoint is intact."""


def printable(text: str) -> str:
    """Text on one line: control characters, line breaks and what is not valid Unicode escaped."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def what_raised(what: str, error: BaseException) -> str:
    """One line on an exception in someone else's code, with its place: "reset() raised KeyError:
    'x' (my_env.py, line 12)"."""
    if isinstance(error, SystemExit):
        line = f"{what} called sys.exit({error.code!r})"
    else:
        first = next((line.strip() for line in _text(error).splitlines() if line.strip()), "")
        line = f"{what} raised {type(error).__name__}{': ' * bool(first)}{first[:200]}"
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) > 1 and not isinstance(error, SyntaxError):  # which names its place itself
        line += f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
    return line


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # its own __str__ is wrong
        return ""


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """A suffix for "unknown ..." messages: "; did you mean this?", or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""
