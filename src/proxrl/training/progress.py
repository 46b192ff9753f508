"""Progress of a run: a bar in a terminal, one line in place in a notebook, lines elsewhere.

A display is a callback that also receives messages.
"""

import sys
import time
from typing import TYPE_CHECKING, Any, Literal, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from proxrl.errors import UserError
from proxrl.training.amounts import duration
from proxrl.training.callbacks import Callback

if TYPE_CHECKING:
    from proxrl.training.loop import Trainer

REFRESH_SECONDS = 0.2
ALIVE_SECONDS = 60.0  # between two lines about an evaluation, without a terminal
WIDE = 100  # columns: room for the elapsed time
TEXT = 50  # columns for the text beside the bar; a longer one makes the bar shorter
BAR = (8, 40)  # columns: least and most
NOTEBOOK_BAR = 24  # columns


class Display(Callback):
    """Receives messages and progress of a run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        print(f"proxrl: {line}", file=sys.stderr)

    def on_evaluation_step(self, run: "Trainer") -> None:
        """Before every step of an evaluation, which may be long."""


class Quiet(Display):
    """Warnings only, on standard error: the default from Python."""


class _Watched(Display):
    """Calls `show` a few times per second, after every evaluation, and after the last step, and
    `show_alive` in an evaluation that takes long."""

    alive_seconds = 1.0  # between two signs of life

    def __init__(self) -> None:
        self._next = 0.0
        self._speed = _Speed()
        self._evaluation_steps = 0  # of the present evaluation
        self._next_alive = 0.0

    def on_step(self, run: "Trainer") -> None:
        now = time.perf_counter()
        if now >= self._next or run.step >= run.config.steps:
            self._next = now + REFRESH_SECONDS
            self.show(run, self._speed(run.step, now))

    def on_evaluation_step(self, run: "Trainer") -> None:
        now = time.perf_counter()
        if not self._evaluation_steps:
            self._next_alive = now + self.alive_seconds
        self._evaluation_steps += 1
        if now >= self._next_alive:
            self._next_alive = now + self.alive_seconds
            self.show_alive(f"step {run.step:,}: evaluating, {self._evaluation_steps:,} steps")

    def on_evaluation(self, run: "Trainer") -> None:
        self._evaluation_steps = 0
        self.show(run, self._speed.before_the_evaluation(run.step))

    def facts(self, run: "Trainer", rate: float) -> str:
        """25,000/60,000  1,234/s  return 98.7 (training)  3 min left"""
        if run.last_evaluation is not None:
            returns = f"return {run.last_evaluation.mean:,.1f}"
        elif run.training_return is not None:
            returns = f"return {run.training_return:,.1f} (training)"
        else:
            returns = "return –"
        left = self._speed.seconds_for(run.config.steps - run.step)
        steps = f"{_short(run.step)}/{_short(run.config.steps)}"
        time_left = "" if left is None else f"{duration(left)} left"
        return "  ".join([steps, f"{rate:,.0f}/s", returns, time_left])

    def show(self, run: "Trainer", rate: float) -> None:
        raise NotImplementedError

    def show_alive(self, line: str) -> None:
        raise NotImplementedError


class Live(_Watched):
    """A bar with speed, time left and the mean return; without a terminal, a line per evaluation.

    The return is that of the last evaluation; before the first, of the training episodes so far.
    """

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self._console = console or Console(stderr=True, soft_wrap=True, markup=False)
        wide = self._console.width >= WIDE
        self._room = self._console.width - 2 - 9 * wide  # columns of bar and text
        self._text = TEXT
        self._column = BarColumn(bar_width=self._bar_width(""))
        self._bar = Progress(
            self._column,
            TextColumn("{task.fields[facts]}"),
            *([TimeElapsedColumn()] if wide else []),
            console=self._console,
            transient=False,
            disable=not self._console.is_terminal,
        )
        self._task = None if self._bar.disable else self._bar.add_task("", total=None, facts="")
        self.alive_seconds = ALIVE_SECONDS if self._task is None else 1.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False)

    def on_step(self, run: "Trainer") -> None:
        if self._task is not None:
            super().on_step(run)
        elif (now := time.perf_counter()) >= self._next:  # only the speed, for the next line
            self._next = now + REFRESH_SECONDS
            self._speed(run.step, now)

    def show(self, run: "Trainer", rate: float) -> None:
        if self._task is not None:
            facts = self.facts(run, rate)
            self._column.bar_width = self._bar_width(facts)
            self._bar.update(self._task, completed=run.step, total=run.config.steps, facts=facts)
        elif run.last_evaluation is not None:
            share = run.step / run.config.steps
            returns = f"return {run.last_evaluation.mean:.1f}"
            self.say(f"step {run.step:,} ({share:.0%})  {returns}  {rate:,.0f} steps/s")

    def show_alive(self, line: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, facts=line)
        else:
            self.say(line)

    def _bar_width(self, facts: str) -> int:
        """What the longest text so far leaves, so that the bar does not change with every text."""
        self._text = max(self._text, len(facts))
        least, most = BAR
        return max(least, min(most, self._room - self._text))


class Notebook(_Watched):
    """One line of text, rewritten in place; needs no widgets."""

    def __init__(self, file: Any = None) -> None:
        super().__init__()
        self._file = file or sys.stdout
        self._length = 0  # of the line on screen

    def __exit__(self, *_: object) -> None:
        if self._length:
            print(file=self._file, flush=True)

    def say(self, line: str) -> None:
        self._write(line + "\n")
        self._length = 0

    def show(self, run: "Trainer", rate: float) -> None:
        done = NOTEBOOK_BAR * run.step // run.config.steps
        bar = "█" * done + "░" * (NOTEBOOK_BAR - done)
        self._write(f"{bar} {self.facts(run, rate)}")

    def show_alive(self, line: str) -> None:
        self._write(line)

    def _write(self, line: str) -> None:
        before, self._length = self._length, len(line)
        print(f"\r{line.ljust(before)}", end="", file=self._file, flush=True)


def _short(steps: int) -> str:
    """60,000 or 29.95M"""
    return f"{steps:,}" if steps < 1_000_000 else f"{steps / 1e6:.2f}M"


class _Speed:
    """Steps per second, smoothed over about five seconds; for the time left, since the start."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []
        self._first: tuple[float, int] | None = None

    def __call__(self, step: int, now: float) -> float:
        recent = [mark for mark in self._marks if mark[0] > now - 5.0]
        self._marks = [*(recent or self._marks)[-50:], (now, step)]
        self._first = self._first or (now, step)
        return _rate(self._marks[0], self._marks[-1])

    def before_the_evaluation(self, step: int) -> float:
        """The speed of training, without the time that an evaluation took after it."""
        if len(self._marks) < 2:
            return self(step, time.perf_counter())
        return _rate(self._marks[0], self._marks[-1])

    def seconds_for(self, steps: int) -> float | None:
        """The time that so many steps take, evaluations included; None if it is unknown."""
        rate = _rate(self._first, self._marks[-1]) if self._first else 0.0
        return steps / rate if rate else None


def _rate(then: tuple[float, int], now: tuple[float, int]) -> float:
    return (now[1] - then[1]) / (now[0] - then[0]) if now[0] > then[0] else 0.0


def display_for_terminal() -> Display:
    """A progress bar on standard error if it is a terminal, otherwise lines."""
    return Live(Console(file=sys.stderr, soft_wrap=True, markup=False))


def chosen(display: Display | Literal["auto"] | None) -> Display:
    """The display to use; "auto": for a notebook, a terminal or a file, None: warnings only."""
    if display == "auto":
        return Notebook() if _in_notebook() else display_for_terminal()
    if display is not None and not isinstance(display, Display):
        raise UserError(f'invalid display {display!r:.60}: must be "auto", None or a Display')
    return display or Quiet()


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel (also Colab, VS Code)."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")
