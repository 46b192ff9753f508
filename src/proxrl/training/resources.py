"""Cores, memory and disk: what this machine has and what a run needs (no torch)."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import psutil

from proxrl.errors import UserError
from proxrl.runs.folder import RunFolder
from proxrl.training.amounts import duration, gigabytes

CGROUPS = (  # folder, limit and usage of version 2 and version 1
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


class NotEnough(UserError):
    """Not enough free memory or disk now; there may be later."""


class Requirements(NamedTuple):
    """The resources that a run needs."""

    memory: int  # bytes, once the replay is full
    disk: int  # bytes at the peak
    seconds: float | None  # for the remaining steps, without evaluations; None: not measured
    final_disk: int  # bytes that the finished run leaves
    replay: int  # bytes of the replay, part of memory and disk

    def __str__(self) -> str:
        needs = f"needs {gigabytes(self.memory)} of memory, {gigabytes(self.disk)} of disk"
        time_left = "" if self.seconds is None else f", about {duration(self.seconds)} of training"
        return needs + time_left


def require_room(needs: Requirements, place: RunFolder) -> None:
    """Raise `NotEnough` if memory or disk is short; an existing replay is already allocated."""
    there = needs.replay if place.replay.exists() else 0
    _require("memory", needs.memory, available_memory())
    _require("disk", needs.disk - there, shutil.disk_usage(existing(place.path)).free)


def _require(what: str, needed: int, available: int) -> None:
    if needed > available:
        raise NotEnough(
            f"not enough {what}: this run needs {gigabytes(needed)}, {gigabytes(available)} "
            "are free; reduce --replay.capacity"
        )


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Free bytes on the machine, or within the container's limit if that is less."""
    free = [int(psutil.virtual_memory().available)]
    for folder, limit, used in CGROUPS:
        try:
            left = int((folder / limit).read_text()) - int((folder / used).read_text())
            statistics = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
        # Inactive page cache counts as used but is reclaimable.
        free.append(max(0, left + int(statistics.get("inactive_file", 0))))
    return min(free)


def existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
