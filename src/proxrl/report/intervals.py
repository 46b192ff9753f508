"""Intervals of the aggregates, valid for few runs.

A 95% interval is for the statistic of infinitely many runs of the same games. Percentiles of the
resampled statistic are too narrow when there are few runs. Instead, with T the statistic and T* the
resampled one,

    T -+ t(freedom) error,    error = sd(T*) x sqrt(n/(n-1)),    freedom by Satterthwaite (1946)

where games are weighted by their share of the variance of T*. Whether the interval of a difference
contains 0 is decided by a permutation test (permutation.py). `python -m benchmarks.intervals`
measures the coverage. There is no interval (NaN) if any game has only one run, or if the resamples
do not vary at all.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, stdtrit

from proxrl.report.statistics import Resampled
from proxrl.types import Array

LEVEL = 0.95
MOST_SKEW = 2.0  # of an exponential distribution; estimates from few runs can exceed it
NOTHING = 1e-12  # variance share of a game without variance
BARELY = 1e-6  # how far from a rejected border a cut interval ends, relative to the value
EVERYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval; of a comparison, also the p-value of no difference."""

    value: float
    low: float
    high: float
    p: float = math.nan

    @property
    def has_interval(self) -> bool:
        return self.low == self.low


@dataclass(frozen=True, eq=False)
class Spread:
    """Sampling distribution of a statistic over seeds; arrays have the statistic's shape."""

    error: Array  # standard error
    freedom: Array  # degrees of freedom of that standard error
    skewness: Array  # of the statistic's distribution

    @property
    def reach(self) -> Array:
        """Half the width of a 95% interval, in standard errors: Student's t."""
        return np.asarray(stdtrit(self.freedom, 0.5 + LEVEL / 2))


