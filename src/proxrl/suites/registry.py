"""Find the suite of an id: built-in, from an installed package, or `ANY`.

A package registers a suite by an entry point in the group `proxrl.suites`. Entry points are loaded
only for ids that no built-in suite matches; one that fails to load is reported and ignored.
"""

import sys
from functools import cache

from proxrl.errors import UserError, did_you_mean
from proxrl.suites import any as other
from proxrl.suites.atari import ATARI
from proxrl.suites.classic import CLASSIC
from proxrl.suites.minatar import MINATAR
from proxrl.suites.suite import Suite, checked

GROUP = "proxrl.suites"
BUILT_IN = (ATARI, MINATAR, CLASSIC)
ANY = other.VECTOR  # for all environments that no suite matches

_registered: dict[str, Suite] = {}


def suite_of(env: str) -> Suite:
    """The suite of this id; `ANY` if none matches. Does not make the environment."""
    for suite in (*BUILT_IN, *_registered.values()):
        if suite.matches(env):
            return suite
    suites, failures = _installed()
    for suite in suites:
        if suite.matches(env):
            return suite
    for line in failures:  # may be the suite of this id
        _warn_once(line)
    return ANY


def all_suites() -> tuple[Suite, ...]:
    """All suites except `ANY`, built-in ones first."""
    suites, failures = _installed()
    for line in failures:
        _warn_once(line)
    return (*BUILT_IN, *_registered.values(), *suites)


def suite_named(name: str) -> Suite:
    """The suite with this name, or `UserError`."""
    for suite in (*BUILT_IN, ANY, *_registered.values()):
        if suite.name == name:
            return suite
    known = {suite.name: suite for suite in all_suites()}
    if name not in known:
        near = did_you_mean(name, known) or f": choose from {', '.join(known)}"
        raise UserError(f"unknown suite {name}{near}")
    return known[name]


def register_suite(suite: Suite) -> None:
    """Register a suite in this process, replacing one registered under the same name.

    Studies train in separate processes, so their suites need an entry point.
    """
    _require_free(checked(suite))
    _registered[suite.name] = suite


def _require_free(suite: Suite) -> None:
    if suite.name in {one.name for one in (*BUILT_IN, ANY)}:
        raise UserError(f"suite {suite.name}: the name is taken by a built-in suite")


@cache
def _installed() -> tuple[list[Suite], list[str]]:
    """Suites of installed packages, and an error message for each that fails to load."""
    from importlib import metadata  # slow: a third of the time of `proxrl --help`

    suites: dict[str, Suite] = {}
    failures = []
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        try:
            suite = checked(entry.load())
            _require_free(suite)
            suites.setdefault(suite.name, suite)  # the same package may be found twice
        except Exception as error:  # third-party imports may raise anything
            why = str(error).splitlines()[0] if str(error) else ""
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            failures.append(f"ignoring entry point {entry.name} = {entry.value}: {kind}{why}")
    return list(suites.values()), failures


@cache
def _warn_once(line: str) -> None:
    print(f"proxrl: {line}", file=sys.stderr)
