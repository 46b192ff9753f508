"""`--dry-run`: the runs of a study and the resources they need."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proxrl.config import flatten
from proxrl.errors import UserError
from proxrl.studies.adopt import adoptable
from proxrl.studies.board import Board, Entry
from proxrl.studies.definition import FOLLOWS_FROM, Scale, Study
from proxrl.studies.estimate import StudyEstimate, estimate, needs_of, runs_at_once
from proxrl.studies.expand import Job
from proxrl.suites import presets
from proxrl.training.amounts import duration, gigabytes
from proxrl.training.resources import Requirements, available_cores

NARROW = 110  # columns: below, LESS is left out
LESS = ("preset", "disk, end", "steps/s")


def print_dry_run(
    console: Console,
    study: Study,
    scale: Scale,
    board: Board,
    folder: Path,
    executor: str,
    jobs_at_once: int | None,
) -> None:
    """Print every run, every variant with its settings and resources, then the total."""
    jobs = list(board.entries)
    copies = adoptable(jobs, folder)
    for job in copies:
        board.entries[job].status, board.entries[job].step = "finished", job.config.steps
    with console.status("measuring a few updates of each variant"):
        needs = needs_of(jobs, calibrate=True)
    try:
        at_once, problem = _at_once(jobs, needs, executor, jobs_at_once), None
    except UserError as error:
        at_once, problem = 1, error  # still useful for another machine
    known = estimate(board, needs, at_once)
    for entry in board.entries.values():
        status = f"same as {copies[entry.job]}" if entry.job in copies else _status(entry)
        console.print(f"{entry.job.name:<40} {status}", highlight=False, markup=False)
    console.print(_table(study, scale, board, known, narrow=console.width < NARROW))
    for line in _words(board, known, folder, executor, len(copies)):
        console.print(line, highlight=False, markup=False)
    if problem is not None:
        console.print(f"does not fit on this machine: {problem}", highlight=False, markup=False)


def _at_once(
    jobs: list[Job], needs: dict[str, Requirements], executor: str, asked: int | None
) -> int:
    """Runs at a time on this machine; on a cluster, --jobs or one."""
    if executor == "ray":
        return min(asked or 1, len(jobs))
    return runs_at_once(jobs, needs, available_cores(), asked)


def _status(entry: Entry) -> str:
    started = entry.status == "waiting" and entry.step
    return f"at {entry.step:,} of {entry.job.config.steps:,} steps" if started else entry.status


def _table(study: Study, scale: Scale, board: Board, known: StudyEstimate, narrow: bool) -> Table:
    table = Table(title=f"{study.name} at scale {scale.name}: {study.title}")
    left, right = ["variant", "preset", "settings"], ["runs", "memory", "disk, peak"]
    right += ["disk, end", "steps/s", "time"]
    shown = [name for name in (*left, *right) if not narrow or name not in LESS]
    for name in shown:
        numbers = name in right
        table.add_column(
            name, justify="right" if numbers else "left", no_wrap=numbers, overflow="fold"
        )
    for variant in board.variants:
        jobs = [job for job in board.entries if job.variant == variant]
        needs, pace = known.per_run[variant], known.paces[variant]
        cells = {
            "variant": variant,
            "preset": jobs[0].config.agent,
            "settings": _own_settings(jobs[0], scale),
            "runs": f"{len(jobs)} x",
            "memory": gigabytes(needs.memory),
            "disk, peak": gigabytes(needs.disk),
            "disk, end": gigabytes(needs.final_disk),
            "steps/s": f"{pace.steps_per_second:,.0f}",
            "time": duration(jobs[0].config.steps / pace.steps_per_second),
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _own_settings(job: Job, scale: Scale) -> str:
    """Settings that differ from the preset, without those of the scale."""
    preset = flatten(presets.make(job.config.agent, job.config.env))
    return ", ".join(
        f"{path} = {_shown(value)}"
        for path, value in flatten(job.config).items()
        if path not in FOLLOWS_FROM and path not in scale.settings and value != preset[path]
    )


def _words(
    board: Board, known: StudyEstimate, folder: Path, executor: str, copies: int
) -> list[str]:
    jobs = list(board.entries)
    started = sum(1 for entry in board.of("waiting") if entry.step)
    counts = {
        "finished": board.counts()["finished"] - copies,
        "to be copied from other studies": copies,
        "started": started,
    }
    statuses = [f"{number} {status}" for status, number in counts.items() if number]
    games = list(dict.fromkeys(job.game for job in jobs))
    seeds = list(dict.fromkeys(job.seed for job in jobs))
    measured = {pace.measured for pace in known.paces.values()}
    how = {
        (True,): "at the speed of this study's runs so far",
        (False,): "calibrated with a few updates and steps each, without evaluations",
        (False, True): "at the speed of this study's runs so far, or calibrated",
    }[tuple(sorted(measured))]
    beside = "; use --jobs N for N at a time on the cluster" if executor == "ray" else ""
    about = [
        f"{_counted(len(jobs), 'run')}{' (' + ', '.join(statuses) + ')' if statuses else ''}: "
        f"{_counted(len(board.variants), 'variant')}, {_counted(len(games), 'game')}, "
        f"{_counted(len(seeds), 'seed')}, "
        f"{jobs[0].config.steps:,} agent steps each, in {folder}/VARIANT/GAME/seedN",
        f"games: {', '.join(games)}; seeds: {', '.join(map(str, seeds))}",
    ]
    if not board.of("waiting"):
        return [*about, "nothing left to run"]
    return [
        *about,
        f"memory: {gigabytes(known.memory)} for {known.at_once} at a time",
        f"disk: {gigabytes(known.peak_disk)} at the peak, {gigabytes(known.final_disk)} at the end",
        f"time: about {duration(known.seconds)} remaining, {known.at_once} at a time "
        f"({how}{beside})",
    ]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
