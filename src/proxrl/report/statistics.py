"""Aggregates over games, with intervals that are valid for few runs. Scores are runs x games.

A missing run is NaN: games may have different numbers of runs. A resample draws, within each game,
as many runs as the game has, with replacement (Agarwal et al. 2021). It is stored as *counts*, how
often each run was drawn, [resamples, runs, games], so that a statistic of all resamples is one
matrix product, including the interquartile mean, which sorts only once.

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
from scipy.special import betaincinv, ndtr, stdtrit

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


def hidden_variance(scores: Array) -> Array:
    """Variance of the optimality gap that resamples do not show, by game, [..., games].

    If all runs of a game score above 1, their shortfalls are equal, but other runs could fall below
    1. The variance is then that of a normal distribution with the mean and variance of the runs,
    divided by 1 + the number of games with runs below 1: those have more than their expected
    variance in return, so that over many games nothing is missing. Scores are [..., runs, games].
    """
    runs = (~np.isnan(scores)).sum(axis=-2)
    centre, variance = _moments(scores)
    deviation = np.sqrt(variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        at = (1.0 - centre) / deviation  # the cap, in standard deviations from the mean
        density = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
        first = at * ndtr(at) + density  # moments of the shortfall, in standard deviations
        second = (at**2 + 1) * ndtr(at) + at * density
        model = variance * (second - first**2) / (runs * scores.shape[-1] ** 2)
    above = np.nanmin(scores, axis=-2) >= 1.0
    others = (~above).sum(axis=-1, keepdims=True)
    return np.where(above & (deviation > 0.0), model / (1 + others), 0.0)


def _moments(scores: Array) -> tuple[Array, Array]:
    """Mean and variance (n - 1) over runs, [..., games]."""
    number = (~np.isnan(scores)).sum(axis=-2)
    centre = np.nansum(scores, axis=-2) / number
    squares = np.nansum((scores - centre[..., None, :]) ** 2, axis=-2)
    return centre, squares / np.maximum(number - 1, 1)


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
    `cut`, the interval lies on the value's side of the border.
    """
    rejected = np.asarray(p) <= 1.0 - LEVEL
    inside = np.minimum(low, border), np.maximum(high, border)
    over, under = np.nextafter(border, np.inf), np.nextafter(border, -np.inf)
    outside = low, high
    if cut:
        outside = (
            np.where(value > border, np.maximum(low, over), low),
            np.where(value < border, np.minimum(high, under), high),
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
