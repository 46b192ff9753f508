"""The statistics of a study: aggregates, comparisons and their intervals."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxrl.report import intervals, permutation, scores, statistics
from proxrl.report.intervals import Estimate
from proxrl.report.series import other_differences, partner
from proxrl.report.statistics import Resampled
from proxrl.report.study import Block, StudyResults
from proxrl.types import Array

RESAMPLES = 10_000
CURVE_RESAMPLES = 1_000  # for the band of the median curve
FEW_RUNS = 10  # with fewer, nothing is concluded, whatever the intervals
FEW_RUNS_OF_A_GAME = 3  # the same for one game; the simulations in docs/report.md start at three
METRICS = ("median", "IQM", "mean", "optimality gap")


def too_few(runs: int, fewest: int) -> bool:
    """Whether `runs` runs, `fewest` in the game with the fewest, allow no conclusion."""
    return runs < FEW_RUNS or fewest < FEW_RUNS_OF_A_GAME


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
class Comparison:
    """`pro` against `base` on the games that both have finished runs of."""

    pro: Block
    base: Block
    games: tuple[int, ...]  # with a scale, as indices into the study's
    pro_iqm: Estimate
    base_iqm: Estimate
    difference: Estimate  # of the interquartile means
    median_difference: Estimate
    improvement: Estimate  # probability of, over all common games
    improvement_games: int
    runs: int  # finished, on those games, of the series with fewer
    fewest: int  # finished, in the game with the fewest
    wins: Estimate  # share of games in which pro has the higher mean final score
    final_gain: Array  # [all games of the study]
    area_gain: Array  # [all games of the study]

    @property
    def confounds(self) -> dict[str, tuple[Any, Any]]:
        """Settings besides the pull that differ, by name: pro's value and base's."""
        return other_differences(self.pro.series, self.base.series)

    @property
    def is_the_pull(self) -> bool:
        """Whether the two agents differ only in the pull."""
        return self.pro.series.agent == f"{self.base.series.agent}-pro" and not self.confounds

    @property
    def few(self) -> bool:
        """Whether there are too few runs for a conclusion."""
        return too_few(self.runs, self.fewest)

    @property
    def ahead(self) -> int:
        """1: pro is ahead, -1: base is ahead, 0: neither."""
        if self.difference.has_interval:
            return int(self.difference.low > 0) - int(self.difference.high < 0)
        # no common scale: use the probability of improvement
        return int(self.improvement.low > 0.5) - int(self.improvement.high < 0.5)


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
    def pulls(self) -> tuple[Comparison, ...]:
        """The main comparisons that show what the pull does."""
        return tuple(one for one in self.main_comparisons if one.is_the_pull)


def examine(study: StudyResults, resamples: int = RESAMPLES) -> Findings:
    """All statistics; the same study and number of resamples give the same numbers."""
    aggregates = (_aggregate(study, block, resamples) for block in study.blocks)
    pairs, main = _pairs(study)
    compared = [(pair in main, compare(study, *pair, resamples)) for pair in pairs]
    return Findings(
        study,
        tuple(one for one in aggregates if one is not None),
        tuple(one for _, one in compared if one is not None),
        tuple(one for is_main, one in compared if is_main and one is not None),
        resamples,
    )


def sample(
    study: StudyResults, block: Block, games: Array, resamples: int, scaled: bool
) -> Resampled:
    """Final scores of some games, resampled with a generator that depends only on the series."""
    values = study.scale(block.final) if scaled else block.final
    generator = np.random.default_rng([0, zlib.crc32(block.name.encode())])
    return statistics.resample(values[:, games], resamples, generator)


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


def _pairs(study: StudyResults) -> tuple[list[tuple[Block, Block]], list[tuple[Block, Block]]]:
    """All pairs, and the main ones: each main series with the pull against the one without.

    The rest are, within a family of agents (DQN, DQN Pro, DQN Pro adaptive), main series with the
    pull against every other variant, and every other variant with the pull against the main series
    without.
    """
    series = [block.series for block in study.blocks]
    main = [
        (study.block(one), study.block(other))
        for one in series
        if (other := partner(one, series)) is not None
    ]
    pairs = list(main)
    for pro, base in main:
        family = [one for one in study.blocks if one.series.family == base.series.family]
        others = [one for one in family if one not in (pro, base)]
        with_pull = [one for one in others if one.series.agent != base.series.agent]
        for pair in [(pro, one) for one in others] + [(one, base) for one in with_pull]:
            if pair not in pairs and pair[::-1] not in pairs:
                pairs.append(pair)
    if not pairs:
        mains = [block for block in study.blocks if block.series.main] or list(study.blocks)
        rest = [block for block in study.blocks if block is not mains[0]]
        pairs = main = [(block, mains[0]) for block in rest]
    return pairs, main


def compare(study: StudyResults, pro: Block, base: Block, resamples: int) -> Comparison | None:
    """`pro` against `base`; None if they have no game in common."""
    both = ~np.isnan(pro.mean_final) & ~np.isnan(base.mean_final)
    common = np.flatnonzero(both)
    if not len(common):
        return None
    scaled = np.flatnonzero(both & study.scale.known)
    one, other = (sample(study, block, common, resamples, scaled=False) for block in (pro, base))
    chance = improvement_estimate(one, other, _generator(pro, base))
    wins = intervals.share_won(pro.mean_final[common], base.mean_final[common])
    nothing = Estimate(math.nan, math.nan, math.nan)
    iqms, difference, medians = [nothing, nothing], nothing, nothing
    if len(scaled):
        generator = _generator(pro, base)
        drawn = [sample(study, block, scaled, resamples, scaled=True) for block in (pro, base)]
        once = [statistics.whole(part.scores) for part in drawn]
        many = [statistics.interquartile_mean(part) for part in drawn]
        real = [float(statistics.interquartile_mean(part)[0]) for part in once]
        iqms = [
            intervals.estimate(value, values, part)
            for value, values, part in zip(real, many, drawn, strict=True)
        ]
        difference = difference_estimate(
            real[0] - real[1], many[0] - many[1], drawn, permutation.iqm_difference, generator
        )
        medians = difference_estimate(
            float(statistics.median(once[0])[0] - statistics.median(once[1])[0]),
            statistics.median(drawn[0]) - statistics.median(drawn[1]),
            drawn,
            permutation.median_difference,
            generator,
        )
    return Comparison(
        pro,
        base,
        tuple(scaled.tolist()),
        iqms[0],
        iqms[1],
        difference,
        medians,
        chance,
        len(common),
        int(min(one.runs.sum(), other.runs.sum())),
        int(min(one.runs.min(), other.runs.min())),
        wins,
        scores.gain(pro.mean_final, base.mean_final, study.scale),
        scores.gain(pro.mean_area, base.mean_area, study.scale),
    )


def _generator(pro: Block, base: Block) -> np.random.Generator:
    """For the permutation tests; depends only on the two series."""
    return np.random.default_rng([3, *(zlib.crc32(one.name.encode()) for one in (pro, base))])


def improvement_estimate(
    one: Resampled, other: Resampled, generator: np.random.Generator
) -> Estimate:
    """The probability of improvement of the scores themselves, with its interval."""
    whole = (statistics.whole(part.scores) for part in (one, other))
    value = statistics.improvement(*whole)[0]
    if not (one.repeated and other.repeated):
        return Estimate(float(value), math.nan, math.nan)
    p = permutation.p_value(one.scores, other.scores, permutation.improvement, generator)
    many = statistics.improvement(one, other)
    low, high = intervals.improvement_interval(value, many, one, other, np.asarray(p))
    return Estimate(float(value), float(low), float(high))


def difference_estimate(
    value: float,
    many: Array,
    samples: Sequence[Resampled],
    statistic: permutation.Statistic,
    generator: np.random.Generator,
) -> Estimate:
    """A difference with its interval, which agrees with a permutation test of 0."""
    one, other = samples
    if not (one.repeated and other.repeated):
        return Estimate(value, math.nan, math.nan)
    p = permutation.p_value(one.scores, other.scores, statistic, generator)
    low, high = intervals.difference_interval(np.asarray(value), many, one, other, np.asarray(p))
    return Estimate(value, float(low), float(high))


def sync_ratio_estimate(
    pro: Block, base: Block, resamples: int = RESAMPLES
) -> tuple[Estimate, int, int]:
    """Ratio of the sizes of target updates, pro / base: geometric mean over games with its interval
    over runs; the number of runs of the series with fewer, and in the game with the fewest."""
    sizes = [block.curves["sync_distance"] for block in (pro, base)]  # [seeds, games, points]
    both = np.logical_and(*(np.isfinite(statistics.nanmean(size)) for size in sizes))
    drawn, real = [], []
    for block, size in zip((pro, base), sizes, strict=True):
        by_run = statistics.nanmean(np.moveaxis(np.where(both, size, np.nan), 2, 0))
        logs = np.log(np.where(by_run > 0, by_run, np.nan))[:, both.any(axis=1)]
        if not logs.size or np.isnan(logs).all(axis=0).any():
            return Estimate(math.nan, math.nan, math.nan), 0, 0
        generator = np.random.default_rng([2, zlib.crc32(block.name.encode())])
        drawn.append(statistics.resample(logs, resamples, generator))
        real.append(statistics.mean(statistics.whole(logs))[0])
    logs_apart = statistics.mean(drawn[0]) - statistics.mean(drawn[1])
    apart = difference_estimate(
        float(real[0] - real[1]),
        logs_apart,
        drawn,
        permutation.mean_difference,
        _generator(pro, base),
    )
    low, high = math.exp(apart.low), math.exp(apart.high)
    if apart.low > 0.0:  # also where the exponential rounds to 1
        low = max(low, math.nextafter(1.0, 2.0))
    if apart.high < 0.0:
        high = min(high, math.nextafter(1.0, 0.0))
    found = Estimate(math.exp(apart.value), low, high)
    runs = [part.runs for part in drawn]
    return found, int(min(one.sum() for one in runs)), int(min(one.min() for one in runs))


def sync_ratios(pro: Block, base: Block) -> Array:
    """Ratio of the mean sizes of target updates, pro / base, where both were measured, [games]."""
    sizes = [statistics.nanmean(block.curves["sync_distance"]) for block in (pro, base)]
    both = np.isfinite(sizes[0]) & np.isfinite(sizes[1])  # [games, points]
    total = [np.where(both, size, 0.0).sum(axis=1) for size in sizes]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total[0] / total[1])
