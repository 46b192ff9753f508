"""The permutation test: SciPy's tests of one game, slow oracles, all relabellings of few runs."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from proxrl.report import permutation, statistics

NAN = math.nan
ONE = np.array([[1.0, 5.0], [2.0, 9.0], [4.0, 7.0]])
OTHER = np.array([[0.5, 6.0], [3.0, 4.0], [NAN, 2.0], [0.0, 8.5]])


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def actual(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pool = np.concatenate([one, other])
    members = (np.arange(len(pool)) < len(one))[:, None] & ~np.isnan(pool)
    return pool, members[None]


def test_relabelling_keeps_the_numbers_of_every_game() -> None:
    pool, members = actual(ONE, OTHER)
    valid = ~np.isnan(pool)
    found = permutation.relabelled(valid, members[0].sum(axis=0), 500, generator())
    assert (found.sum(axis=1) == 3).all()
    assert not found[:, ~valid].any()
    for game, runs in ((0, 6), (1, 7)):
        # every run is a member equally often: 3 of 6, 3 of 7
        share = found[:, valid[:, game], game].mean(axis=0)
        assert share == pytest.approx(np.full(runs, 3 / runs), abs=0.08)
    together = (found[:, 0, 0] & found[:, 0, 1]).mean()
    assert together == pytest.approx(3 / 6 * 3 / 7, abs=0.06), "games are relabelled separately"


def test_of_one_game_the_mean_is_tested_as_by_scipy() -> None:
    """All 20 relabellings of 3 and 3 runs, and 35 of 3 and 4, of Welch's t."""
    rng = np.random.default_rng(3)
    for size in (3, 4):
        one, other = rng.normal(1.0, 1.0, 3), rng.normal(0.0, 1.0, size)
        exact = stats.permutation_test(
            (one, other),
            lambda a, b, axis: np.abs(stats.ttest_ind(a, b, axis=axis, equal_var=False).statistic),
            vectorized=True,
            alternative="greater",
        ).pvalue
        scores = one[:, None], other[:, None]
        found = permutation.p_value(*scores, permutation.mean_difference, generator())
        assert found == pytest.approx(exact)


def test_all_relabellings_of_few_runs_are_tried_and_of_many_random_ones() -> None:
    """Three runs in each of two games have 20 x 20 relabellings: apart, both agents are as extreme
    as they can be, and so are they exchanged."""
    one, other = np.array([[9.0, 9.0], [8.0, 8.0], [7.0, 7.0]]), np.zeros((3, 2))
    other[1:] = 1.0
    p = permutation.p_value(one, other, permutation.mean_difference, np.random.default_rng(1))
    assert p == 2 / 400
    assert p == permutation.p_value(one, other, permutation.mean_difference, generator())
    drawn = permutation.p_value(one, other, permutation.mean_difference, generator(), 300)
    assert drawn == pytest.approx(2 / 400, abs=0.01)
    assert (drawn * 301) % 1 == pytest.approx(0.0, abs=1e-9), "300 random ones and the actual one"


STATISTICS = [
    permutation.iqm_difference,
    permutation.mean_difference,
    permutation.median_difference,
    permutation.improvement,
]


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(("runs", "games"), [(3, 1), (3, 2), (5, 1), (2, 3)])
def test_exchanging_the_agents_changes_no_p_value(
    statistic: permutation.Statistic, runs: int, games: int
) -> None:
    """The mirror image of a relabelling is as extreme, so that even numbers of them are."""
    rng, total = np.random.default_rng(0), math.comb(2 * runs, runs) ** games
    for _ in range(30):
        one, other = rng.normal(size=(2, runs, games)).round(1)
        p = permutation.p_value(one, other, statistic, generator())
        assert p == permutation.p_value(other, one, statistic, generator())
        assert round(p * total) % 2 == 0


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_one_run_cannot_tell_is_not_a_number(statistic: permutation.Statistic) -> None:
    assert math.isnan(
        permutation.p_value(np.array([[3.0, 5.0]]), np.array([[1.0, 2.0]]), statistic, generator())
    )


