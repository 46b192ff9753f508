"""The demonstration: DQN and DQN Pro side by side, and what shows within minutes."""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from proxrl.config import RunConfig, validated
from proxrl.envs import make
from proxrl.errors import RunFailed, UserError
from proxrl.report.command import make_report
from proxrl.report.comparison import draw_comparison
from proxrl.report.series import NAMES
from proxrl.runs.folder import RunFolder
from proxrl.studies.board import Board, Entry, require_same
from proxrl.studies.conduct import conduct
from proxrl.studies.expand import Job
from proxrl.studies.local import Local
from proxrl.suites import presets

AGENTS = ("dqn", "dqn-pro")
MIN_STEPS = 4_000  # warm-up and a few syncs


def run_demo(env: str, steps: int, seed: int, folder: Path) -> None:
    """Train both, draw, compare, and say what it means and what it does not."""
    if steps < MIN_STEPS:
        raise UserError(f"invalid --steps {steps}: must be at least {MIN_STEPS:,}")
    make(env, presets.make("dqn", env).protocol).close()  # or a `UserError`
    console = Console(soft_wrap=True)
    changes = {"evaluation.period_steps": max(1, steps // 20), "logging.tensorboard": False}
    jobs = [
        (
            validated(presets.make(agent, env, changes, seed=seed, steps=steps, threads=1)),
            folder / agent,
        )
        for agent in AGENTS
    ]
    console.print(
        f"DQN and DQN Pro on {env}: {steps:,} agent steps each, seed {seed}, one core each.\n"
        f"They differ in one number: proximal.c = inf against {jobs[1][0].c:g} "
        f"(pull per sync {jobs[1][0].pull_per_sync:g}).",
        highlight=False,
    )
    _train_both(console, jobs, steps)
    picture = folder / "comparison.png"
    draw_comparison([place for _, place in jobs], picture)
    _compare(console, [place for _, place in jobs])
    page, summary = make_report(folder)
    console.print("\n".join(summary), highlight=False, markup=False)
    console.print(f"picture: {picture}   runs: {folder}", highlight=False, markup=False)
    console.print(f"report, open it in a browser: {page}", highlight=False, markup=False)


class Glimpse(NamedTuple):
    """Where a run is now."""

    job: int
    step: int
    last_return: float | None


def run_side_by_side(
    jobs: list[tuple[RunConfig, Path]],
    watch: Callable[[Glimpse], None],
    done: Callable[[int], None],
) -> None:
    """Train every job at the same time, continuing what is there already.

    On an interrupt every run makes a checkpoint; a failed run raises `RunFailed` in the end.
    """
    numbers = {
        Job(config.agent, config.env, config.seed, config, folder): number
        for number, (config, folder) in enumerate(jobs)
    }
    require_same(numbers)
    board = Board(list(numbers))

    def pass_on(board: Board, entry: Entry | None, happened: str) -> None:
        for one in board.of("running", "finished"):
            watch(Glimpse(numbers[one.job], one.step, one.last_return))
        if entry is not None and entry.status in ("finished", "failed"):
            done(numbers[entry.job])

    for entry in board.of("finished"):
        pass_on(board, entry, "finished")
    try:
        conduct(board, Local(cores=len(jobs), max_jobs=len(jobs)), pass_on)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues it") from None
    failures = [entry.reason for entry in board.of("failed")]
    if failures:
        raise RunFailed("; ".join(failures))


def _train_both(console: Console, jobs: list[Any], steps: int) -> None:
    bars = Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        TextColumn("{task.completed:>7,.0f}/{task.total:,.0f} steps"),
        TextColumn("{task.fields[score]:<12}"),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
    with bars:
        tasks = [bars.add_task(NAMES[agent], total=steps, score="") for agent in AGENTS]

        def watch(glimpse: Glimpse) -> None:
            score = "" if glimpse.last_return is None else f"return {glimpse.last_return:.1f}"
            bars.update(tasks[glimpse.job], completed=glimpse.step, score=score)

        run_side_by_side(jobs, watch, done=lambda job: bars.stop_task(tasks[job]))


def _compare(console: Console, folders: list[Path]) -> None:
    lines = [RunFolder(folder).metrics() for folder in folders]
    speeds = [RunFolder(folder).speeds() for folder in folders]
    distances = [_means(rows, "train/sync_distance") for rows in lines]
    table = Table("", *(NAMES[agent] for agent in AGENTS), "DQN Pro / DQN", title="comparison")
    for title, share in (("first fifth", slice(0, 4)), ("all of it", slice(None))):
        plain, pro = (fmean(row[share]) for row in distances)
        table.add_row(
            f"size of target updates, {title}", f"{plain:.3f}", f"{pro:.3f}", f"{pro / plain:.2f}"
        )
    plain, pro = (fmean(_means(rows, "train/value_distance")) for rows in lines)
    table.add_row("|Q online - Q target|", f"{plain:.4f}", f"{pro:.4f}", f"{pro / plain:.2f}")
    plain, pro = (fmean(_means(rows, "eval/mean_return")[-5:]) for rows in lines)
    ratio = pro / plain if plain else math.nan
    table.add_row("evaluation return, last quarter", f"{plain:.1f}", f"{pro:.1f}", f"{ratio:.2f}")
    plain, pro = (fmean(_means(rows, "steps_per_second")) for rows in speeds)
    table.add_row("steps per second", f"{plain:,.0f}", f"{pro:,.0f}", f"{pro / plain:.2f}")
    console.print(table)
    smaller = 1 - fmean(distances[1]) / fmean(distances[0])
    console.print(
        f"[bold]The pull makes the target-network updates {smaller:.0%} smaller[/bold] "
        "(compare the paper's Figure 4).\n"
        "Returns are one seed at a small budget and may differ either way:\n"
        "where they separate, they usually do so later.\n"
        "Longer: proxrl train dqn-pro --env MinAtar/Asterix-v1",
        highlight=False,
    )


def _means(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row.get(name) is not None]
