"""The statistics of a study: aggregates, comparisons and their intervals."""

import math
from dataclasses import dataclass

import numpy as np

from proxrl.report import intervals, statistics
from proxrl.report.comparisons import RESAMPLES, Comparison, compare, pairs, sample, too_few
from proxrl.report.intervals import Estimate
from proxrl.report.study import Block, StudyResults

CURVE_RESAMPLES = 1_000  # for the band of the median curve
METRICS = ("median", "IQM", "mean", "optimality gap")


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One series over the games that have a scale."""

    block: Block
    games: int
    runs: int
    fewest: int  # in the game with the fewest runs
    metrics: dict[str, Estimate]  # name in METRICS

    @property
    def few(self) -> bool:
        """Whether there are too few runs for a conclusion."""
        return too_few(self.runs, self.fewest)


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything computed from a study."""

    study: StudyResults
    aggregates: tuple[Aggregate, ...]
    comparisons: tuple[Comparison, ...]
    main_comparisons: tuple[Comparison, ...]  # with and without the pull; else any two agents
    resamples: int

    @property
    def has_intervals(self) -> bool:
        return any(one.improvement.has_interval for one in self.comparisons) or any(
            one.metrics["IQM"].has_interval for one in self.aggregates
        )

    @property
    def metric_names(self) -> list[str]:
        """The aggregates to show: of those that are equal (with two games the median and the mean,
        with one run of each all of them) only the first; with one game IQM and mean."""
        games = max((one.games for one in self.aggregates), default=0)
        shown: dict[str, list[str]] = {}
        for name in METRICS if games > 1 else ("IQM", "mean"):
            if all(name in one.metrics for one in self.aggregates):
                values = [f"{one.metrics[name].value:.9g}" for one in self.aggregates]
                if values not in shown.values():
                    shown[name] = values
        return list(shown)

    @property
    def differences(self) -> tuple[Comparison, ...]:
        """The comparisons of interquartile means that have an interval."""
        return tuple(one for one in self.comparisons if one.difference.has_interval)

    @property
    def pulls(self) -> tuple[Comparison, ...]:
        """The main comparisons that show what the pull does."""
        return tuple(one for one in self.main_comparisons if one.is_the_pull)


def examine(study: StudyResults, resamples: int = RESAMPLES) -> Findings:
    """All statistics; the same study and number of resamples give the same numbers."""
    aggregates = (_aggregate(study, block, resamples) for block in study.blocks)
    chosen, main = pairs(study)
    compared = [(pair in main, compare(study, *pair, resamples)) for pair in chosen]
    return Findings(
        study,
        tuple(one for one in aggregates if one is not None),
        tuple(one for _, one in compared if one is not None),
        tuple(one for is_main, one in compared if is_main and one is not None),
        resamples,
    )


def _aggregate(study: StudyResults, block: Block, resamples: int) -> Aggregate | None:
    games = np.flatnonzero(study.scale.known & ~np.isnan(block.mean_final))
    if not len(games):
        return None
    drawn = sample(study, block, games, resamples, scaled=True)
    once = statistics.whole(drawn.scores)
    functions = {
        "median": statistics.median,
        "IQM": statistics.interquartile_mean,
        "mean": statistics.mean,
        "optimality gap": statistics.optimality_gap,
    }
    if study.scale.kind == "raw":
        del functions["optimality gap"]  # a raw return has no optimum
    metrics = {
        name: intervals.estimate(
            function(once)[0],
            function(drawn),
            drawn,
            tails=name != "IQM",
            within=(0.0, math.inf) if name == "optimality gap" else intervals.EVERYWHERE,
            hidden=statistics.hidden_variance(drawn.scores) if name == "optimality gap" else 0.0,
        )
        for name, function in functions.items()
    }
    return Aggregate(block, len(games), int(drawn.runs.sum()), int(drawn.runs.min()), metrics)
