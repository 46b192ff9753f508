"""Suites: families of environments as data, one file each.

`suite_of(env)` finds the suite of an id. Packages can add suites: docs/suites.md.
"""

from proxrl.suites.registry import ANY, BUILT_IN, all_suites, register_suite, suite_named, suite_of
from proxrl.suites.suite import AGENTS, Score, Suite, agents, bare_id

__all__ = [
    "AGENTS",
    "ANY",
    "BUILT_IN",
    "Score",
    "Suite",
    "agents",
    "all_suites",
    "bare_id",
    "register_suite",
    "suite_named",
    "suite_of",
]
