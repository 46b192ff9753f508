"""Exceptions with one-line messages: what is wrong, and what would be valid."""

import difflib
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


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """A suffix for "unknown ..." messages: "; did you mean this?", or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""
