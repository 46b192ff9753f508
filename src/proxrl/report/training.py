"""Training returns next to Dopamine's published ones: the same measure for both.

Both are the mean return of the training episodes in an iteration of 250,000 agent steps, then mean
and standard deviation over seeds. All other scores in a report are evaluation returns.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from proxrl.report.baselines import ITERATION_STEPS, Baseline, published_agent
from proxrl.report.statistics import nanmean, standard_error
from proxrl.report.study import Block, StudyResults, game_of
from proxrl.runs.record import Run
from proxrl.types import Array

MOST_ITERATIONS = 10_000  # of a curve; the published ones have 200
PUBLISHED_PROTOCOL = {
    "protocol.sticky_actions": 0.25,
    "protocol.frame_skip": 4,
    "protocol.max_episode_steps": 27_000,
    "protocol.life_loss_terminal": False,
    "protocol.frame_size": 84,
    "protocol.grayscale": True,
}


class Row(NamedTuple):
    """One iteration of one series on one game, next to one published agent."""

    series: str
    game: str
    iteration: int  # from 0, as Dopamine counts
    mean: float
    standard_deviation: float  # over seeds (n - 1)
    seeds: int
    published: str
    published_mean: float
    published_standard_deviation: float
    published_seeds: int


def training_curve(run: Run) -> Array:
    """Mean training return by iteration of 250,000 agent steps; NaN where none was recorded."""
    if run.config is None or run.config.evaluation.training_period_steps != ITERATION_STEPS:
        return np.empty(0)
    ends, means = run.training.T
    lengths = np.diff(ends, prepend=0.0)
    whole = (ends % ITERATION_STEPS == 0) & (lengths >= ITERATION_STEPS)  # else of another setting
    whole &= ends <= MOST_ITERATIONS * ITERATION_STEPS
    iterations = (ends[whole] // ITERATION_STEPS).astype(int) - 1
    curve = np.full(iterations.max(initial=-1) + 1, np.nan)
    curve[iterations] = means[whole]
    return curve


def over_seeds(block: Block, game: str) -> tuple[Array, Array, Array]:
    """By iteration: the mean of the runs' training returns, their standard deviation (n - 1) and
    the number of runs. Empty if no run of the game recorded any."""
    runs = [run for run in block.runs if game_of(run.asked.env) == game]
    curves = [curve for run in runs if len(curve := training_curve(run))]
    values = np.full((len(curves), max(map(len, curves), default=0)), np.nan)
    for row, curve in zip(values, curves, strict=True):
        row[: len(curve)] = curve
    seeds = (~np.isnan(values)).sum(axis=0)
    return nanmean(values), standard_error(values) * np.sqrt(seeds), seeds


def missing_note(study: StudyResults, baselines: Sequence[Baseline]) -> list[str]:
    """A sentence for the page if published curves were asked for and no run can be compared."""
    if not baselines or any(
        len(training_curve(run)) for block in study.blocks for run in block.runs
    ):
        return []
    return [
        "No run recorded its training returns per 250,000 agent steps, so the published curves, "
        "which are such returns, are only shown next to evaluation returns: train for at least "
        "250,000 steps with `--evaluation.training-period-steps 250000` (the default)."
    ]


def rows(study: StudyResults, baselines: Sequence[Baseline]) -> Iterator[Row]:
    """Every iteration that a run recorded and Dopamine published."""
    for block in study.blocks:
        agent = published_agent(block.series.agent)
        beside = [one for one in baselines if one.agent == agent]
        for number, game in enumerate(study.games):
            means, deviations, seeds = over_seeds(block, game)
            for iteration in np.flatnonzero(seeds).tolist():
                for one in beside:
                    if iteration < one.mean.shape[1] and math.isfinite(one.mean[number, iteration]):
                        yield Row(
                            block.name,
                            game,
                            iteration,
                            float(means[iteration]),
                            float(deviations[iteration]),
                            int(seeds[iteration]),
                            one.name,
                            float(one.mean[number, iteration]),
                            float(one.standard_deviation[number, iteration]),
                            int(one.seeds[number, iteration]),
                        )


def latest(all_rows: Sequence[Row]) -> list[Row]:
    """The last iteration that most runs reached, for each series, game and published agent."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in all_rows:
        key = row.series, row.game, row.published
        if key not in best or row.seeds >= best[key].seeds:
            best[key] = row
    return list(best.values())


def protocol_differences(study: StudyResults) -> list[str]:
    """Protocol settings in which these runs differ from Dopamine's."""
    return [
        f"{name} is {study.protocol.get(name, 'unknown')} here and {value} there"
        for name, value in PUBLISHED_PROTOCOL.items()
        if study.protocol.get(name) != value
    ]


def training_returns_csv(all_rows: Sequence[Row]) -> str:
    """training_returns.csv: every iteration."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    for row in all_rows:
        writer.writerow([f"{x:.8g}" if isinstance(x, float) else x for x in row])
    return text.getvalue()
