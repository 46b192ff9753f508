"""The user's own parts: `module:name` on the command line, imported, or one line that says why
not."""

import importlib
from typing import Any

from proxrl.errors import UserError


def imported(path: str, what: str) -> Any:
    """What `module:name` names; `what` it is, for the complaint."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: no module's name
        raise UserError(f"{what} {path} cannot be imported: {error}") from None
