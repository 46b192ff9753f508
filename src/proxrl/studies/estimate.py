"""What a study will need: memory, disk at the peak and at the end, time, and how that is known."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from proxrl.config import RunConfig, flatten
from proxrl.errors import UserError
from proxrl.studies.board import Board
from proxrl.studies.expand import Job
from proxrl.suites import suite_of
from proxrl.training.amounts import gigabytes
from proxrl.training.folder import RunFolder
from proxrl.training.metrics import SPEED, read_lines
from proxrl.training.preflight import Preflight, available_memory, preflight


class Pace(NamedTuple):
    """How fast a variant's runs are."""

    steps_per_second: float
    measured: bool  # by runs of this study, evaluations included; else calibrated without them


class Estimate(NamedTuple):
    """Of a whole study, from where it stands now."""

    per_run: dict[str, Preflight]  # by variant
    paces: dict[str, Pace]
    at_once: int  # runs side by side
    memory: int
    peak_disk: int
    final_disk: int
    seconds: float


def needs_of(jobs: Sequence[Job], folder: Path, calibrate: bool) -> dict[str, Preflight]:
    """By variant, the most that one of its games needs; the time is that of the first."""
    found: dict[tuple[RunConfig, str], Preflight] = {}
    seconds: dict[RunConfig, float | None] = {}
    needs: dict[str, Preflight] = {}
    for job in jobs:
        cost = _by_cost(job.config)
        suite = suite_of(job.config.env)
        looks = suite.name if suite.same_observation else job.config.env
        if (cost, looks) not in found:
            timed = calibrate and cost not in seconds
            one = preflight(job.config, RunFolder(folder), timed, refuse=False)
            seconds.setdefault(cost, one.seconds)
            found[cost, looks] = one._replace(seconds=seconds[cost])
        needs[job.variant] = _larger(found[cost, looks], needs.get(job.variant))
    return needs


def _larger(one: Preflight, other: Preflight | None) -> Preflight:
    if other is None:
        return one
    return Preflight(
        memory=max(one.memory, other.memory),
        disk=max(one.disk, other.disk),
        seconds=other.seconds,
        final_disk=max(one.final_disk, other.final_disk),
    )


def _by_cost(config: RunConfig) -> RunConfig:
    """The same for runs that differ only in numbers that cost nothing."""
    free = ("proximal.c", "proximal.pull_per_sync", "target.period", "target.tau")
    rates = ("learner.learning_rate", "learner.annealed_rate")
    usual = flatten(RunConfig(agent="", env=""))
    same = {path: usual[path] for path in (*free, *rates)}
    return config.override({"agent": "", "env": "", "seed": 0, **same})


def runs_at_once(
    jobs: Sequence[Job], needs: dict[str, Preflight], cores: int, asked: int | None
) -> int:
    """As many as have cores and memory here; a `UserError` if not even one fits."""
    threads = max(job.config.threads or cores for job in jobs)
    by_cores = max(1, cores // threads)
    largest = max(one.memory for one in needs.values())
    free = available_memory()
    by_memory = free // largest
    if not by_memory:
        raise UserError(
            f"not enough memory: a run needs {gigabytes(largest)}, {gigabytes(free)} are free"
        )
    return min(asked or by_cores, by_cores, by_memory, len(jobs))


def estimate(board: Board, needs: dict[str, Preflight], at_once: int) -> Estimate:
    """Of what is left; `needs` with calibrated times."""
    paces = {variant: _pace(board, variant, needs[variant]) for variant in needs}
    left = board.of("waiting", "running", "failed")
    seconds = [
        (one.job.config.steps - one.step) / paces[one.job.variant].steps_per_second for one in left
    ]
    unfinished = sorted((needs[one.job.variant] for one in left), key=lambda one: one.disk)
    final = sum(needs[job.variant].final_disk for job in board.entries)
    replays = sum(one.disk - one.final_disk for one in unfinished[-at_once:])
    memories = sorted(one.memory for one in unfinished)
    return Estimate(
        needs,
        paces,
        at_once,
        sum(memories[-at_once:]),
        final + replays,
        final,
        max(sum(seconds) / at_once, max(seconds)) if seconds else 0.0,
    )


def require_disk(board: Board, needs: dict[str, Preflight], at_once: int, folder: Path) -> None:
    """A `UserError` if what is still to be written does not fit."""
    left = board.of("waiting")
    replays = [
        needs[one.job.variant].disk - needs[one.job.variant].final_disk
        for one in left
        if not RunFolder(one.job.folder).replay.exists()  # else it has its room already
    ]
    needed = sum(needs[one.job.variant].final_disk for one in left)
    needed += sum(sorted(replays, reverse=True)[:at_once])
    existing = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise UserError(
            f"not enough disk: the study needs {gigabytes(needed)} more at its peak, "
            f"{gigabytes(free)} are free in {existing}; --games, --seeds and --only narrow it"
        )


def _pace(board: Board, variant: str, needs: Preflight) -> Pace:
    jobs = [job for job in board.entries if job.variant == variant]
    rates = [
        line["steps_per_second"]
        for job in jobs
        for line in read_lines(job.folder / SPEED)[1:]  # the first has the warm-up in it
        if line["steps_per_second"] > 0
    ]
    if rates:
        return Pace(median(rates), measured=True)
    assert needs.seconds is not None, "calibrated"
    return Pace(jobs[0].config.steps / needs.seconds, measured=False)
