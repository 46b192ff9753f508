"""Runs a study: starts as many runs as fit, watches them, retries those that crashed.

An executor knows how to run one run somewhere; the rest is the same for all executors.
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from proxrl.runs.folder import RunFolder
from proxrl.studies.board import Board, Entry
from proxrl.studies.expand import Job
from proxrl.studies.process import EXIT_CODE, Outcome

MAX_LOSSES = 20  # of the machine under a run, in a row, without a newer checkpoint
MAX_CRASHES = 2  # in a row, without a newer checkpoint; then the run has failed
PAUSE_SECONDS = 30.0  # before a run that lacked disk or memory is retried
SHOW_SECONDS = 60.0  # until files written by a node are visible here


class Executor(Protocol):
    """Runs at most `at_once` runs at a time."""

    @property
    def at_once(self) -> int: ...
    def has_room(self, job: Job) -> bool: ...
    def start(self, job: Job) -> None: ...
    def ended(self) -> Sequence[tuple[Job, Outcome, str]]:
        """Runs that ended since the last call, with outcome and known reason. Blocks briefly."""
        ...

    def stop_run(self, job: Job) -> None:
        """Have one run save a checkpoint and exit; `ended` returns it then."""
        ...

    def stop(self) -> None:
        """Have every run save a checkpoint and exit; returns when all have."""
        ...


def conduct(
    board: Board,
    executor: Executor,
    watch: Callable[[Board, Entry | None, str], None],
    more: Callable[[], Job | None] = lambda: None,
    gives_up: Callable[[Entry], bool] = lambda entry: False,
) -> None:
    """Run everything that is unfinished; an interrupt stops all runs cleanly and is re-raised.

    `watch` is called with the board after each poll, and with the run and event if there is one.
    `more` returns another run to add and start now, or None; `gives_up` whether a running one is to
    be stopped for good.
    """
    waiting = board.of("waiting")
    try:
        while True:
            while (entry := _next(waiting)) and executor.has_room(entry.job):
                waiting.remove(entry)
                watch(board, entry, _start(entry, executor))
            while (job := more()) is not None:
                entry = board.add(job)
                watch(board, entry, _start(entry, executor))
            if not waiting and not board.of("running"):
                return
            for job, outcome, reason in executor.ended():
                entry = board.entries[job]
                board.look(entry)
                happened = _settle(entry, outcome, reason)
                if entry.status == "waiting":
                    waiting.insert(0, entry)
                watch(board, entry, happened)
            for entry in board.of("running"):
                board.look(entry)
                if not entry.given_up and gives_up(entry):
                    entry.given_up = True
                    executor.stop_run(entry.job)
            watch(board, None, "")
    except BaseException:
        watch(board, None, "stopping: every run saves a checkpoint")
        executor.stop()
        for entry in board.of("running"):
            entry.status = "waiting"
        raise


def _next(waiting: list[Entry]) -> Entry | None:
    """The first one that is not paused."""
    now = time.monotonic()
    return next((entry for entry in waiting if entry.not_before <= now), None)


def _start(entry: Entry, executor: Executor) -> str:
    """Start the run and set its status; returns the message to show."""
    try:
        RunFolder(entry.job.folder).clear_progress()  # of an earlier command
        executor.start(entry.job)
    except OSError as error:  # no permission, a full disk: the other runs may still work
        entry.status = "failed"
        entry.reason = f"cannot be started: {error.strerror or error} ({error.filename})"
        return f"failed: {entry.reason}"
    entry.status, entry.begun, entry.ended = "running", None, None
    return "continued" if entry.step else "started"


def _settle(entry: Entry, outcome: Outcome, reason: str) -> str:
    """Set the status of a run that ended; returns the message to show."""
    entry.ended = time.monotonic()
    saved = RunFolder(entry.job.folder).newest_step() or 0
    if outcome == "finished" and not _is_seen(entry):
        entry.status = "failed"
        entry.reason = (
            f"exited with 0, but no final checkpoint is visible in {entry.job.folder}: "
            "is this shared storage?"
        )
        return f"failed: {entry.reason}"
    if outcome == "finished":
        RunFolder(entry.job.folder).clear_progress()
        entry.status, entry.step = "finished", entry.job.config.steps
        return "finished"
    if entry.given_up:
        entry.status = "stopped"
        return "stopped"
    if outcome == "failed":
        entry.status = "failed"
        entry.reason = _why(entry, reason)
        return f"failed: {entry.reason}"
    if saved > entry.saved_step:
        entry.crashes = entry.losses = 0
    entry.saved_step = saved
    if outcome == "lost":  # not the run's fault
        entry.losses += 1
    else:
        entry.crashes += 1
    if entry.crashes > MAX_CRASHES or entry.losses > MAX_LOSSES:
        entry.status = "failed"
        times = entry.crashes + entry.losses
        entry.reason = f"crashed {times} times at step {saved:,}: {_why(entry, reason)}"
        return f"failed: {entry.reason}"
    entry.status, entry.step = "waiting", saved
    if outcome == "again":
        entry.not_before = time.monotonic() + PAUSE_SECONDS
        return f"paused: {_why(entry, reason)}"
    if outcome == "lost":
        return f"lost its node ({reason}): continuing from step {saved:,}"
    return f"crashed ({reason}): continuing from step {saved:,}"


def _is_seen(entry: Entry) -> bool:
    """Whether the finished run is visible here; shared storage may take a moment."""
    end = time.monotonic() + SHOW_SECONDS
    while not RunFolder(entry.job.folder).is_complete(entry.job.config):
        if time.monotonic() > end:
            return False
        time.sleep(1.0)
    return True


def _why(entry: Entry, reason: str) -> str:
    """The executor's reason; if that is just an exit code, the last line of the run's log."""
    lines = RunFolder(entry.job.folder).log_tail(1)
    if not lines or not reason.startswith(EXIT_CODE):
        return reason
    return re.sub(r"^[\d-]{10} [\d:]{8} ", "", lines[0])
