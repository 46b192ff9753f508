"""The runs of a report: all runs and logs below some folders, without duplicates."""

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from proxrl.config import RunConfig
from proxrl.errors import UserError, printable
from proxrl.report.logs import as_runs, read_logs
from proxrl.runs.record import Run, read_run, run_folders
from proxrl.runs.study_file import SEARCH, About, read_about
from proxrl.suites import suite_of

TRAIN = "train one with `proxrl train dqn-pro --env CartPole-v1`"


@dataclass(frozen=True, eq=False)
class Found:
    """What is below the folders of a report."""

    name: str  # of the folders
    about: About  # of the study, if there is one folder
    runs: list[Run]
    headline: list[RunConfig]  # configs whose series represent their agents


def read_runs(root: Path) -> list[Run]:
    """All runs below a folder, by path; raises `UserError` if none can be reported."""
    return find_runs(expand([root])).runs


def find_runs(
    roots: Sequence[Path],
    layout: str | None = None,
    steps: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Found:
    """All runs below folders, and all logs of other libraries there or in CSV files."""
    runs: list[Run] = []
    headline: list[RunConfig] = []
    logs = []
    about = About()
    labels = _labels(roots)
    for root, label in zip(roots, labels, strict=True):
        if root.is_dir():
            about = read_about(root, say)
            own = [read_run(path, root) for path in _reported(root, say)]
            headline += about.headline_configs(own)
            runs += [replace(run, path=os.path.join(label, run.path)) for run in own]

        def named(path: Path, root: Path = root, label: str = label) -> str:
            name = os.path.join(label, path.relative_to(root)) if path != root else label
            return printable(name or root.name)

        found, unreadable = read_logs(root, named, layout)
        logs += found
        runs += unreadable
    runs += as_runs(logs, steps, say)
    where = " and ".join(map(str, roots[:2])) + (" and others" if len(roots) > 2 else "")
    if not runs:
        raise UserError(f"{where} {'contain' if len(roots) > 1 else 'contains'} no runs: {TRAIN}")
    if not any(run.usable for run in runs):
        first = next((run for run in runs if run.note), runs[0])
        raise UserError(
            f"none of the {len(runs)} runs in {where} can be reported: "
            f"{first.path}: {first.note or 'no evaluation yet'}"
        )
    names = [printable(root.resolve().name) for root in roots]
    name = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    if len(roots) > 1:
        about = About()
    return Found(name, about, _without_duplicates(runs), headline)


def _reported(root: Path, say: Callable[[str], None]) -> list[Path]:
    """The run folders below a folder, without the trials of searches if there are others: their
    settings were chosen by their scores."""
    folders = list(run_folders(root))
    trials = [path for path in folders if path.parent != root and (path.parent / SEARCH).exists()]
    others = [path for path in folders if path not in set(trials)]
    if not trials or not others:
        return folders
    searches = dict.fromkeys(str(path.parent) for path in trials)
    say(f"left out trials in {', '.join(searches)}: pass such a folder for its own report")
    return others


def expand(arguments: Sequence[Path]) -> list[Path]:
    """The folders and files that are meant, patterns such as runs/*_seed* expanded, each once."""
    found: list[Path] = []
    for one in arguments:
        if one.exists():
            found.append(one)
        elif matches := sorted(glob.glob(str(one), recursive=True)):
            found += map(Path, matches)
        elif glob.has_magic(str(one)):
            raise UserError(f"{one} matches no file or folder")
        else:
            raise UserError(f"{one} does not exist: pass a folder of runs")
    for one in found:
        if not one.is_dir() and one.suffix.lower() != ".csv":
            raise UserError(f"{one} is not a folder: pass a folder of runs, or a .csv file")
    inside = {one.resolve() for one in found}
    once: dict[Path, Path] = {}
    for one in found:
        if not inside & set(one.resolve().parents):  # else read with the folder above it
            once.setdefault(one.resolve(), one)
    return list(once.values())


def matching(runs: Sequence[Run], env: Sequence[str], agent: Sequence[str]) -> list[Run]:
    """The runs of some environments and agents, given by name or pattern; runs that cannot be read
    stay. Raises `UserError` if no run is left."""
    kept = [
        run
        for run in runs
        if run.config is None
        or (_fits(env, _env_names(run.config)) and _fits(agent, (run.config.agent,)))
    ]
    if not any(run.usable for run in kept):
        there = [run.config for run in runs if run.config is not None]
        envs, agents = sorted({one.env for one in there}), sorted({one.agent for one in there})
        asked = " ".join(
            f"--{name} {' '.join(values)}"
            for name, values in (("env", env), ("agent", agent))
            if values
        )
        raise UserError(
            f"no run matches {asked}: there are the environments {', '.join(envs)} and the agents "
            f"{', '.join(agents)}"
        )
    return kept


def _fits(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(
        fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns for name in names
    )


def _env_names(config: RunConfig) -> tuple[str, str]:
    """ALE/Breakout-v5 and Breakout."""
    return config.env, suite_of(config.env).game_of(config.env)


def _labels(roots: Sequence[Path]) -> list[str]:
    """What the paths of runs begin with: nothing, or with several folders the folder's name."""
    if len(roots) == 1:
        return [""]
    names = [printable(root.resolve().name) for root in roots]
    return [
        printable(str(root)) if names.count(name) > 1 else name
        for root, name in zip(roots, names, strict=True)
    ]


def _without_duplicates(runs: list[Run]) -> list[Run]:
    """Keep one run per config: the one with more steps, or the first if they are equal."""
    best: dict[Any, int] = {}
    twins: dict[int, int] = {}
    for number, run in enumerate(runs):
        if not run.usable:
            continue
        before = best.setdefault(_what_is_run(run), number)
        if before == number:
            continue
        worse, better = before, number
        if run.steps[-1] <= runs[before].steps[-1]:
            worse, better = number, before
        best[_what_is_run(run)] = better
        twins[worse] = better
    return [
        run
        if number not in twins
        else Run(run.path, "duplicate", f"the same run as {runs[twins[number]].path}", run.config)
        for number, run in enumerate(runs)
    ]


def _what_is_run(run: Run) -> Any:
    """The config without the settings that do not affect learning; of a log, all that is known."""
    if run.known is not None:
        asked = run.asked
        return asked.agent, asked.env, asked.seed, *run.known.items()
    plain = RunConfig(agent="", env="")
    return run.asked.override(
        {name: getattr(plain, name) for name in ("device", "threads", "checkpoint", "logging")}
    )
