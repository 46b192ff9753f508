"""The trials of a search, in Optuna's SQLite storage in the search's folder.

A suggestion is a function of the search's seed, the trial's number and the values of earlier
trials: the sampler is seeded anew for each trial, so that nothing but the storage is carried over
from one process to the next. Run one at a time, the same search gives the same trials, also if it
is killed and continued.
"""

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.tuning.space import Parameter, applied, effective

if TYPE_CHECKING:
    import optuna

STORAGE = "optuna.db"
NAME = "proxrl"
REASON = "reason"  # user attribute: why a trial failed
STARTUP_TRIALS = 5  # before the first may be pruned
WARMUP_SHARE = 0.2  # of the steps, in which none is pruned

Outcome = Literal["running", "finished", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One trial as stored."""

    number: int
    outcome: Outcome
    values: dict[str, Any]  # by setting, as the run uses them
    score: float | None = None  # final score; of a pruned one its last evaluation
    evaluations: dict[int, float] = field(default_factory=dict)  # step -> mean return
    reason: str = ""

    @property
    def height(self) -> float:
        """The score; -inf if there is none."""
        return -math.inf if self.score is None else self.score

    @property
    def last_step(self) -> int:
        """Step of the last evaluation."""
        return max(self.evaluations, default=0)


class Trials:
    """Optuna's study: suggests trials, prunes them and records their results."""

    def __init__(
        self, folder: Path, base: RunConfig, space: Sequence[Parameter], prune: bool
    ) -> None:
        self._optuna: Any = _optuna()
        self._base, self._space = base, tuple(space)
        pruner = self._optuna.pruners.NopPruner()
        if prune:
            pruner = self._optuna.pruners.MedianPruner(
                STARTUP_TRIALS, int(WARMUP_SHARE * base.steps)
            )
        self._study: optuna.Study = self._optuna.create_study(
            storage=_storage(folder / STORAGE),
            study_name=NAME,
            direction="maximize",
            pruner=pruner,
            load_if_exists=True,
        )
        self._live: dict[int, optuna.Trial] = {}
        if not self._study.get_trials(deepcopy=False):
            self._enqueue_preset()

    def _enqueue_preset(self) -> None:
        """The first trial has the preset's own values, if they are in the space."""
        settings = {one.path: effective(self._base, one.path) for one in self._space}
        usual = {one.path: one.usual(settings[one.path]) for one in self._space}
        if None not in usual.values():
            self._study.enqueue_trial(usual)

    # ------------------------------------------------------------------------------ while it runs

    def ask(self) -> tuple[int, RunConfig]:
        """A new trial: its number and config."""
        self._study.sampler = self._sampler(len(self._started()))
        trial = self._study.ask()
        return trial.number, self._config_of(trial)

    def unfinished(self) -> list[tuple[int, RunConfig]]:
        """The trials that another process had started."""
        found = []
        for stored in self._started():
            if not stored.state.is_finished():
                self._study.sampler = self._sampler(stored.number)
                trial = self._optuna.trial.Trial(self._study, stored._trial_id)
                found.append((trial.number, self._config_of(trial)))
        return found

    def prunes(self, number: int, evaluations: Sequence[tuple[int, float]]) -> bool:
        """Record the new evaluations in order; whether one of them is a reason to stop. Those after
        it are not recorded: how many there are depends on the time of asking."""
        trial = self._live[number]
        known = self._study.get_trials(deepcopy=False)[number].intermediate_values
        if known and trial.should_prune():
            return True
        for step, value in evaluations:
            if step not in known:
                trial.report(value, step)
                if trial.should_prune():
                    return True
        return False

    def tell(self, number: int, outcome: Outcome, score: float | None, reason: str = "") -> None:
        states = self._optuna.trial.TrialState
        state = {"finished": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
        if reason:
            self._live[number].set_user_attr(REASON, reason)
        self._study.tell(number, score if outcome == "finished" else None, state[outcome])

    # -------------------------------------------------------------------------------- to be shown

    def all(self) -> list[Trial]:
        """Every started trial, in order."""
        return [self._record(stored) for stored in self._started()]

    # ------------------------------------------------------------------------------------ details

    def _started(self) -> list["optuna.trial.FrozenTrial"]:
        waiting = self._optuna.trial.TrialState.WAITING
        return [one for one in self._study.get_trials(deepcopy=False) if one.state != waiting]

    def _sampler(self, number: int, place: int = 0) -> "optuna.samplers.BaseSampler":
        seed = int(np.random.SeedSequence([self._base.seed, number, place]).generate_state(1)[0])
        sampler: optuna.samplers.BaseSampler = self._optuna.samplers.TPESampler(
            seed=seed, multivariate=True
        )
        return sampler

    def _config_of(self, trial: "optuna.Trial") -> RunConfig:
        """Its values, suggested or read back; its seed is the search's plus its number."""
        self._live[trial.number] = trial
        values = {}
        for place, one in enumerate(self._space, start=1):
            self._study.sampler = self._sampler(trial.number, place)
            values[one.path] = one.suggested(trial)
        config = applied(self._base, values)
        return config.override({"seed": self._base.seed + trial.number})

    def _record(self, stored: "optuna.trial.FrozenTrial") -> Trial:
        states = self._optuna.trial.TrialState
        outcomes: dict[Any, Outcome] = {
            states.RUNNING: "running",
            states.COMPLETE: "finished",
            states.PRUNED: "pruned",
            states.FAIL: "failed",
        }
        evaluations = dict(sorted(stored.intermediate_values.items()))
        score = stored.value if stored.state == states.COMPLETE else None
        if stored.state == states.PRUNED and evaluations:
            score = list(evaluations.values())[-1]
        return Trial(
            stored.number,
            outcomes[stored.state],
            {one.path: one.used(stored.params.get(one.path)) for one in self._space},
            score,
            evaluations,
            str(stored.user_attrs.get(REASON, "")),
        )


def best(trials: Sequence[Trial]) -> Trial | None:
    """The finished one with the highest score; of equal ones the first."""
    finished = [one for one in trials if one.outcome == "finished"]
    return max(finished, key=lambda one: one.height, default=None)


def require_optuna() -> None:
    if importlib.util.find_spec("optuna") is None:
        raise UserError("Optuna is not installed: pip install 'proxrl[tune]'")


def _optuna() -> Any:
    """The module; its messages are off, ours say the same."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _storage(path: Path) -> Any:
    """SQLite, which survives a kill at any moment."""
    import sqlalchemy
    from optuna.storages import RDBStorage

    url = sqlalchemy.engine.URL.create("sqlite", database=str(path.absolute()))
    try:
        return RDBStorage(url.render_as_string())
    except sqlalchemy.exc.DatabaseError as error:
        raise UserError(f"{path} cannot be used: {error.__cause__ or error}") from None
