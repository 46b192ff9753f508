"""Is one agent ahead of another? A stratified permutation test.

If two agents have the same distribution of scores in every game, the labels of a game's runs can be
exchanged: of all relabellings within games, the actual one is then as likely to be among the 5%
most extreme ones as any other. The test is therefore exact for any number of runs and games and any
distribution. Runs are not paired by seed.

All relabellings are tried if they are no more than would be drawn (two games with three runs each
have 400), otherwise random ones.

The statistic is divided by its standard error, computed anew for every relabelling (Janssen 1997,
Neubert and Brunner 2007): without it, agents that differ only in their variance would be declared
different (`python -m benchmarks.intervals`, docs/report.md).
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from proxrl.types import Array

PERMUTATIONS = 1_999
TOGETHER = 2**21  # elements of an array with all relabellings of a part
ROUNDING = 1e-9  # relative; relabellings with the same statistic differ by rounding

# runs of both agents [runs, games], members [relabellings, runs, games] -> difference, variance
Statistic = Callable[[Array, Array], tuple[Array, Array]]


def p_value(
    one: Array,
    other: Array,
    statistic: Statistic,
    generator: np.random.Generator,
    permutations: int = PERMUTATIONS,
) -> float:
    """Share of relabellings, the actual one included, that are as extreme as the actual one; NaN if
    the statistic is not defined (a game with one run).

    `one` and `other` are scores [runs, games] of the same games; NaN is a missing run.
    """
    return p_values(one, other, (statistic,), generator, permutations)[0]


def p_values(
    one: Array,
    other: Array,
    tested: Sequence[Statistic],
    generator: np.random.Generator,
    permutations: int = PERMUTATIONS,
) -> list[float]:
    """The p-value of each statistic, from the same relabellings."""
    pool = np.concatenate([one, other])
    valid = ~np.isnan(pool)
    actual = valid & (np.arange(len(pool)) < len(one))[:, None]
    sizes, step = actual.sum(axis=0), max(1, TOGETHER // pool.size)
    if _count(valid, sizes) <= permutations + 1:
        parts, extreme, total = iter([every_labelling(valid, sizes)]), [0.0] * len(tested), 0
    else:
        counts = (min(step, left) for left in range(permutations, 0, -step))
        parts = (relabelled(valid, sizes, count, generator) for count in counts)
        extreme, total = [1.0] * len(tested), 1  # the actual one
    for members in parts:
        total += len(members)
        together = np.concatenate([actual[None], members])  # on one scale
        for at, statistic in enumerate(tested):
            real, *_ = found = _extremeness(*statistic(pool, together))
            if np.isnan(real):
                extreme[at] = np.nan
            extreme[at] += (found[1:] >= real * (1.0 - ROUNDING)).sum()
    return [float(number / total) for number in extreme]


def _count(valid: Array, sizes: Array) -> int:
    """How many relabellings there are."""
    runs = valid.sum(axis=0)
    return math.prod(math.comb(int(n), int(k)) for n, k in zip(runs, sizes, strict=True))


def every_labelling(valid: Array, sizes: Array) -> Array:
    """All members of the first group, [relabellings, runs, games]: `sizes` of each game's runs."""
    games = [
        list(itertools.combinations(np.flatnonzero(there), size))
        for there, size in zip(valid.T, sizes, strict=True)
    ]
    members = np.zeros((math.prod(map(len, games)), *valid.shape), dtype=bool)
    for labelling, chosen in zip(members, itertools.product(*games), strict=True):
        for game, runs in enumerate(chosen):
            labelling[list(runs), game] = True
    return members


def relabelled(valid: Array, sizes: Array, number: int, generator: np.random.Generator) -> Array:
    """Random members of the first group, [number, runs, games]: `sizes` of each game's runs."""
    keys = generator.random((number, *valid.shape), np.float32)
    keys[:, ~valid] = 2.0
    largest = np.take_along_axis(np.sort(keys, axis=1), sizes[None, None] - 1, axis=1)
    return np.asarray(keys <= largest)


def _extremeness(difference: Array, variance: Array) -> Array:
    """|difference| in standard errors; infinite if only the standard error is zero."""
    error = np.sqrt(np.maximum(variance, 0.0))
    size = np.abs(difference)
    size = np.where(size > ROUNDING * size.max(initial=0.0), size, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size > 0.0, size / error, 0.0)