def spread(resampled: Array, *samples: Resampled, hidden: Array | float = 0.0) -> Spread:
    """From a statistic of resamples, [resamples, ...], and the samples that it was computed from;
    `hidden` is variance that the resamples do not show, by game, [..., games].

    The covariance of the statistic with a run's count is the influence of that run (the
    infinitesimal jackknife of Efron 2014); its squares, summed over the runs of a game, are the
    share of the variance that is due to the game. All of them are one matrix product.
    """
    number, shape = len(resampled), resampled.shape[1:]
    if np.ndim(hidden):
        hidden = np.asarray(hidden).reshape(-1, np.shape(hidden)[-1])
    flat = resampled.reshape(number, -1)
    scale = flat.std(axis=0)  # [statistics]
    scale = np.where(scale > NOTHING * np.abs(flat).max(axis=0), scale, 0.0)  # rounding
    centred = (flat - flat.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    shares, thirds = [], np.zeros(len(scale))
    for sample in samples:
        runs = sample.runs  # [games]
        influence = centred.T @ sample.counts.reshape(number, -1) / number
        influence = influence.reshape(-1, *sample.scores.shape)  # [statistics, runs, games]
        # subtract the expected contribution of sampling noise (finitely many resamples)
        shares.append(np.maximum((influence**2).sum(axis=1) - (runs - 1) / number, 0.0) + NOTHING)
        third = (influence**3).sum(axis=1) * runs**2 / ((runs - 1) * np.maximum(runs - 2, 1))
        thirds = thirds + third.sum(axis=1)
    whole_share = sum(share.sum(axis=1) for share in shares)  # about 1
    total = squares = np.zeros(len(scale))
    for sample, share in zip(samples, shares, strict=True):
        runs = sample.runs
        seen = (scale**2 / whole_share)[:, None] * share * runs / (runs - 1)
        variance = seen + hidden  # [statistics, games]
        total = total + variance.sum(axis=1)
        squares = squares + (variance**2 / (runs - 1)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = np.where(total > 0, total**2 / squares, np.nan)
        skewness = np.where(total > 0, thirds * scale**3 / whole_share**1.5 / total**1.5, 0.0)
    return Spread(
        np.sqrt(total).reshape(shape),
        freedom.reshape(shape),
        np.clip(skewness, -MOST_SKEW, MOST_SKEW).reshape(shape),
    )


def interval(
    value: Array,
    resampled: Array,
    *samples: Resampled,
    tails: bool = False,
    hidden: Array | float = 0.0,
) -> tuple[Array, Array]:
    """95% interval of a statistic, [...], from its resamples, [resamples, ...]; NaN if a game has
    only one run, and where nothing varies.

    `tails` is for statistics that depend on the tails of the scores, such as means and medians of
    means: the interval is widened by Johnson's (1978) correction on the side of the long tail and
    covers both the value and the mean of the resamples (which differ for a median). Statistics that
    trim the tails, or in which the tails of two samples cancel, do not need it.
    """
    value = np.asarray(value, np.float64)
    if not all(sample.repeated for sample in samples):
        nothing = np.full_like(value, np.nan)
        return nothing, nothing
    found = spread(resampled, *samples, hidden=hidden)
    low = high = value
    below = above = found.reach
    if tails:
        centre = resampled.mean(axis=0)
        low, high = np.minimum(value, centre), np.maximum(value, centre)
        tail = found.skewness * (1.0 + 2.0 * found.reach**2) / 6.0
        below, above = below + np.maximum(-tail, 0.0), above + np.maximum(tail, 0.0)
    return low - found.error * below, high + found.error * above


def estimate(
    value: float,
    resampled: Array,
    *samples: Resampled,
    tails: bool = False,
    within: tuple[float, float] = EVERYWHERE,
    hidden: Array | float = 0.0,
) -> Estimate:
    """A value with its interval, clipped to the range of the statistic."""
    low, high = interval(np.asarray(value), resampled, *samples, tails=tails, hidden=hidden)
    return Estimate(float(value), *(float(np.clip(end, *within)) for end in (low, high)))


def settled(
    value: Array, low: Array, high: Array, border: float, p: Array, cut: bool
) -> tuple[Array, Array]:
    """Ends of an interval of a difference, changed to agree with a test of `border` (p-values).

    The interval contains the border if the test does not reject it. If it does reject it, and
    `cut`, the interval ends just before the border, on the value's side.
    """
    rejected = np.asarray(p) <= 1.0 - LEVEL
    inside = np.minimum(low, border), np.maximum(high, border)
    beside = border + BARELY * (np.asarray(value) - border)
    outside = low, high
    if cut:
        outside = (
            np.where(value > border, np.maximum(low, beside), low),
            np.where(value < border, np.minimum(high, beside), high),
        )
    return np.where(rejected, outside[0], inside[0]), np.where(rejected, outside[1], inside[1])


def same_runs(one: Resampled, other: Resampled) -> bool:
    """Whether both have as many runs in every game.

    Otherwise, a permutation test is exact only if the agents also have the same variance: it can
    then extend an interval, but not cut it.
    """
    return bool(np.array_equal(one.runs, other.runs))


def difference_interval(
    value: Array, resampled: Array, one: Resampled, other: Resampled, p: Array
) -> tuple[Array, Array]:
    """95% interval of a difference of two statistics that agrees with a test of 0."""
    low, high = interval(value, resampled, one, other)
    return settled(value, low, high, 0.0, p, same_runs(one, other))


def improvement_interval(
    value: Array, resampled: Array, one: Resampled, other: Resampled, p: Array
) -> tuple[Array, Array]:
    """95% interval of the probability of improvement that agrees with a test of 1/2.

    With few runs, nearly all of which beat the others, resamples hardly vary. If all of them win,
    so do min(n, m) independent pairs in each game, k in total, and the interval contains the
    Clopper-Pearson interval of k out of k.
    """
    low, high = interval(value, resampled, one, other)
    if one.repeated and other.repeated:  # all won or all lost: no variance, but a limit
        one_sided = np.abs(value - 0.5) > 0.5 - NOTHING
        low, high = (np.where(one_sided & np.isnan(end), value, end) for end in (low, high))
    pairs = int(np.minimum(one.runs, other.runs).sum())
    least = clopper_pearson(pairs, pairs)[0]
    low = np.where(value > 1.0 - NOTHING, np.minimum(low, least), low)
    high = np.where(value < NOTHING, np.maximum(high, 1.0 - least), high)
    low, high = settled(value, low, high, 0.5, p, same_runs(one, other))
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def clopper_pearson(wins: int, trials: int) -> tuple[float, float]:
    """95% interval of a probability. Also valid if it differs between trials, for its mean: the
    number of wins then varies less (Hoeffding 1956)."""
    tail = (1.0 - LEVEL) / 2.0
    low = betaincinv(wins, trials - wins + 1, tail) if wins > 0 else 0.0
    high = betaincinv(wins + 1, trials - wins, 1.0 - tail) if wins < trials else 1.0
    return float(low), float(high)


def share_won(one: Array, other: Array) -> Estimate:
    """Share of games in which `one` has the higher mean, [games] each; its interval is for its
    expected value with as many runs."""
    wins = int((one > other).sum())
    return Estimate(wins / len(one), *clopper_pearson(wins, len(one)))


def percentiles(resampled: Array) -> tuple[Array, Array]:
    """The percentile bootstrap interval of rliable: too narrow for few runs, for comparison."""
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(resampled, [tail, 100.0 - tail], axis=0)
    return low, high
