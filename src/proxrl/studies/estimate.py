"""Estimates the memory, disk (at the peak and at the end) and time of a study."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from proxrl.config import RunConfig, flatten
from proxrl.errors import UserError
from proxrl.runs.folder import RunFolder
from proxrl.studies.board import Board
from proxrl.studies.expand import Job
from proxrl.studies.measure import measure
from proxrl.suites import suite_of
from proxrl.training.amounts import gigabytes
from proxrl.training.resources import Requirements, available_memory, existing


class Pace(NamedTuple):
    """The speed of a variant's runs."""

    steps_per_second: float
    measured: bool  # on runs of this study, with evaluations; else calibrated, without


class StudyEstimate(NamedTuple):
    """The resources of a study, from its current state."""

    per_run: dict[str, Requirements]  # by variant
    paces: dict[str, Pace]
    at_once: int  # runs at a time
    memory: int
    peak_disk: int
    final_disk: int
    seconds: float


def needs_of(jobs: Sequence[Job], calibrate: bool) -> dict[str, Requirements]:
    """Requirements by variant: those of its largest game; the time is that of its first game."""
    wanted: dict[tuple[RunConfig, str], tuple[RunConfig, bool]] = {}
    timed: set[RunConfig] = set()
    for job in jobs:
        kind = _kind(job.config)
        if kind not in wanted:
            wanted[kind] = (job.config, calibrate and kind[0] not in timed)
            timed.add(kind[0])
    found = dict(zip(wanted, measure(list(wanted.values())), strict=True))
    seconds = {cost: one.seconds for (cost, _), one in found.items() if one.seconds is not None}
    needs: dict[str, Requirements] = {}
    for job in jobs:
        kind = _kind(job.config)
        one = found[kind]._replace(seconds=seconds.get(kind[0]))
        needs[job.variant] = _larger(one, needs.get(job.variant))
    return needs


def _kind(config: RunConfig) -> tuple[RunConfig, str]:
    """A key of runs with the same requirements: settings that affect cost, and the observation."""
    suite = suite_of(config.env)
    return _by_cost(config), suite.name if suite.same_observation else config.env


def _larger(one: Requirements, other: Requirements | None) -> Requirements:
    if other is None:
        return one
    return Requirements(
        memory=max(one.memory, other.memory),
        disk=max(one.disk, other.disk),
        seconds=other.seconds,
        final_disk=max(one.final_disk, other.final_disk),
        replay=max(one.replay, other.replay),
    )


def _by_cost(config: RunConfig) -> RunConfig:
    """The config without settings that do not affect cost."""
    free = ("proximal.c", "proximal.pull_per_sync", "target.period", "target.tau")
    schedule = ("learner.rate_schedule", "learner.rate_schedule_steps", "learner.final_rate")
    rates = ("learner.learning_rate", "learner.annealed_rate", *schedule)
    usual = flatten(RunConfig(agent="", env=""))
    same = {path: usual[path] for path in (*free, *rates)}
    return config.override({"agent": "", "env": "", "seed": 0, **same})


def runs_at_once(
    jobs: Sequence[Job], needs: dict[str, Requirements], cores: int, asked: int | None
) -> int:
    """How many runs fit in cores and memory; raises `UserError` if not even one fits."""
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


def estimate(board: Board, needs: dict[str, Requirements], at_once: int) -> StudyEstimate:
    """Estimate the remaining runs; `needs` must have calibrated times."""
    paces = {variant: _pace(board, variant, needs[variant]) for variant in needs}
    left = board.of("waiting", "running", "failed")
    seconds = [
        (one.job.config.steps - one.step) / paces[one.job.variant].steps_per_second for one in left
    ]
    unfinished = sorted((needs[one.job.variant] for one in left), key=lambda one: one.disk)
    final = sum(needs[job.variant].final_disk for job in board.entries)
    replays = sum(one.disk - one.final_disk for one in unfinished[-at_once:])
    memories = sorted(one.memory for one in unfinished)
    return StudyEstimate(
        needs,
        paces,
        at_once,
        sum(memories[-at_once:]),
        final + replays,
        final,
        max(sum(seconds) / at_once, max(seconds)) if seconds else 0.0,
    )


def require_disk(board: Board, needs: dict[str, Requirements], at_once: int, folder: Path) -> None:
    """Raise a `UserError` if the remaining runs do not fit on the disk."""
    left = board.of("waiting")
    replays = [
        needs[one.job.variant].disk - needs[one.job.variant].final_disk
        for one in left
        if not RunFolder(one.job.folder).replay.exists()  # else it is already allocated
    ]
    needed = sum(needs[one.job.variant].final_disk for one in left)
    needed += sum(sorted(replays, reverse=True)[:at_once])
    there = existing(folder)
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UserError(
            f"not enough disk: the study needs {gigabytes(needed)} more at its peak, "
            f"{gigabytes(free)} are free in {there}; select fewer runs with --games, --seeds "
            "or --only"
        )


def _pace(board: Board, variant: str, needs: Requirements) -> Pace:
    jobs = [job for job in board.entries if job.variant == variant]
    rates = [
        line["steps_per_second"]
        for job in jobs
        for line in RunFolder(job.folder).speeds()[1:]  # the first includes the warm-up
        if line["steps_per_second"] > 0
    ]
    if rates:
        return Pace(median(rates), measured=True)
    assert needs.seconds is not None, "calibrated"
    return Pace(jobs[0].config.steps / needs.seconds, measured=False)