def test_every_labelling_is_there_once() -> None:
    pool, members = actual(ONE, OTHER)
    valid = ~np.isnan(pool)
    found = permutation.every_labelling(valid, members[0].sum(axis=0))
    assert len(found) == math.comb(6, 3) * math.comb(7, 3)
    assert len(np.unique(found.reshape(len(found), -1), axis=0)) == len(found)
    assert (found.sum(axis=1) == 3).all()
    assert not found[:, ~valid].any()


def test_of_one_game_the_improvement_is_brunner_and_munzels() -> None:
    one, other = np.array([1.0, 2.0, 4.0, 4.0]), np.array([0.5, 3.0, 2.0])
    value, variance = permutation.improvement(*actual(one[:, None], other[:, None]))
    expected = stats.brunnermunzel(other, one).statistic
    assert value[0] / math.sqrt(variance[0]) == pytest.approx(expected, rel=1e-5)


def test_the_improvement_is_that_of_the_report() -> None:
    value, _ = permutation.improvement(*actual(ONE, OTHER))
    whole = statistics.improvement(statistics.whole(ONE), statistics.whole(OTHER))[0]
    assert value[0] + 0.5 == pytest.approx(whole)


def test_differences_are_those_of_the_report() -> None:
    for statistic, function in (
        (permutation.iqm_difference, statistics.interquartile_mean),
        (permutation.mean_difference, statistics.mean),
        (permutation.median_difference, statistics.median),
    ):
        expected = function(statistics.whole(ONE))[0] - function(statistics.whole(OTHER))[0]
        assert statistic(*actual(ONE, OTHER))[0][0] == pytest.approx(expected)


def test_the_variance_of_an_iqm_is_that_of_winsorised_scores() -> None:
    """12 runs of two games: the lowest three become the fourth, the highest three the ninth."""
    scores = np.random.default_rng(1).normal(size=(6, 2))
    value, variance = permutation.iqm(scores, np.ones((1, 6, 2), bool))
    ordered = np.sort(scores.ravel())
    assert value[0] == pytest.approx(ordered[3:9].mean())
    moved = np.clip(scores, ordered[3], ordered[8])
    assert variance[0] == pytest.approx(6 * moved.var(axis=0, ddof=1).sum() / 6**2)


def test_the_p_value_counts_all_relabellings_of_two_games() -> None:
    """3 and 3 runs of two games: 400 relabellings, counted by a slow oracle."""
    rng = np.random.default_rng(4)
    one, other = rng.normal(0.8, 1.0, (3, 2)), rng.normal(0.0, 1.0, (3, 2))
    pool, _ = actual(one, other)
    masks = [np.isin(np.arange(6), chosen) for chosen in itertools.combinations(range(6), 3)]
    every = np.array([np.stack(pair, axis=1) for pair in itertools.product(masks, masks)])
    difference, variance = permutation.iqm_difference(pool, every)
    extreme = np.abs(difference) / np.sqrt(variance)
    first = next(z for z, m in zip(extreme, every, strict=True) if m[:3].all())
    exact = (extreme >= first - 1e-9).mean()
    statistic = permutation.iqm_difference
    found = permutation.p_value(one, other, statistic, generator(), 20_000)
    assert found == pytest.approx(exact, abs=0.012)


def test_equal_scores_are_never_different() -> None:
    same = np.ones((3, 4))
    for statistic in (permutation.iqm_difference, permutation.improvement):
        assert permutation.p_value(same, same, statistic, generator(), 99) == 1.0


def test_separated_runs_of_many_games_are() -> None:
    """Without any variance, too."""
    one, other = np.full((3, 4), 2.0), np.full((3, 4), 1.0)
    for statistic in (permutation.mean_difference, permutation.improvement):
        assert permutation.p_value(one, other, statistic, generator(), 999) < 0.01


def test_the_p_value_does_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(0.5, 1.0, (4, 3)), rng.normal(0.0, 1.0, (4, 3))
    at_once = permutation.p_value(one, other, permutation.iqm_difference, generator(), 99)
    monkeypatch.setattr(permutation, "TOGETHER", 24 * 7)
    parts = permutation.p_value(one, other, permutation.iqm_difference, generator(), 99)
    assert parts == at_once
