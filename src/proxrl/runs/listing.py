"""`proxrl runs`: a table of every run below a folder."""

import time
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from proxrl.errors import UserError, printable
from proxrl.runs.folder import RunFolder
from proxrl.runs.record import read_run, run_folders

WIDE = 200  # columns
NARROW = 100  # columns: below, the names of runs need the room of what matters less
UNKNOWN = "–"


def list_runs(folder: Path) -> None:
    """Print the table."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder")
    rows = [_row_or_error(path, folder) for path in run_folders(folder)]
    if not rows:
        raise UserError(
            f"{folder} contains no runs: train one with `proxrl train dqn-pro --env CartPole-v1`"
        )
    console = Console(markup=False)
    if not console.is_terminal:  # to a file or a pipe: one line per run, however long
        console = Console(width=WIDE, markup=False)
    console.print(_table(rows, console.width < NARROW))


def _table(rows: list[list[str]], narrow: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", overflow="fold")
    titles = ["progress", "status", "return", "steps/s", "seen"]
    if narrow:  # without the number of steps and the speed
        titles.remove("steps/s")
        rows = [[run, share.split(" of ")[0], *rest[:2], rest[3]] for run, share, *rest in rows]
    for title in titles:
        table.add_column(title, no_wrap=title != "status", justify="left")
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    return table


def _row_or_error(path: Path, root: Path) -> list[str]:
    """A folder that cannot be read is a row, too."""
    try:
        return _row(path, root)
    except Exception as error:
        why = " ".join(str(error).split())[:100] or type(error).__name__
        return [str(path.relative_to(root)), UNKNOWN, f"corrupt: {why}", *[UNKNOWN] * 3]


def _row(path: Path, root: Path) -> list[str]:
    run, place = read_run(path, root), RunFolder(path)
    if run.config is None or run.status == "corrupt":
        return [run.path, UNKNOWN, f"{run.status}: {run.note}", *[UNKNOWN] * 3]
    evaluated = int(run.steps[-1]) if len(run.steps) else 0
    step, steps, env = max(place.newest_step() or 0, evaluated), run.config.steps, run.config.env
    rate = seen = UNKNOWN
    try:
        for last in place.speeds()[-1:]:
            rate, seen = f"{last['steps_per_second']:,.0f}", _ago(last["unix_time"])
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        pass  # damaged: it is only for display
    return [
        run.path if env.split("/")[-1] in run.path else f"{run.path} ({env})",
        f"{step / steps:.0%} of {steps:,}",
        run.status,
        f"{run.curves['eval_return'][-1]:.1f}" if evaluated else UNKNOWN,
        rate,
        seen,
    ]


def _ago(unix_time: float) -> str:
    minutes = (time.time() - unix_time) / 60
    if minutes < 100:
        return f"{minutes:.0f} min ago"
    return f"{minutes / 60:.0f} h ago" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days ago"
