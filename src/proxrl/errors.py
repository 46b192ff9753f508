"""The one exception a user's mistake raises: one line, what is wrong and what would be right."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake that the person at the keyboard can mend; the command line exits with 2."""


class RunFailed(RuntimeError):
    """A run that had to stop (a full disk, a diverged loss); its last checkpoint is intact."""


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a complaint about an unknown word: "; did you mean this?", or nothing."""
    near = difflib.get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""
