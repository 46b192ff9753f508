"""The status of every run of a study.

Read only from the run folders, so that it does not depend on the executor and survives a restart.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from proxrl.config import differences
from proxrl.errors import UserError
from proxrl.runs.folder import RunFolder
from proxrl.runs.record import read_run
from proxrl.runs.status import Status
from proxrl.studies.expand import Job

SHOWN: tuple[Status, ...] = ("waiting", "running", "finished", "failed")  # of a study's runs


@dataclass
class Entry:
    """One run: its status, and what happened since this command was started."""

    job: Job
    status: Status = "waiting"
    step: int = 0
    last_return: float | None = None
    crashes: int = 0  # in a row, without a newer checkpoint in between
    losses: int = 0  # of its node, counted like crashes
    saved_step: int = 0  # of the newest checkpoint at the last crash
    not_before: float = 0.0  # paused until this clock time
    reason: str = ""  # why it failed
    given_up: bool = False  # told to stop for good
    begun: tuple[float, int] | None = None  # clock and step when it started to run
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """Running time since this command was started."""
        if self.begun is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.begun[0]


class Board:
    """All runs of a study."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.entries: dict[Job, Entry] = {}
        for job in jobs:
            self.add(job)

    def add(self, job: Job) -> Entry:
        """A new entry, with what its folder shows."""
        entry = self.entries[job] = Entry(job)
        place = RunFolder(job.folder)
        entry.step = min(place.newest_step() or 0, job.config.steps)
        if place.is_complete(job.config):
            entry.status = "finished"
            entry.last_return = read_run(place.path, place.path).last_return
        return entry

    def of(self, *statuses: Status) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.status in statuses]

    def counts(self, variant: str | None = None) -> Counter[Status]:
        return Counter(e.status for e in self.entries.values() if variant in (None, e.job.variant))

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(job.variant for job in self.entries))

    def share_done(self, variant: str | None = None) -> float:
        """Share of all agent steps that are done."""
        entries = [e for e in self.entries.values() if variant in (None, e.job.variant)]
        return sum(e.step for e in entries) / sum(e.job.config.steps for e in entries)

    def look(self, entry: Entry) -> None:
        """Update the progress of a running run."""
        progress = RunFolder(entry.job.folder).progress()
        if progress is None:
            return
        entry.step, entry.last_return = progress
        if entry.begun is None:
            entry.begun = (time.monotonic(), entry.step)

    def rate(self, variant: str) -> float | None:
        """Agent steps per second of a variant's runs since this command was started."""
        entries = [e for e in self.entries.values() if e.job.variant == variant and e.begun]
        steps = sum(e.step - e.begun[1] for e in entries if e.begun)
        seconds = sum(e.seconds for e in entries)
        return steps / seconds if steps and seconds else None

    def seconds_left(self) -> float | None:
        """Time until all are finished, at each variant's speed; None if no speed is known yet.

        Variants that have not run yet are assumed to have the mean speed of the others.
        """
        rates = {variant: self.rate(variant) for variant in self.variants}
        known = [rate for rate in rates.values() if rate]
        running = len(self.of("running"))
        if not known or not running:
            return None
        usual = fmean(known)
        left = [
            (entry.job.config.steps - entry.step) / (rates[entry.job.variant] or usual)
            for entry in self.of("waiting", "running")
        ]
        return max(sum(left) / running, max(left))


def require_same(jobs: Iterable[Job]) -> None:
    """Raise a `UserError` if a folder has a run with different settings than the study has now."""
    for job in jobs:
        if not RunFolder(job.folder).has_config():
            continue
        other = differences(RunFolder(job.folder).config(), job.config)
        if job.config.threads == 0:
            other.pop("threads", None)  # the number of cores of the machine
        if other:
            changed = ", ".join(f"{path} was {a}, is {b}" for path, (a, b) in other.items())
            raise UserError(
                f"{job.folder} was started with other settings: {changed}; choose another --folder"
            )