# -------------------------------------------------------------------------------------- statistics


def iqm_difference(pool: Array, members: Array) -> tuple[Array, Array]:
    """Difference of the interquartile means of members and others."""
    one, other = iqm(pool, members), iqm(pool, ~np.isnan(pool) & ~members)
    return one[0] - other[0], one[1] + other[1]


def iqm(pool: Array, members: Array) -> tuple[Array, Array]:
    """Interquartile mean of the members and its variance, from winsorised scores: those outside the
    middle half, moved to its ends. The pool is sorted only once. Members may also be counts."""
    flat = pool.ravel()
    order = np.argsort(flat, kind="stable")[: int((~np.isnan(flat)).sum())]  # NaN sorts last
    ordered = flat[order]
    places = np.cumsum(members.reshape(len(members), -1)[:, order], axis=1, dtype=np.int32)
    total = int(places[0, -1])
    trim = total // 4
    kept = np.diff(np.clip(places, trim, total - trim), axis=1, prepend=np.int32(trim))
    value = kept @ ordered / (total - 2 * trim)
    low = ordered[(places > trim).argmax(axis=1)]
    high = ordered[(places >= total - trim).argmax(axis=1)]
    moved = np.clip(np.nan_to_num(pool), low[:, None, None], high[:, None, None])
    runs = members.sum(axis=1)  # [relabellings, games]
    centre = (moved * members).sum(axis=1) / runs
    squares = ((moved - centre[:, None]) ** 2 * members).sum(axis=1)
    return value, (squares / (runs - 1) * runs).sum(axis=1) / (total - 2 * trim) ** 2


def mean_difference(pool: Array, members: Array) -> tuple[Array, Array]:
    """Difference of the means over games of their mean scores."""
    (one, first), (other, second) = _game_means(pool, members)
    return (one - other).mean(axis=1), (first + second).sum(axis=1) / one.shape[1] ** 2


def median_difference(pool: Array, members: Array) -> tuple[Array, Array]:
    """Difference of the medians over games of their mean scores. Its scale is the standard error of
    the mean over games: the one of a median depends on one or two games only."""
    (one, first), (other, second) = _game_means(pool, members)
    difference = np.median(one, axis=1) - np.median(other, axis=1)
    return difference, (first + second).sum(axis=1) / one.shape[1] ** 2


def _game_means(pool: Array, members: Array) -> list[tuple[Array, Array]]:
    """Means of members and others in each game and their variances, [relabellings, games] each."""
    values, found = np.nan_to_num(pool), []
    for part in (members, ~np.isnan(pool) & ~members):
        runs = part.sum(axis=1)
        centre = (values * part).sum(axis=1) / runs
        squares = ((values - centre[:, None]) ** 2 * part).sum(axis=1)
        found.append((centre, squares / (runs - 1) / runs))
    return found


def improvement(pool: Array, members: Array) -> tuple[Array, Array]:
    """Probability that a member beats another run of the same game, minus 1/2; the variance is that
    of Brunner and Munzel (2000)."""
    beats = (pool[:, None] > pool[None]) + 0.5 * (pool[:, None] == pool[None])
    wins = np.ascontiguousarray(beats.transpose(2, 0, 1), float)  # [games, winner, loser]
    ours = np.ascontiguousarray(members.transpose(2, 0, 1), float)  # [games, relabellings, runs]
    theirs = 1.0 - ours
    theirs[np.broadcast_to(np.isnan(pool).T[:, None], theirs.shape)] = 0.0
    n, m = ours[:, :1].sum(axis=2), theirs[:, :1].sum(axis=2)  # [games, 1]
    won = theirs @ wins.transpose(0, 2, 1) / m[..., None]  # share of the others that a run beats
    lost = ours @ wins / n[..., None]  # share of the members that beat a run
    chance = (won * ours).sum(axis=2) / n
    spread = ((won - chance[..., None]) ** 2 * ours).sum(axis=2) / ((n - 1) * n)
    spread += ((lost - chance[..., None]) ** 2 * theirs).sum(axis=2) / ((m - 1) * m)
    return chance.mean(axis=0) - 0.5, spread.sum(axis=0) / len(n) ** 2
