"""A search: trials as runs of an executor, started when there is room and pruned at evaluations.

The executors, retries and run folders are those of studies. A trial's folder is `trialNNN`; what a
trial has shown is read from it, so that a killed search loses nothing.
"""

import os
from collections.abc import Callable
from pathlib import Path

from proxrl.config import RunConfig, validated
from proxrl.errors import RunFailed, UserError
from proxrl.report.scores import final_score
from proxrl.runs.folder import METRICS, RunFolder
from proxrl.runs.record import Run, read_run
from proxrl.studies.board import Board, Entry
from proxrl.studies.conduct import Executor, conduct
from proxrl.studies.expand import Job
from proxrl.tuning.trials import Trials

MOST_FAILURES = 3  # of the first trials; then something is wrong with all of them

Watch = Callable[[Board, Entry | None, str], None]


def job_of(number: int, config: RunConfig, folder: Path) -> Job:
    """The run of a trial."""
    folder = folder / f"trial{number:03d}"
    return Job(config.agent, config.env, config.seed, config, folder)


class Search:
    """Runs trials until there are `wanted`."""

    def __init__(self, trials: Trials, folder: Path, wanted: int) -> None:
        self.trials, self._folder, self.wanted = trials, folder, wanted
        self._numbers: dict[Job, int] = {}
        self._sizes: dict[Job, int] = {}  # of metrics.jsonl, when it was last read
        self._asked = len(trials.all())
        self._failures = 0  # before the first success of this command
        self._succeeded = False

    @property
    def is_done(self) -> bool:
        trials = self.trials.all()
        return len(trials) >= self.wanted and all(one.outcome != "running" for one in trials)

    def run(self, executor: Executor, template: Job, watch: Watch) -> None:
        """Continue the unfinished trials and start new ones; an interrupt stops all of them with
        their checkpoints. `template` is a run of the same size."""
        board = Board([self._job(*one) for one in self.trials.unfinished()])

        def watched(board: Board, entry: Entry | None, happened: str) -> None:
            if entry is not None and entry.status in ("finished", "failed", "stopped"):
                happened = self._settle(entry)
            watch(board, entry, happened)

        for entry in board.of("finished"):  # the driver was killed before it noticed
            watched(board, entry, "")
        conduct(
            board,
            executor,
            watched,
            more=lambda: self._next() if executor.has_room(template) else None,
            gives_up=self._prunes,
        )

    def _job(self, number: int, config: RunConfig) -> Job:
        job = job_of(number, config, self._folder)
        self._numbers[job] = number
        return job

    def number_of(self, job: Job) -> int:
        return self._numbers[job]

    def _next(self) -> Job | None:
        """The next trial whose settings are valid together."""
        while self._asked < self.wanted:
            number, config = self.trials.ask()
            self._asked += 1
            try:
                return self._job(number, validated(config))
            except UserError as error:
                self._tell_failure(number, str(error))
        return None

    def _prunes(self, entry: Entry) -> bool:
        """Whether an evaluation since the last call is a reason to give the trial up."""
        try:
            size = os.path.getsize(entry.job.folder / METRICS)
        except OSError:
            return False
        if size == self._sizes.get(entry.job):
            return False
        self._sizes[entry.job] = size
        return self.trials.prunes(self._numbers[entry.job], _evaluations(_read(entry.job)))

    def _settle(self, entry: Entry) -> str:
        """Record how a trial ended; returns the message to show."""
        number = self._numbers[entry.job]
        if entry.status == "failed":
            self._tell_failure(number, entry.reason)
            return f"failed: {entry.reason}"
        run = _read(entry.job)
        if not run.usable:
            self._tell_failure(number, run.note)
            return f"failed: {run.note}"
        self._succeeded = True
        if self.trials.prunes(number, _evaluations(run)) or entry.status == "stopped":
            RunFolder(entry.job.folder).tidy(entry.job.config)
            self.trials.tell(number, "pruned", None)
            return f"pruned at step {self.trials.all()[number].last_step:,}"
        config = entry.job.config
        score = final_score(run.steps, run.curves["eval_return"], run.episodes, config.steps)
        self.trials.tell(number, "finished", score)
        return f"finished, score {score:.4g}"

    def _tell_failure(self, number: int, reason: str) -> None:
        self.trials.tell(number, "failed", None, reason)
        self._failures += 1
        if self._failures >= MOST_FAILURES and not self._succeeded:
            raise RunFailed(f"the first {self._failures} trials failed, the last one: {reason}")


def _read(job: Job) -> Run:
    return read_run(job.folder, job.folder)


def _evaluations(run: Run) -> list[tuple[int, float]]:
    """(step, mean return) of each."""
    returns = run.curves.get("eval_return", ())
    return [(int(step), float(value)) for step, value in zip(run.steps, returns, strict=True)]
