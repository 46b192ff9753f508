"""Progress of a study: a live table in a terminal, one line per event elsewhere."""

import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from proxrl.studies.board import SHOWN, Board, Entry
from proxrl.training.amounts import duration

REFRESH_SECONDS = 0.5
SUMMARY_SECONDS = 60.0
RUNNING_SHOWN = 8
STYLES = {"waiting": "dim", "running": "cyan", "finished": "green", "failed": "bold red"}


class LiveFrame(ABC):
    """The `watch` callback of `conduct`: what to show is up to its subclasses."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, markup=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._next = 0.0

    @abstractmethod
    def picture(self, board: Board) -> Group:
        """The table in a terminal."""

    @abstractmethod
    def line(self, board: Board, entry: Entry, happened: str) -> str:
        """What happened to a run."""

    @abstractmethod
    def summary(self, board: Board) -> str:
        """The state of all runs, in one line."""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def __call__(self, board: Board, entry: Entry | None, happened: str) -> None:
        now = time.monotonic()
        if entry is None and happened:
            self._say(happened)
        elif self._console.is_terminal:
            if entry is not None and happened.startswith(("failed", "crashed")):
                self._say(self.line(board, entry, happened))
            if now >= self._next or entry is not None:
                self._next = now + REFRESH_SECONDS
                self._live.update(self.picture(board), refresh=True)
        elif entry is not None:
            self._say(self.line(board, entry, happened))
        elif now >= self._next:
            if self._next:
                self._say(self.summary(board))
            self._next = now + SUMMARY_SECONDS

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class Show(LiveFrame):
    """The progress of a study."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        super().__init__(console)
        self._title = title

    def picture(self, board: Board) -> Group:
        return _picture(self._title, board)

    def line(self, board: Board, entry: Entry, happened: str) -> str:
        return _line(board, entry, happened)

    def summary(self, board: Board) -> str:
        return summary(board)


def summary(board: Board) -> str:
    """3 of 24 runs finished, 2 running, 19 waiting; about 70 min left"""
    counts = board.counts()
    others = [f"{counts[s]} {s}" for s in ("running", "waiting", "failed") if counts[s]]
    left = board.seconds_left()
    time_left = [] if left is None else [f"about {duration(left)} left"]
    runs = f"{counts['finished']} of {len(board.entries)} runs finished"
    return "; ".join([", ".join([runs, *others]), *time_left])


def _line(board: Board, entry: Entry, happened: str) -> str:
    done = board.counts()["finished"]
    words = f"[{done}/{len(board.entries)}] {entry.job.name}: {happened}"
    if entry.status == "finished":
        score = "" if entry.last_return is None else f", return {entry.last_return:.1f}"
        words += f"{score}, {duration(entry.seconds)}"
    return words


def _picture(title: str, board: Board) -> Group:
    table = Table(title=title)
    table.add_column("variant", no_wrap=True)
    for status in SHOWN:
        table.add_column(status, justify="right", style=STYLES[status])
    table.add_column("steps done", min_width=24)
    table.add_column("steps/s", justify="right")
    rows: list[str | None] = [*board.variants]
    if len(rows) > 1:
        rows.append(None)
    for variant in rows:
        counts = board.counts(variant)
        rate = None if variant is None else board.rate(variant)
        table.add_row(
            "all" if variant is None else variant,
            *(str(counts[status] or "") for status in SHOWN),
            ProgressBar(total=1.0, completed=board.share_done(variant), width=24),
            "" if rate is None else f"{rate:,.0f}",
            end_section=variant is not None and variant == board.variants[-1],
        )
    running = board.of("running")
    lines = [_glimpse(entry) for entry in running[:RUNNING_SHOWN]]
    if len(running) > RUNNING_SHOWN:
        lines.append(f"  and {len(running) - RUNNING_SHOWN} more")
    return Group(table, *(Text(line, style="cyan") for line in lines), Text(summary(board)))


def _glimpse(entry: Entry) -> str:
    score = "" if entry.last_return is None else f"  return {entry.last_return:.1f}"
    steps = f"{entry.step:>11,} / {entry.job.config.steps:,} steps"
    return f"  {entry.job.name:<40} {steps}{score}"
