"""Two series against each other: differences of their scores with intervals, sizes of updates."""

import itertools
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
UNKNOWN = Estimate(math.nan, math.nan, math.nan)
FEW_RUNS = 10  # with fewer, nothing is concluded, whatever the intervals
SMALL_FAMILY = 6  # series that are all compared with each other
FEW_RUNS_OF_A_GAME = 3  # the same for one game; the simulations in docs/report.md start at three


def too_few(runs: int, fewest: int) -> bool:
    """Whether `runs` runs, `fewest` in the game with the fewest, allow no conclusion."""
    return runs < FEW_RUNS or fewest < FEW_RUNS_OF_A_GAME


@dataclass(frozen=True, eq=False)
class Comparison:
    """`pro` against `base` on the games that both have finished runs of."""

    pro: Block
    base: Block
    games: tuple[int, ...]  # with a scale, as indices into the study's
    pro_iqm: Estimate
    base_iqm: Estimate
    difference: Estimate  # of the interquartile means
    area_difference: Estimate  # the same, of areas under the curve
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


def sample(
    study: StudyResults,
    block: Block,
    games: Array,
    resamples: int,
    scaled: bool,
    area: bool = False,
) -> Resampled:
    """Final scores of some games, or areas under their curves, resampled with a generator that
    depends only on the series."""
    values = block.area if area else block.final
    values = study.scale(values) if scaled else values
    generator = np.random.default_rng([0, zlib.crc32(block.name.encode())])
    return statistics.resample(values[:, games], resamples, generator)


def pairs(study: StudyResults) -> tuple[list[tuple[Block, Block]], list[tuple[Block, Block]]]:
    """All pairs, and the main ones: each main series with the pull against the one without.

    The rest are, within a family of agents (DQN, DQN Pro, DQN Pro adaptive), main series with the
    pull and the one without against every other variant; all pairs of a small family.
    """
    series = [block.series for block in study.blocks]
    main = [
        (study.block(one), study.block(other))
        for one in series
        if (other := partner(one, series)) is not None
    ]
    chosen = list(main)
    for pro, base in main:
        family = [one for one in study.blocks if one.series.family == base.series.family]
        others = [one for one in family if one not in (pro, base)]
        others.sort(key=lambda one: one.series.agent == base.series.agent)  # with a pull first
        more = [(pro, one) for one in others] + [(one, base) for one in others]
        if len(family) <= SMALL_FAMILY:
            more += itertools.combinations(others, 2)
        for pair in more:
            if pair not in chosen and pair[::-1] not in chosen:
                chosen.append(pair)
    if not chosen:
        mains = [block for block in study.blocks if block.series.main] or list(study.blocks)
        rest = [block for block in study.blocks if block is not mains[0]]
        chosen = main = [(block, mains[0]) for block in rest]
    return chosen, main


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
    iqms, difference, medians, of_areas = [UNKNOWN, UNKNOWN], UNKNOWN, UNKNOWN, UNKNOWN
    if len(scaled):
        generator = _generator(pro, base)
        drawn = [sample(study, block, scaled, resamples, scaled=True) for block in (pro, base)]
        iqms, difference = _iqms(drawn, generator)
        real = [float(statistics.median(statistics.whole(part.scores))[0]) for part in drawn]
        many = [statistics.median(part) for part in drawn]
        medians = difference_estimate(
            real[0] - real[1], many[0] - many[1], drawn, permutation.median_difference, generator
        )
        areas = [
            sample(study, block, scaled, resamples, scaled=True, area=True) for block in (pro, base)
        ]
        _, of_areas = _iqms(areas, generator)
    return Comparison(
        pro=pro,
        base=base,
        games=tuple(scaled.tolist()),
        pro_iqm=iqms[0],
        base_iqm=iqms[1],
        difference=difference,
        area_difference=of_areas,
        median_difference=medians,
        improvement=chance,
        improvement_games=len(common),
        runs=int(min(one.runs.sum(), other.runs.sum())),
        fewest=int(min(one.runs.min(), other.runs.min())),
        wins=wins,
        final_gain=scores.gain(pro.mean_final, base.mean_final, study.scale),
        area_gain=scores.gain(pro.mean_area, base.mean_area, study.scale),
    )


def _iqms(
    drawn: Sequence[Resampled], generator: np.random.Generator
) -> tuple[list[Estimate], Estimate]:
    """Both interquartile means, and their difference."""
    real = [float(statistics.interquartile_mean(statistics.whole(one.scores))[0]) for one in drawn]
    many = [statistics.interquartile_mean(one) for one in drawn]
    both = [
        intervals.estimate(value, values, one)
        for value, values, one in zip(real, many, drawn, strict=True)
    ]
    difference = difference_estimate(
        real[0] - real[1], many[0] - many[1], drawn, permutation.iqm_difference, generator
    )
    return both, difference


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
    return Estimate(float(value), float(low), float(high), p)


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
    return Estimate(value, float(low), float(high), p)


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
            return UNKNOWN, 0, 0
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
    found = Estimate(math.exp(apart.value), low, high, apart.p)
    runs = [part.runs for part in drawn]
    return found, int(min(one.sum() for one in runs)), int(min(one.min() for one in runs))


def sync_ratios(pro: Block, base: Block) -> Array:
    """Ratio of the mean sizes of target updates, pro / base, where both were measured, [games]."""
    sizes = [statistics.nanmean(block.curves["sync_distance"]) for block in (pro, base)]
    both = np.isfinite(sizes[0]) & np.isfinite(sizes[1])  # [games, points]
    total = [np.where(both, size, 0.0).sum(axis=1) for size in sizes]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total[0] / total[1])
