"""Aggregates over games, with intervals that are valid for few runs. Scores are runs x games.

A missing run is NaN: games may have different numbers of runs. A resample draws, within each game,
as many runs as the game has, with replacement (Agarwal et al. 2021). It is stored as *counts*, how
often each run was drawn, [resamples, runs, games], so that a statistic of all resamples is one
matrix product, including the interquartile mean, which sorts only once.

A 95% interval is for the statistic of infinitely many runs of the same games. Percentiles of the
resampled statistic are too narrow when there are few runs. Instead, with T the statistic and T* the
resampled one,

    T -+ t(freedom) error,    error = sd(T*) x sqrt(n/(n-1)),    freedom by Satterthwaite (1946)

where games are weighted by their share of the variance of T*. `python -m benchmarks.intervals`
measures the coverage. There is no interval (NaN) if any game has only one run.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from proxrl.types import Array

LEVEL = 0.95
CHUNK = 2**24  # elements of the largest intermediate array
MOST_SKEW = 2.0  # of an exponential distribution; estimates from few runs can exceed it
NOTHING = 1e-12  # variance share of a game without variance
EVERYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return self.low == self.low


@dataclass(frozen=True, eq=False)
class Resampled:
    """Scores [runs, games] with their resamples; games without runs are left out."""

    scores: Array  # [runs, games]
    counts: Array  # [resamples, runs, games]

    @property
    def runs(self) -> Array:
        """Number of runs, [games]."""
        return np.asarray((~np.isnan(self.scores)).sum(axis=0))

    @property
    def repeated(self) -> bool:
        """Whether every game has more than one run: the variance of a single run is unknown."""
        return bool((self.runs > 1).all())


def resample(scores: Array, resamples: int, generator: np.random.Generator) -> Resampled:
    """Draw the resamples of scores [runs, games]."""
    scores = np.asarray(scores, np.float64)
    scores = scores[:, ~np.isnan(scores).all(axis=0)]
    counts = np.zeros((resamples, *scores.shape), np.float32)
    for game, column in enumerate(scores.T):
        valid = np.flatnonzero(~np.isnan(column))
        drawn = generator.multinomial(len(valid), np.full(len(valid), 1 / len(valid)), resamples)
        counts[:, valid, game] = drawn
    return Resampled(scores, counts)


def whole(scores: Array) -> Resampled:
    """The sample itself as its only resample: each run counts once."""
    scores = np.asarray(scores, np.float64)
    scores = scores[:, ~np.isnan(scores).all(axis=0)]
    return Resampled(scores, (~np.isnan(scores))[None].astype(np.float32))


# -------------------------------------------------------------- statistics, one value per resample


def game_means(sample: Resampled) -> Array:
    """[resamples, games]."""
    values = np.nan_to_num(sample.scores)
    return np.asarray(np.einsum("rng,ng->rg", sample.counts, values) / sample.runs)


def mean(sample: Resampled) -> Array:
    """Mean over games of their mean scores."""
    return np.asarray(game_means(sample).mean(axis=1))


def median(sample: Resampled) -> Array:
    """Median over games of their mean scores."""
    return np.asarray(np.median(game_means(sample), axis=1))


def interquartile_mean(sample: Resampled) -> Array:
    """Mean of the middle half of all runs of all games: a quarter (rounded down) cut at each end.

    In the sorted pool a run drawn k times takes k places; those inside the cuts are its weight.
    """
    flat = sample.scores.ravel()
    order = np.argsort(flat, kind="stable")[: int(sample.runs.sum())]  # NaN sorts last
    total = len(order)
    trim = total // 4
    drawn = sample.counts.reshape(len(sample.counts), -1)[:, order]
    places = np.clip(np.cumsum(drawn, axis=1, dtype=np.float64), trim, total - trim)
    kept = np.diff(places, axis=1, prepend=float(trim))
    return np.asarray(kept @ flat[order] / (total - 2 * trim))


def optimality_gap(sample: Resampled) -> Array:
    """Mean shortfall from 1, scores above it counting as 1."""
    capped = Resampled(np.minimum(sample.scores, 1.0), sample.counts)
    return 1.0 - mean(capped)


def performance_profile(sample: Resampled, thresholds: Array) -> Array:
    """Share of runs above each threshold, all games weighted equally: [resamples, thresholds]."""
    above = (sample.scores[..., None] > thresholds) / (sample.runs[:, None] * len(sample.runs))
    flat = sample.counts.reshape(len(sample.counts), -1)
    return np.asarray(flat @ above.reshape(flat.shape[1], -1))


def improvement(one: Resampled, other: Resampled) -> Array:
    """Probability that a run of `one` beats one of `other` in the same game, averaged over games;
    ties count half. Both must hold the same games."""
    left, right = one.scores[:, None], other.scores[None]  # [runs, 1, games], [1, runs, games]
    wins = np.nan_to_num((left > right) + 0.5 * (left == right))
    pairs = (one.runs * other.runs * len(one.runs)).astype(np.float64)
    result = np.empty(len(one.counts))
    step = max(1, CHUNK // one.scores.size // len(other.scores))
    for start in range(0, len(result), step):
        part = slice(start, start + step)
        beaten = np.einsum("rig,ijg->rjg", one.counts[part], wins, optimize=True)
        result[part] = np.einsum("rjg,rjg,g->r", beaten, other.counts[part], 1 / pairs)
    return result


def median_curve(curves: Array, scale_low: Array, scale_span: Array, counts: Array) -> Array:
    """Median over games of their scaled mean curves: [runs, games, points] -> [resamples, points].

    At each point a game's mean is over the runs that were drawn and have a value there.
    """
    there = ~np.isnan(curves)
    values = np.nan_to_num((curves - scale_low[:, None]) / scale_span[:, None])
    sizes = counts[0].sum(axis=0)  # the same in every resample, [games]
    missing = not there[counts.any(axis=0)].all()
    result = np.empty((len(counts), curves.shape[-1]))
    step = max(1, CHUNK // curves[0].size)
    for start in range(0, len(counts), step):
        part = counts[start : start + step]
        total = _weighted(part, values)
        number = _weighted(part, there) if missing else sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.where(number > 0, total / number, np.nan)
        result[start : start + step] = nanmedian(means)
    return result


def _weighted(counts: Array, values: Array) -> Array:
    """Sums over runs, [resamples, points, games]: a small matrix product for each game."""
    by_game = counts.transpose(2, 0, 1).astype(np.float64) @ values.transpose(1, 0, 2)
    return np.ascontiguousarray(by_game.transpose(1, 2, 0))


def nanmedian(values: Array) -> Array:
    """Median over the last axis, ignoring NaN; NaN without a warning where all values are NaN."""
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    number = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    middle = (np.maximum(number - 1, 0) // 2, np.minimum(number // 2, values.shape[-1] - 1))
    left, right = (np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in middle)
    return np.where(number[..., 0] > 0, (left + right) / 2, np.nan)


# --------------------------------------------------------------------------------------- intervals


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


def spread(resampled: Array, *samples: Resampled) -> Spread:
    """From a statistic of resamples, [resamples, ...], and the samples that it was computed from.

    The covariance of the statistic with a run's count is the influence of that run (the
    infinitesimal jackknife of Efron 2014); its squares, summed over the runs of a game, are the
    share of the variance that is due to the game. All of them are one matrix product.
    """
    number, shape = len(resampled), resampled.shape[1:]
    flat = resampled.reshape(number, -1)
    scale = flat.std(axis=0)  # [statistics]
    centred = (flat - flat.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    plain = unbiased = squares = thirds = np.zeros(len(scale))
    for sample in samples:
        runs = sample.runs  # [games]
        influence = centred.T @ sample.counts.reshape(number, -1) / number
        influence = influence.reshape(-1, *sample.scores.shape)  # [statistics, runs, games]
        # subtract the expected contribution of sampling noise (finitely many resamples)
        share = np.maximum((influence**2).sum(axis=1) - (runs - 1) / number, 0.0) + NOTHING
        variance = share * runs / (runs - 1)
        plain = plain + share.sum(axis=1)
        unbiased = unbiased + variance.sum(axis=1)
        squares = squares + (variance**2 / (runs - 1)).sum(axis=1)
        third = (influence**3).sum(axis=1) * runs**2 / ((runs - 1) * np.maximum(runs - 2, 1))
        thirds = thirds + third.sum(axis=1)
    return Spread(
        (scale * np.sqrt(unbiased / plain)).reshape(shape),
        (unbiased**2 / squares).reshape(shape),
        np.clip(thirds / unbiased**1.5, -MOST_SKEW, MOST_SKEW).reshape(shape),
    )


def interval(
    value: Array, resampled: Array, *samples: Resampled, tails: bool = False
) -> tuple[Array, Array]:
    """95% interval of a statistic, [...], from its resamples, [resamples, ...]; NaN if a game has
    only one run.

    `tails` is for statistics that depend on the tails of the scores, such as means and medians of
    means: the interval is widened by Johnson's (1978) correction on the side of the long tail and
    covers both the value and the mean of the resamples (which differ for a median). Statistics that
    trim the tails, or in which the tails of two samples cancel, do not need it.
    """
    value = np.asarray(value, np.float64)
    if not all(sample.repeated for sample in samples):
        nothing = np.full_like(value, np.nan)
        return nothing, nothing
    found = spread(resampled, *samples)
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
) -> Estimate:
    """A value with its interval, clipped to the range of the statistic."""
    low, high = interval(np.asarray(value), resampled, *samples, tails=tails)
    return Estimate(float(value), *(float(np.clip(end, *within)) for end in (low, high)))


def improvement_interval(
    value: Array, resampled: Array, one: Resampled, other: Resampled
) -> tuple[Array, Array]:
    """95% interval of the probability of improvement.

    With few runs, nearly all of which beat the others, resamples hardly vary. Therefore the
    interval contains 1/2 unless the Mann-Whitney test over all games rejects it as well: under the
    null hypothesis, the variance in a game with n and m runs is (n + m + 1) / 12nm. If all of them
    win, so do min(n, m) independent pairs in each game, k in total, and the interval contains the
    Clopper-Pearson interval of k out of k.
    """
    low, high = interval(value, resampled, one, other)
    n, m = one.runs, other.runs
    tail = (1.0 - LEVEL) / 2.0
    error = np.sqrt(((n + m + 1) / (12 * n * m)).sum()) / len(n)
    reach = stdtrit(max(int((n + m - 2).sum()), 1), 1.0 - tail) * error
    undecided = np.abs(value - 0.5) <= reach
    least = tail ** (1.0 / np.minimum(n, m).sum())
    low = np.where(undecided, np.minimum(low, 0.5), low)
    low = np.where(value > 1.0 - NOTHING, np.minimum(low, least), low)
    high = np.where(undecided, np.maximum(high, 0.5), high)
    high = np.where(value < NOTHING, np.maximum(high, 1.0 - least), high)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def improvement_estimate(one: Resampled, other: Resampled) -> Estimate:
    """The probability of improvement of the scores themselves, with its interval."""
    value = improvement(whole(one.scores), whole(other.scores))[0]
    low, high = improvement_interval(value, improvement(one, other), one, other)
    return Estimate(float(value), float(low), float(high))


def percentiles(resampled: Array) -> tuple[Array, Array]:
    """The percentile bootstrap interval of rliable: too narrow for few runs, for comparison."""
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(resampled, [tail, 100.0 - tail], axis=0)
    return low, high


def standard_error(values: Array) -> Array:
    """Standard error of the mean over the first axis, ignoring NaN; NaN for a single value."""
    number = (~np.isnan(values)).sum(axis=0)
    safe = np.maximum(number, 1)
    centre = np.nansum(values, axis=0) / safe
    squares = np.nansum((values - centre) ** 2, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(squares / (number - 1) / number)
    return np.where(number > 1, spread, np.nan)


def nanmean(values: Array) -> Array:
    """Mean over the first axis, ignoring NaN; NaN without a warning where all values are NaN."""
    number = (~np.isnan(values)).sum(axis=0)
    total = np.nansum(values, axis=0) / np.maximum(number, 1)
    return np.where(number > 0, total, np.nan)
