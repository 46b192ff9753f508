"""The sections of a report: runs with one protocol, in one environment or the games of one suite.

Statistics are computed within a section, never over several. Environments without a common scale
are in separate sections, unless they belong to one study.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from proxrl.errors import UserError
from proxrl.report.labels import shown
from proxrl.report.protocol import asked_of, cut, place_of, protocol_of
from proxrl.report.scores import REFERENCES
from proxrl.runs.record import Run
from proxrl.suites import suite_of

FIRST, SECOND = ("log",), ("steps",)  # settings that name a section before others do


@dataclass(frozen=True, eq=False)
class Section:
    """Runs that can be compared; `name` is unique in a report."""

    name: str
    slug: str  # the name of its folder
    protocol: dict[str, Any]
    runs: tuple[Run, ...]


def split(
    runs: Sequence[Run], steps: int | None = None, one_study: bool = False
) -> tuple[list[Section], list[Run]]:
    """The sections, largest first, and the runs that are in none of them.

    `steps`: compare after this many steps. `one_study`: environments without a scale may share a
    section, because one study has them.
    """
    if steps is not None:
        runs = [run if run.known is not None else cut(run, steps) for run in runs]
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[Run]]] = {}
    rest: list[Run] = []
    for run in runs:
        if not run.usable:
            rest.append(run)
            continue
        try:
            protocol = protocol_of(run)
        except UserError as error:
            rest.append(replace(run, status="mixed", note=_what_changed(str(error))))
            continue
        scaled = suite_of(run.asked.env).scale != "raw"
        place = place_of(run.asked.env) if scaled or not one_study else ""
        key = place, *sorted(protocol.items(), key=str)
        groups.setdefault(key, (protocol, []))[1].append(run)
    if not groups:
        if steps is not None and not any(run.status == "mixed" for run in rest):
            raise UserError(f"invalid --steps {steps}: no run has an evaluation by then")
        first = next((run for run in rest if run.status == "mixed"), rest[0])
        raise UserError(f"no run can be reported: {first.path}: {first.note}")
    parted = [one for group in groups.values() for one in _by_scale(*group, one_study)]
    ordered = sorted(parted, key=lambda group: -len(group[1]))
    unplaced: list[Run] = []
    for run in rest:  # failed, corrupt, ...: listed in the section that they belong to
        home = _home(run, [protocol for protocol, _ in ordered])
        (unplaced if home is None else ordered[home][1]).append(run)
    order = {id(run): number for number, run in enumerate(runs)}
    for _, members in ordered:
        members.sort(key=lambda run: order.get(id(run), len(order)))
    return _named(ordered), unplaced


def budgets(sections: Sequence[Section]) -> str:
    """Advice on --steps, if two sections on the same environments differ only in their budget."""
    for number, one in enumerate(sections):
        for other in sections[:number]:
            envs = [{run.asked.env for run in part.runs if run.usable} for part in (one, other)]
            if set(differences([one, other])) == {"steps"} and envs[0] & envs[1]:
                least = min(one.protocol["steps"], other.protocol["steps"])
                return (
                    f"{other.name} and {one.name} differ only in their budget: add --steps {least} "
                    "to compare them"
                )
    return ""


def differences(sections: Sequence[Section]) -> dict[str, list[Any]]:
    """Settings in which sections differ: name -> each section's value, None if unknown."""
    names = dict.fromkeys(name for one in sections for name in one.protocol if name != "suite")
    values = {name: [one.protocol.get(name) for one in sections] for name in names}
    return {name: found for name, found in values.items() if len(set(map(str, found))) > 1}


def _by_scale(
    protocol: dict[str, Any], runs: list[Run], one_study: bool
) -> list[tuple[dict[str, Any], list[Run]]]:
    """Games of a suite that is scaled by DQN's score have no common scale if neither DQN nor
    Rainbow was run."""
    suites = {suite_of(run.asked.env).scale for run in runs}
    if one_study or suites != {"dqn"} or any(run.asked.agent in REFERENCES for run in runs):
        return [(protocol, runs)]
    games: dict[str, list[Run]] = {}
    for run in runs:
        games.setdefault(run.asked.env, []).append(run)
    return [(protocol, members) for members in games.values()]


def _what_changed(error: str) -> str:
    """The settings in the message of `common_protocol`."""
    found = re.search(r"one report: (.*?) \(", error)
    return f"its protocol changed during the run ({found[1] if found else error}): in no statistic"


def _home(run: Run, protocols: Sequence[dict[str, Any]]) -> int | None:
    """The section of a run that is in no statistic."""
    if len(protocols) == 1:
        return 0
    if run.config is None or run.known is not None:
        return None
    asked = dict(asked_of(run.config))
    fits = [
        number
        for number, protocol in enumerate(protocols)
        if all(protocol.get(name) == value for name, value in asked.items())
    ]
    return fits[0] if len(fits) == 1 else None


def _named(groups: Sequence[tuple[dict[str, Any], list[Run]]]) -> list[Section]:
    """Named by environment, and by what differs between sections of the same one."""
    sections = [
        Section(_environments([run for run in runs if run.usable]), "", protocol, tuple(runs))
        for protocol, runs in groups
    ]
    named = [replace(one, name=_distinct(one, sections)) for one in sections]
    names = [one.name for one in named]
    slugs = [_slug(name) for name in names]
    return [
        replace(one, name=_unique(number, names), slug=_unique(number, slugs))
        for number, one in enumerate(named)
    ]


def _distinct(one: Section, sections: Sequence[Section]) -> str:
    """The name with as many settings as it takes to tell this section from the others."""
    alike = [other for other in sections if other.name == one.name]
    differ = sorted(differences(alike), key=lambda name: (name not in FIRST, name not in SECOND))
    parts = []
    for name in differ:
        value = one.protocol.get(name)
        others = [other for other in alike if other is not one]
        if not others or (value is None and name != "log"):
            break
        alike = [other for other in alike if other.protocol.get(name) == value]
        if len(alike) <= len(others):
            parts.append("proxrl" if value is None else _part(name, value))
    return f"{one.name} ({', '.join(parts)})" if parts else one.name


def _environments(runs: Sequence[Run]) -> str:
    """CartPole-v1, or 5 Atari games."""
    envs = sorted({run.asked.env for run in runs})
    suites = {suite_of(env) for env in envs}
    games = sorted({suite_of(env).game_of(env) for env in envs})
    if len(games) == 1:
        suite = suites.pop()
        return envs[0] if suite.scale == "raw" else f"{suite.title} {games[0]}"
    noun = suites.pop().noun if len(suites) == 1 else "environment"
    return f"{len(games)} {noun}s"


def _part(name: str, value: Any) -> str:
    if name == "steps":
        return f"{value:,} steps"
    if name == "log":
        return str(value)
    return f"{name.split('.')[-1].replace('_', ' ')} {shown(value)}"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:60].strip("-") or "section"


def _unique(number: int, names: Sequence[str]) -> str:
    """A name that earlier ones do not have."""
    before = names[:number].count(names[number])
    return names[number] if not before else f"{names[number]}-{before + 1}"
