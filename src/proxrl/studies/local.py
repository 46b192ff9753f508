"""Runs on this machine, each a process of its own, as many at a time as it carries."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from proxrl.config import RunConfig
from proxrl.errors import RunFailed
from proxrl.studies.board import Board, Entry, require_same
from proxrl.studies.conduct import conduct
from proxrl.studies.expand import Job
from proxrl.studies.process import End, meaning, reason_of, start

LOOK_SECONDS = 0.5


class Local:
    """An executor: a run's threads each have a core; `max_jobs` runs at most."""

    def __init__(self, cores: int, max_jobs: int) -> None:
        self._cores, self.at_once = cores, max_jobs
        self._processes: dict[Job, Popen[bytes]] = {}

    def has_room(self, job: Job) -> bool:
        running = list(self._processes)
        busy = sum(_threads(one, self._cores) for one in running)
        fits = busy + _threads(job, self._cores) <= self._cores and len(running) < self.at_once
        return fits or not running

    def start(self, job: Job) -> None:
        self._processes[job] = start(job.config, job.folder, "wait")

    def ended(self) -> Sequence[tuple[Job, End, str]]:
        time.sleep(LOOK_SECONDS)
        over = []
        for job, process in list(self._processes.items()):
            code = process.poll()
            if code is not None:
                del self._processes[job]
                over.append((job, meaning(code), reason_of(code)))
        return over

    def stop(self) -> None:
        """By SIGTERM, answered by a checkpoint; a second interrupt kills, and costs what was done
        since the last one."""
        try:
            for process in self._processes.values():
                process.terminate()
            for process in self._processes.values():
                process.wait()
        except KeyboardInterrupt:
            for process in self._processes.values():
                process.kill()
                process.wait()
        self._processes.clear()


def _threads(job: Job, cores: int) -> int:
    return job.config.threads or cores


# ------------------------------------------------------------------------------------ for the demo


class Glimpse(NamedTuple):
    """Where a run is now."""

    job: int
    step: int
    last_return: float | None
    message: str | None = None


def run_side_by_side(
    jobs: list[tuple[RunConfig, Path]],
    watch: Callable[[Glimpse], None],
    done: Callable[[int], None],
) -> None:
    """Train every job at the same time, continuing what is there already.

    On an interrupt every run makes a checkpoint; a failed run raises `RunFailed` in the end.
    """
    numbers = {
        Job(config.agent, config.env, config.seed, config, folder): number
        for number, (config, folder) in enumerate(jobs)
    }
    require_same(numbers)
    board = Board(list(numbers))

    def pass_on(board: Board, entry: Entry | None, happened: str) -> None:
        for one in board.of("running", "done"):
            watch(Glimpse(numbers[one.job], one.step, one.last_return))
        if entry is not None and entry.state in ("done", "failed"):
            done(numbers[entry.job])

    for entry in board.of("done"):
        pass_on(board, entry, "done")
    try:
        conduct(board, Local(cores=len(jobs), max_jobs=len(jobs)), pass_on)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues it") from None
    failures = [entry.reason for entry in board.of("failed")]
    if failures:
        raise RunFailed("; ".join(failures))
