"""Progress of a search: a live table in a terminal, one line per event elsewhere."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from proxrl.studies.board import Board, Entry
from proxrl.studies.table import LiveFrame
from proxrl.training.amounts import duration
from proxrl.tuning.search import Search
from proxrl.tuning.space import Parameter
from proxrl.tuning.trials import Trial, best

BEST_SHOWN = 3
STYLES = {"running": "cyan", "finished": "green", "pruned": "dim", "failed": "bold red"}


class Show(LiveFrame):
    """The progress of a search."""

    def __init__(
        self,
        title: str,
        search: Search,
        space: Sequence[Parameter],
        console: Console | None = None,
    ) -> None:
        super().__init__(console)
        self._title, self._search, self._space = title, search, space
        self._trials = search.trials.all()
        self._began = (time.monotonic(), _ended(self._trials))

    def __call__(self, board: Board, entry: Entry | None, happened: str) -> None:
        if entry is not None:
            self._trials = self._search.trials.all()
        super().__call__(board, entry, happened)

    def summary(self, board: Board) -> str:
        """12 of 30 trials done (8 finished, 4 pruned), 2 running; best 9.1 (trial 5: kappa 0.3)"""
        return summary(self._trials, self._search.wanted, self._space) + self._time_left()

    def _time_left(self) -> str:
        then, ended = self._began
        done = _ended(self._trials) - ended
        left = self._search.wanted - _ended(self._trials)
        if not done or not left:
            return ""
        return f"; about {duration((time.monotonic() - then) / done * left)} left"

    def line(self, board: Board, entry: Entry, happened: str) -> str:
        number = self._search.number_of(entry.job)
        values = described(self._trials[number].values, self._space)
        done = f"[{_ended(self._trials)}/{self._search.wanted}]"
        return f"{done} trial {number} ({values}): {happened}"

    def picture(self, board: Board) -> Group:
        table = Table(title=self._title)
        for head in ("trial", "status", *(one.name for one in self._space), "score"):
            table.add_column(head, justify="left" if head == "status" else "right", no_wrap=True)
        table.add_column("steps", min_width=16)
        entries = {self._search.number_of(job): entry for job, entry in board.entries.items()}
        ended = [one for one in self._trials if one.outcome == "finished"]
        ranked = sorted(ended, key=lambda one: -one.height)[:BEST_SHOWN]
        running = [one for one in self._trials if one.outcome == "running"]
        for trial in (*ranked, *running):
            entry = entries.get(trial.number)
            score = trial.score
            share = 1.0
            if trial.outcome == "running" and entry is not None:
                score, share = entry.last_return, entry.step / entry.job.config.steps
            table.add_row(
                str(trial.number),
                Text(trial.outcome, style=STYLES[trial.outcome]),
                *(shown(trial.values[one.path]) for one in self._space),
                "" if score is None else f"{score:.4g}",
                ProgressBar(total=1.0, completed=share, width=16),
                end_section=bool(ranked) and trial is ranked[-1],
            )
        return Group(table, Text(self.summary(board)))


def summary(trials: Sequence[Trial], wanted: int, space: Sequence[Parameter]) -> str:
    """12 of 30 trials done (8 finished, 4 pruned); best 9.1 (trial 5: kappa 0.3)"""
    kinds = [one.outcome for one in trials]
    counts = [f"{kinds.count(one)} {one}" for one in ("finished", "pruned", "failed")]
    known = ", ".join(count for count in counts if not count.startswith("0 "))
    text = f"{_ended(trials)} of {wanted} trials done" + (f" ({known})" if known else "")
    top = best(trials)
    if top is not None:
        values = described(top.values, space)
        text += f"; best {top.score:.4g} (trial {top.number}: {values})"
    return text


def described(values: dict[str, Any], space: Sequence[Parameter]) -> str:
    """kappa 0.3, learning_rate 0.0001"""
    return ", ".join(f"{one.name} {shown(values[one.path])}" for one in space)


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ended(trials: Sequence[Trial]) -> int:
    return sum(one.outcome != "running" for one in trials)
