"""User-defined components given as `module:name`: importing them, and consent to it.

The current folder is searched last, and only while a component is imported: a `torch.py` there is
never imported in place of the installed package. A run folder may come from someone else; what its
config names is imported only with consent (docs/security.md).
"""

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from proxrl.config import RunConfig, flatten
from proxrl.errors import UserError, what_raised

BUILT_IN = {  # names that need no import
    "network.kind": ("auto", "nature", "nature-same", "minatar", "mlp"),
    "proximal.rule": (
        *("parameters", "gradient", "values", "adaptive", "adaptive-layers"),
        *("scheduled", "accelerated", "metric"),
    ),
}
NAMES_CODE = ("env", "network.kind", "proximal.rule")  # settings that may name a module


def unknown(setting: str, name: str, known: Iterable[str] = ()) -> UserError:
    """The error for a name that is neither built in nor registered."""
    names = ", ".join(known or BUILT_IN[setting])
    return UserError(f"unknown {setting} {name}: choose from {names}, or pass module:name")


def require_known(config: RunConfig) -> None:
    """Raise a `UserError` for an unknown network or rule. Only before torch is imported, when none
    can have been registered; afterwards, whoever builds them does."""
    if "torch" in sys.modules:
        return
    settings = flatten(config)
    for setting, names in BUILT_IN.items():
        name = settings[setting]
        if name not in names and ":" not in name:
            raise unknown(setting, name)


def imported(path: str, what: str) -> Any:
    """Import `module:name`; `what` names the component in the error message."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # or an invalid name
        raise UserError(f"cannot import {what} {path}: {error}") from None


def import_module(name: str) -> ModuleType:
    """Import an installed module or one in the current folder; what its code raises is an
    `ImportError`. An empty or relative name is a `ValueError`."""
    if not name or name.startswith("."):
        raise ValueError(f"{name!r} is not the name of a module")
    with current_folder():
        try:
            return importlib.import_module(name)
        except ImportError:
            raise
        except (Exception, SystemExit) as error:
            raise ImportError(what_raised("it", error)) from error


@contextlib.contextmanager
def current_folder() -> Iterator[None]:
    """Search the current folder for modules, after everything else."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # deleted
        here = ""
    if not here or here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the imported module has removed it
            sys.path.remove(here)


# ----------------------------------------------------------------------------------------- consent


def named_code(config: RunConfig) -> dict[str, str]:
    """Settings of a config that name a module to import, with their values. The environment
    `python:NAME` names none: this process has been given it."""
    named = {path: value for path, value in flatten(config).items() if path in NAMES_CODE}
    if re.fullmatch(r"python:[^:]*", named["env"]):
        del named["env"]
    return {path: value for path, value in named.items() if ":" in value}


def require_trust(config: RunConfig, folder: str | os.PathLike[str], trust: bool) -> None:
    """Raise a `UserError` if a run folder names code to import and the user has not consented."""
    named = "" if trust else ", ".join(map(" ".join, named_code(config).items()))
    if named:
        raise UserError(
            f"{folder} asks to import {named}: pass --trust (trust=True in Python) to execute it"
        )


def trust_option(config: RunConfig) -> str:
    """What to add to a command that opens a run with this config: " --trust", or nothing."""
    return " --trust" if named_code(config) else ""
