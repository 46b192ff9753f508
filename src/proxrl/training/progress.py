"""Progress of a run: a progress bar in a terminal, one line per evaluation elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from proxrl.training.loop import Trainer

REFRESH_SECONDS = 0.2


class Display(Protocol):
    """Receives messages and progress of a run."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def say(self, line: str) -> None: ...
    def update(self, run: "Trainer") -> None: ...


class Quiet:
    """Warnings only, on standard error: the default from Python."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        print(f"proxrl: {line}", file=sys.stderr)

    def update(self, run: "Trainer") -> None:
        pass


class Live:
    """A bar with speed, time left and the last evaluation."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self._console,
            transient=False,
            disable=not self._console.is_terminal,
        )
        self._task = None if self._bar.disable else self._bar.add_task("", total=0, facts="")
        self._shown_evaluation = 0
        self._next = 0.0
        self._speed = _Speed()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False)

    def update(self, run: "Trainer") -> None:
        now = time.perf_counter()
        evaluated = run.evaluated_step != self._shown_evaluation
        if now < self._next and not evaluated and run.step < run.config.steps:
            return
        self._next = now + REFRESH_SECONDS
        rate = self._speed(run.step, now)
        score = run.last_evaluation
        returns = f"return {score.mean:.1f}" if score else "return –"
        if self._task is not None:
            self._bar.update(
                self._task,
                description=f"{run.config.agent} {run.config.env}",
                completed=run.step,
                total=run.config.steps,
                facts=f"{rate:,.0f}/s  {returns}",
            )
        elif evaluated and score is not None:
            share = run.step / run.config.steps
            self.say(f"step {run.step:,} ({share:.0%})  {returns}  {rate:,.0f} steps/s")
        self._shown_evaluation = run.evaluated_step


class _Speed:
    """Steps per second, smoothed over about five seconds."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def __call__(self, step: int, now: float) -> float:
        recent = [mark for mark in self._marks if mark[0] > now - 5.0]
        self._marks = [*(recent or self._marks)[-50:], (now, step)]
        then, before = self._marks[0]
        return (step - before) / (now - then) if now > then else 0.0


def display_for_terminal() -> Display:
    """A progress bar on standard error if it is a terminal, otherwise lines."""
    return Live(Console(file=sys.stderr, soft_wrap=True))
