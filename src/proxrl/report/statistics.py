"""Aggregates over games with stratified bootstrap intervals: one shape, runs x games.

A missing run is NaN: games may have different numbers of runs. A resample draws, game by game, as
many runs as the game has, with replacement (Agarwal et al. 2021). It is kept as *counts*, how often
each run was drawn, [resamples, runs, games], so that every statistic of all resamples is one matrix
product: also the interquartile mean, whose sorting is done once.

Intervals are percentiles of the resampled statistic, 95%. There is none (NaN) if any game has but
one run.
"""

from dataclasses import dataclass

import numpy as np

from proxrl.types import Array

LEVEL = 0.95
CHUNK = 2**24  # elements of the largest intermediate array


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return self.low == self.low


@dataclass(frozen=True, eq=False)
class Resampled:
    """Scores [runs, games] with their resamples; games without any run are left out."""

    scores: Array  # [runs, games]
    counts: Array  # [resamples, runs, games]

    @property
    def runs(self) -> Array:
        """Number of runs, [games]."""
        return np.asarray((~np.isnan(self.scores)).sum(axis=0))

    @property
    def repeated(self) -> bool:
        """Has every game more than one run? A single one would count as if it had no variance."""
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
    """Share of runs above each threshold, every game counting alike: [resamples, thresholds]."""
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
    """Over the last axis, of what is not NaN; NaN, without a warning, where nothing is left."""
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    number = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    middle = (np.maximum(number - 1, 0) // 2, np.minimum(number // 2, values.shape[-1] - 1))
    left, right = (np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in middle)
    return np.where(number[..., 0] > 0, (left + right) / 2, np.nan)


# --------------------------------------------------------------------------------------- intervals


def interval(resampled: Array, repeated: bool = True) -> tuple[Array, Array]:
    """Percentile interval over the first axis; NaN if nothing was repeated."""
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(resampled, [tail, 100.0 - tail], axis=0)
    if not repeated:
        low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
    return low, high


def estimate(value: float, resampled: Array, repeated: bool = True) -> Estimate:
    """A value with the interval of its resamples."""
    low, high = interval(resampled, repeated)
    return Estimate(float(value), float(low), float(high))


def standard_error(values: Array) -> Array:
    """Of the mean over the first axis, NaN left out; NaN where a single value is left."""
    number = (~np.isnan(values)).sum(axis=0)
    safe = np.maximum(number, 1)
    centre = np.nansum(values, axis=0) / safe
    squares = np.nansum((values - centre) ** 2, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(squares / (number - 1) / number)
    return np.where(number > 1, spread, np.nan)


def nanmean(values: Array) -> Array:
    """Over the first axis; NaN, without a warning, where nothing is left."""
    number = (~np.isnan(values)).sum(axis=0)
    total = np.nansum(values, axis=0) / np.maximum(number, 1)
    return np.where(number > 0, total, np.nan)
