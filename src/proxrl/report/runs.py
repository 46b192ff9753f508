"""The runs of a report: all runs below a folder, without duplicates."""

from pathlib import Path

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.runs.record import CURVES, Run, read_run, run_folders

__all__ = ["CURVES", "Run", "read_run", "read_runs"]


def read_runs(root: Path) -> list[Run]:
    """All runs below a folder, by path; raises `UserError` if none can be reported."""
    if not root.is_dir():
        problem = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{root} {problem}: pass a folder of runs")
    runs = [read_run(path, root) for path in run_folders(root)]
    if not runs:
        raise UserError(
            f"{root} contains no runs: train one with `proxrl train dqn-pro --env CartPole-v1`"
        )
    if not any(run.usable for run in runs):
        first = next((run for run in runs if run.note), runs[0])
        raise UserError(
            f"none of the {len(runs)} runs in {root} can be reported: "
            f"{first.path}: {first.note or 'no evaluation yet'}"
        )
    return _without_duplicates(runs)


def _without_duplicates(runs: list[Run]) -> list[Run]:
    """Keep one run per config: the one with more steps, or the first if they are equal."""
    best: dict[RunConfig, int] = {}
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


def _what_is_run(run: Run) -> RunConfig:
    """The config without the settings that do not affect learning."""
    plain = RunConfig(agent="", env="")
    return run.asked.override(
        {name: getattr(plain, name) for name in ("device", "threads", "checkpoint", "logging")}
    )
