"""Import user-defined components given as `module:name`."""

import importlib
from typing import Any

from proxrl.errors import UserError


def imported(path: str, what: str) -> Any:
    """Import `module:name`; `what` names the component in the error message."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: empty module name
        raise UserError(f"cannot import {what} {path}: {error}") from None
