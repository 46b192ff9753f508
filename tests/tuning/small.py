"""A search that is small enough to kill, and an executor without training."""

import shutil
from collections.abc import Callable
from pathlib import Path

from proxrl import presets
from proxrl.config import RunConfig
from proxrl.studies.expand import Job
from proxrl.tuning.search import Search, job_of
from proxrl.tuning.space import Parameter, parsed
from proxrl.tuning.trials import Trials
from tests.report.synthetic import write_checkpoint, write_run

STEPS, PERIOD = 1_000, 200
SETTINGS = {
    "network.hidden": (16,),
    "replay.capacity": 400,
    "replay.warmup_steps": 100,
    "replay.batch_size": 8,
    "target.period": 200,
    "exploration.decay_steps": 500,
    "evaluation.period_steps": PERIOD,
    "evaluation.episodes": 1,
    "checkpoint.period_steps": PERIOD,
    "protocol.max_episode_steps": 60,
    "logging.tensorboard": False,
    "device": "cpu",
}
OPTIONS = [
    word
    for name, value in {"steps": STEPS, **SETTINGS}.items()
    for word in (
        f"--{name.replace('_', '-')}",
        *map(str, value if isinstance(value, tuple) else (value,)),
    )
]


def base(**top: object) -> RunConfig:
    return presets.make("dqn-pro", "CartPole-v1", SETTINGS, **{"seed": 100, "steps": STEPS, **top})


KAPPA = parsed(["kappa"])
Score = Callable[[RunConfig, int], float]


class Simulated:
    """An executor whose runs are finished when they are looked at; `score(config, step)` is each
    evaluation's return, an exception a failure. It has room for one."""

    at_once = 1

    def __init__(self, score: Score) -> None:
        self._score = score
        self._jobs: list[Job] = []
        self.started: list[int] = []
        self.stopped: list[int] = []
        self.slowly = False  # one evaluation per look, so that a run can be stopped

    def has_room(self, job: Job) -> bool:
        return not self._jobs

    def start(self, job: Job) -> None:
        self._jobs.append(job)
        self.started.append(job.seed)
        self._at = 0

    def ended(self) -> list[tuple[Job, str, str]]:
        job, score = self._jobs[0], self._score
        stops = job.seed in self.stopped
        if not stops:
            self._at = self._at + PERIOD if self.slowly else STEPS
        shutil.rmtree(job.folder, ignore_errors=True)
        try:
            write_run(job.folder, job.config, lambda step: [score(job.config, step)], self._at)
        except ArithmeticError as error:
            return [(self._jobs.pop(), "failed", str(error))]
        if self._at == STEPS:
            write_checkpoint(job.folder, job.config, STEPS)
        elif not stops:
            return []
        return [(self._jobs.pop(), "stopped" if stops else "finished", "")]

    def stop_run(self, job: Job) -> None:
        self.stopped.append(job.seed)

    def stop(self) -> None:
        self._jobs.clear()


def search(
    folder: Path,
    executor: Simulated,
    wanted: int,
    space: tuple[Parameter, ...] = KAPPA,
    config: RunConfig | None = None,
    prune: bool = True,
) -> Trials:
    """Run a search, as the command does."""
    folder.mkdir(exist_ok=True)
    config = base() if config is None else config
    trials = Trials(folder, config, space, prune)
    template = job_of(0, config, folder)
    Search(trials, folder, wanted).run(executor, template, lambda *_: None)  # type: ignore[arg-type]
    return trials
