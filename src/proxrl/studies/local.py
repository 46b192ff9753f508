"""Runs on this machine, each in its own process, as many at a time as fit."""

import time
from collections.abc import Sequence
from subprocess import Popen

from proxrl.studies.expand import Job
from proxrl.studies.process import Outcome, outcome_of, reason_of, start

LOOK_SECONDS = 0.5


class Local:
    """An executor: one core per thread of a run; at most `max_jobs` runs at a time."""

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

    def ended(self) -> Sequence[tuple[Job, Outcome, str]]:
        time.sleep(LOOK_SECONDS)
        over = []
        for job, process in list(self._processes.items()):
            code = process.poll()
            if code is not None:
                del self._processes[job]
                over.append((job, outcome_of(code), reason_of(code)))
        return over

    def stop_run(self, job: Job) -> None:
        self._processes[job].terminate()

    def stop(self) -> None:
        """Send SIGTERM, upon which runs save a checkpoint; a second interrupt kills them, losing
        what they did since the last checkpoint."""
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
