"""Aggregates over games, and their resamples. Scores are runs x games.

A missing run is NaN: games may have different numbers of runs. A resample draws, within each game,
as many runs as the game has, with replacement (Agarwal et al. 2021). It is stored as *counts*, how
often each run was drawn, [resamples, runs, games], so that a statistic of all resamples is one
matrix product, including the interquartile mean, which sorts only once.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from proxrl.types import Array

CHUNK = 2**24  # elements of the largest intermediate array


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
