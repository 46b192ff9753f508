"""Aggregates and intervals: hand-computed values, slow oracles, and rliable's results."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from benchmarks.intervals import STATISTICS, Design, coverage
from proxrl.report import intervals, permutation, statistics
from proxrl.report.comparisons import difference_estimate, improvement_estimate
from proxrl.report.statistics import Resampled, resample, whole
from tests.report.rliable_reference import THRESHOLDS, tables

NAN = math.nan
RLIABLE = json.loads((Path(__file__).parent / "data" / "rliable.json").read_text())
FUNCTIONS = (
    statistics.median,
    statistics.interquartile_mean,
    statistics.mean,
    statistics.optimality_gap,
)


def drawn(scores: np.ndarray, resamples: int = 20_000) -> Resampled:
    return resample(scores, resamples, np.random.default_rng(0))


def test_aggregates_by_hand() -> None:
    scores = np.array([[0.0, 1.0, 4.0], [0.5, 2.0, 4.0]])  # game means 0.25, 1.5, 4
    once = whole(scores)
    assert statistics.median(once) == pytest.approx([1.5])
    assert statistics.mean(once) == pytest.approx([5.75 / 3])
    # pool 0, 0.5, 1, 2, 4, 4: one cut at each end
    assert statistics.interquartile_mean(once) == pytest.approx([(0.5 + 1 + 2 + 4) / 4])
    assert statistics.optimality_gap(once) == pytest.approx([1 - (0.25 + 1 + 1) / 3])


def test_a_missing_run_changes_its_game_only() -> None:
    once = whole(np.array([[0.0, 1.0, 4.0], [0.5, NAN, 4.0]]))
    assert statistics.game_means(once)[0] == pytest.approx([0.25, 1.0, 4.0])
    assert once.runs.tolist() == [2, 1, 2]
    # pool 0, 0.5, 1, 4, 4: a quarter of five, rounded down, is one
    assert statistics.interquartile_mean(once) == pytest.approx([(0.5 + 1 + 4) / 3])


def test_a_game_without_runs_is_left_out() -> None:
    once = whole(np.array([[1.0, NAN], [3.0, NAN]]))
    assert once.scores.shape == (2, 1)
    assert statistics.mean(once) == pytest.approx([2.0])


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 6)),
        elements=st.floats(-5, 5, width=16) | st.just(NAN),
    ),
    st.integers(0, 2**32),
)
def test_counts_agree_with_resamples_written_out(scores: np.ndarray, seed: int) -> None:
    """Every statistic of a resample equals that of the drawn runs."""
    if np.isnan(scores).all():
        return
    sample = resample(scores, 5, np.random.default_rng(seed))
    for number in range(5):
        games = [
            np.repeat(np.nan_to_num(column), count.astype(int))
            for column, count in zip(sample.scores.T, sample.counts[number].T, strict=True)
        ]
        pool = np.concatenate(games)
        means = np.array([game.mean() for game in games])
        assert [len(game) for game in games] == sample.runs.tolist()
        expected = (
            np.median(means),
            stats.trim_mean(pool, 0.25),
            means.mean(),
            1 - np.mean([np.minimum(game, 1).mean() for game in games]),
        )
        for function, value in zip(FUNCTIONS, expected, strict=True):
            assert function(sample)[number] == pytest.approx(value, abs=1e-5)
        thresholds = np.array([-1.0, 0.0, 2.0])
        share = [np.mean([np.mean(game > t) for game in games]) for t in thresholds]
        profile = statistics.performance_profile(sample, thresholds)[number]
        assert profile == pytest.approx(share, abs=1e-5)


def test_improvement_against_every_pair_of_runs() -> None:
    generator = np.random.default_rng(1)
    one, other = generator.integers(0, 4, (3, 5)) * 1.0, generator.integers(0, 4, (4, 5)) * 1.0
    one[2, 1] = other[0, 3] = NAN
    by_game = []
    for left, right in zip(one.T, other.T, strict=True):
        pairs = itertools.product(left[~np.isnan(left)], right[~np.isnan(right)])
        by_game.append(np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs]))
    found = statistics.improvement(whole(one), whole(other))[0]
    assert found == pytest.approx(np.mean(by_game))
    assert statistics.improvement(whole(other), whole(one))[0] == pytest.approx(1 - found)


def test_improvement_of_resamples_does_not_depend_on_the_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = tables()
    one, other = drawn(both["pro"], 50), drawn(both["base"], 50)
    at_once = statistics.improvement(one, other)
    monkeypatch.setattr(statistics, "CHUNK", 1)
    np.testing.assert_allclose(statistics.improvement(one, other), at_once)


@pytest.mark.parametrize("name", ["base", "pro", "few"])
def test_rliable_agrees(name: str) -> None:
    """Values up to rounding; percentiles up to the difference between two sets of resamples. The
    report's own intervals are tested below."""
    scores = tables()[name]
    sample, once = drawn(scores), whole(scores)
    low, high = np.array(RLIABLE[name]["intervals"])
    for at, function in enumerate(FUNCTIONS):
        assert function(once)[0] == pytest.approx(RLIABLE[name]["values"][at], abs=1e-6)
        ours = intervals.percentiles(function(sample))
        width = high[at] - low[at]
        assert width > 0
        assert np.array(ours) == pytest.approx([low[at], high[at]], abs=0.04 * width)


def test_rliable_agrees_on_improvement_and_profiles() -> None:
    both = tables()
    one, other = drawn(both["pro"]), resample(both["base"], 20_000, np.random.default_rng(1))
    chance = statistics.improvement(whole(both["pro"]), whole(both["base"]))[0]
    assert chance == pytest.approx(RLIABLE["improvement"]["value"], abs=1e-9)
    low, high = RLIABLE["improvement"]["interval"]
    ours = intervals.percentiles(statistics.improvement(one, other))
    assert np.array(ours) == pytest.approx([low, high], abs=0.08 * (high - low))
    grid = np.array(THRESHOLDS)
    profile = statistics.performance_profile(whole(both["pro"]), grid)[0]
    assert profile == pytest.approx(RLIABLE["profile"]["value"], abs=1e-6)
    band = np.array(intervals.percentiles(statistics.performance_profile(one, grid)))
    assert band == pytest.approx(np.array(RLIABLE["profile"]["band"]), abs=0.011)


def test_one_run_a_game_has_no_interval() -> None:
    sample = drawn(np.array([[1.0, 2.0, 3.0]]), 10)
    found = intervals.estimate(2.0, statistics.mean(sample), sample)
    assert found.value == 2.0
    assert not found.has_interval
    assert drawn(np.array([[1.0, 2.0], [2.0, 3.0]]), 10).repeated


def test_one_repeated_game_among_single_runs_makes_no_interval() -> None:
    """A single run would be resampled without variance."""
    assert not drawn(np.array([[1.0, 2.0], [NAN, 3.0]]), 10).repeated


def test_the_same_generator_gives_the_same_resamples() -> None:
    scores = tables()["base"]
    assert (drawn(scores, 20).counts == drawn(scores, 20).counts).all()
    other = resample(scores, 20, np.random.default_rng(1))
    assert (drawn(scores, 20).counts != other.counts).any()


# --------------------------------------------------------------------------------------- intervals


def test_of_one_game_the_interval_is_students() -> None:
    scores = np.array([[1.0], [2.0], [4.0], [4.5]])
    sample = drawn(scores, 100_000)
    found = intervals.estimate(scores.mean(), statistics.mean(sample), sample)
    expected = stats.t.interval(0.95, 3, scores.mean(), stats.sem(scores[:, 0]))
    assert (found.low, found.high) == pytest.approx(expected, abs=0.02)
    assert intervals.spread(statistics.mean(sample), sample).freedom == pytest.approx(3.0)


def test_of_two_samples_the_interval_is_welchs() -> None:
    """Runs are not paired: any order of the second sample's, and any number of them."""
    one, other = np.array([[1.0], [2.0], [4.0]]), np.array([[0.5], [0.6], [0.1], [0.3], [1.0]])
    drawn_one, drawn_other = drawn(one, 100_000), resample(other, 100_000, np.random.default_rng(1))
    many = statistics.mean(drawn_one) - statistics.mean(drawn_other)
    found = intervals.estimate(one.mean() - other.mean(), many, drawn_one, drawn_other)
    welch = stats.ttest_ind(one[:, 0], other[:, 0], equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high), abs=0.05)


def test_games_weigh_by_their_share_in_the_variance() -> None:
    """Two games, of 4 and of 2 runs: Satterthwaite's degrees of freedom, written out."""
    scores = np.array([[0.0, 10.0], [1.0, 13.0], [2.0, NAN], [5.0, NAN]])
    sample = drawn(scores, 100_000)
    first, second = np.var([0, 1, 2, 5], ddof=1) / 4, np.var([10, 13], ddof=1) / 2
    found = intervals.spread(statistics.mean(sample), sample)
    freedom = (first + second) ** 2 / (first**2 / 3 + second**2 / 1)
    assert found.freedom == pytest.approx(freedom, rel=0.02)
    assert found.error == pytest.approx(math.sqrt(first + second) / 2, rel=0.02)


def test_the_influence_of_a_median_is_that_of_the_middle_game() -> None:
    """Games far apart: the median is the middle one's mean, with its two degrees of freedom."""
    scores = np.array([[0.0, 10.0, 30.0], [2.0, 11.0, 34.0], [1.0, 15.0, 33.0]])
    sample = drawn(scores, 20_000)
    found = intervals.spread(statistics.median(sample), sample)
    assert found.freedom == pytest.approx(2.0, abs=0.01)
    assert found.error == pytest.approx(stats.sem(scores[:, 1]), rel=0.02)


def test_a_long_tail_makes_the_interval_longer_on_its_side() -> None:
    scores = np.array([[0.0], [0.1], [0.2], [0.3], [2.0]])
    for sign in (1.0, -1.0):
        sample = drawn(sign * scores)
        many, value = statistics.mean(sample), sign * scores.mean()
        plain = intervals.estimate(value, many, sample)
        tailed = intervals.estimate(value, many, sample, tails=True)
        up, down = tailed.high - plain.high, plain.low - tailed.low
        assert (up > 0.1 and down < 0.01) if sign > 0 else (down > 0.1 and up < 0.01)


def test_several_statistics_at_once_have_the_intervals_they_have_alone() -> None:
    sample = drawn(tables()["base"], 500)
    grid = np.array(THRESHOLDS)
    many = statistics.performance_profile(sample, grid)
    value = statistics.performance_profile(whole(tables()["base"]), grid)[0]
    low, high = intervals.interval(value, many, sample, tails=True)
    assert low.shape == high.shape == grid.shape
    for at in range(len(grid)):
        alone = intervals.interval(value[at], many[:, at], sample, tails=True)
        assert (low[at], high[at]) == pytest.approx(alone)


def test_runs_that_all_agree_have_no_interval() -> None:
    """Nothing varies, so nothing is known about the variance; certainty would be a lie."""
    sample = drawn(np.full((3, 2), 5.0), 100)
    assert not intervals.estimate(5.0, statistics.mean(sample), sample, tails=True).has_interval
    other = drawn(np.full((3, 2), 4.0), 100)
    apart = statistics.mean(sample) - statistics.mean(other)
    statistic = permutation.mean_difference
    found = difference_estimate(1.0, apart, (sample, other), statistic, np.random.default_rng(0))
    assert found.value == 1.0
    assert not found.has_interval


def improvement(one: np.ndarray, other: np.ndarray) -> intervals.Estimate:
    return improvement_estimate(drawn(one), drawn(other), np.random.default_rng(2))


def test_three_runs_against_three_decide_nothing_however_they_rank() -> None:
    """Without a difference, one ranking of 20 has all of one agent's runs before the other's."""
    one, other = np.array([[1.0], [2.0], [4.0]]), np.array([[0.0], [0.9], [0.5]])
    found = improvement(one, other)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.025 ** (1 / 3))  # three independent pairs, all won
    back = improvement(other, one)
    assert (back.value, back.low, back.high) == pytest.approx((0.0, 0.0, 1.0 - found.low))
    nearly = improvement(one, np.array([[0.0], [1.5], [0.5]]))
    assert nearly.value == pytest.approx(8 / 9)
    assert nearly.low <= 0.5
    more = improvement(np.tile(one, 4), np.tile(other, 4))
    assert more.low == pytest.approx(0.025 ** (1 / 12))  # in four games it is significant


def test_ties_everywhere_are_one_half_without_an_interval() -> None:
    found = improvement(np.ones((3, 4)), np.ones((3, 4)))
    assert found.value == 0.5
    assert not found.has_interval


def test_an_interval_agrees_with_the_test() -> None:
    """Columns: rejected or not; the value above or below 0; the interval with 0 or without."""
    value = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    low = np.array([-0.5, 0.5, -2.0, -2.0, 0.5, -2.0])
    high = np.array([2.0, 2.0, 0.5, -0.5, 2.0, -0.5])
    p = np.array([0.01, 0.01, 0.05, 0.05, 0.06, 0.06])
    tiny = 1e-6  # of the value
    found = intervals.settled(value, low, high, 0.0, p, cut=True)
    np.testing.assert_array_equal(found[0], [tiny, 0.5, -2.0, -2.0, 0.0, -2.0])
    np.testing.assert_array_equal(found[1], [2.0, 2.0, -tiny, -0.5, 2.0, 0.0])
    found = intervals.settled(value, low, high, 0.0, p, cut=False)
    np.testing.assert_array_equal(found[0], [-0.5, 0.5, -2.0, -2.0, 0.0, -2.0])
    np.testing.assert_array_equal(found[1], [2.0, 2.0, 0.5, -0.5, 2.0, 0.0])


def test_only_as_many_runs_of_both_can_cut_an_interval() -> None:
    one, other = drawn(np.zeros((3, 2)), 5), drawn(np.zeros((4, 2)), 5)
    assert intervals.same_runs(one, one)
    assert not intervals.same_runs(one, other)
    hole = drawn(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, NAN]]), 5)
    assert not intervals.same_runs(one, hole)


@pytest.mark.parametrize(("wins", "games"), [(0, 5), (3, 5), (5, 5), (40, 55)])
def test_the_share_of_games_won_has_an_exact_interval(wins: int, games: int) -> None:
    """Clopper and Pearson's; also when all games are won, where resamples would not vary."""
    one, other = (np.arange(games) < wins) * 2.0, np.ones(games)
    found = intervals.share_won(one, other)
    expected = stats.binomtest(wins, games).proportion_ci()
    assert found.value == wins / games
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_gap_of_runs_above_one_has_the_variance_of_a_normal_distribution() -> None:
    scores = np.array([[1.1, 0.8, 2.0], [1.2, 1.3, 2.0], [1.6, 1.5, 2.0]])
    found = statistics.hidden_variance(scores)
    centre, deviation = scores[:, 0].mean(), scores[:, 0].std(ddof=1)
    grid = centre + deviation * stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    shared = 1 + 1  # one game has a run below 1
    expected = np.minimum(grid, 1.0).var() / 3 / 3**2 / shared
    assert found[0] == pytest.approx(expected, rel=1e-3)
    assert (found[1:] == 0.0).all(), "a run below 1, or no variance at all"


def test_the_gap_of_runs_above_one_has_an_interval() -> None:
    scores = np.array([[1.1, 1.2], [1.2, 1.3], [1.6, 1.5]])
    sample = drawn(scores, 100)
    many, hidden = statistics.optimality_gap(sample), statistics.hidden_variance(scores)
    found = intervals.estimate(0.0, many, sample, tails=True, hidden=hidden, within=(0.0, 1.0))
    assert found.low == 0.0
    assert found.high > 0.02


def test_an_interval_ends_where_the_statistic_does() -> None:
    sample = drawn(np.array([[0.1], [0.9], [0.95]]))
    found = intervals.estimate(0.65, statistics.mean(sample), sample, within=(0.0, 1.0))
    assert (found.low, found.high) == (0.0, 1.0)


def outside(found: dict[str, dict[str, float]], method: str, studies: int) -> dict[str, float]:
    """Coverages that are not between 0.93 and 0.97, by more than two standard errors."""
    low, high = (x + k * math.sqrt(x * (1 - x) / studies) for x, k in ((0.93, -2), (0.97, 2)))
    shares = {name: one[method] for name, one in found.items() if method in one}
    return {name: share for name, share in shares.items() if not low <= share <= high}


@pytest.fixture(scope="module", params=[("normal", 5), ("lognormal", 10)])
def simulated(request: pytest.FixtureRequest) -> dict[str, dict[str, float]]:
    """A small version of benchmarks.intervals: three seeds, 300 studies."""
    scores, games = request.param
    return coverage(Design(scores, seeds=3, games=games, studies=300, resamples=300))


def test_intervals_cover_neither_too_seldom_nor_too_often(
    simulated: dict[str, dict[str, float]],
) -> None:
    assert set(simulated) == set(STATISTICS)
    assert outside(simulated, "the report's", 300) == {}


def test_false_declarations_are_at_most_six_per_cent(
    simulated: dict[str, dict[str, float]],
) -> None:
    """Of 300 studies; at a true rate of 5% the standard error is 1.3%."""
    compared = [name for name in STATISTICS if name.startswith(("Δ", "P"))]
    rates = [1.0 - simulated[name]["the report's"] for name in compared]
    assert max(rates) <= 0.06 + 0.013
    assert np.mean(rates) <= 0.06


def test_the_simulation_finds_intervals_that_are_too_narrow_or_too_wide(
    simulated: dict[str, dict[str, float]],
) -> None:
    assert set(outside(simulated, "percentile bootstrap", 300)) >= {"IQM", "median", "mean", "gap"}
    assert 1.0 - simulated["Δ IQM"]["percentile bootstrap"] > 0.073
    assert {"IQM", "mean"} <= set(outside(simulated, "BCa", 300))
    wide = {"IQM": {"too wide": 0.995}, "mean": {"too wide": 0.95}, "gap": {"too wide": 0.9}}
    assert set(outside(wide, "too wide", 300)) == {"IQM", "gap"}


def test_agents_with_few_runs_that_fail_are_not_declared_different() -> None:
    """Three runs against ten, three in ten of which fail: without the test, up to 8%."""
    design = Design("bimodal", seeds=3, games=5, studies=300, resamples=200, other_seeds=10)
    found = coverage(design)
    assert found["Δ IQM"]["the report's"] >= 0.94
    assert found["Δ IQM"]["the report's"] >= found["Δ IQM"]["Student's t, no test"]


def test_median_curve_by_hand_with_a_run_that_ends_early() -> None:
    curves = np.array(
        [
            [[1.0, 2.0], [10.0, 30.0]],
            [[3.0, NAN], [NAN, NAN]],
        ]
    )  # runs x games x points
    low, span = np.array([0.0, 10.0]), np.array([1.0, 20.0])
    counts = np.array([[[1, 1], [1, 0]], [[2, 1], [0, 0]]], np.float32)
    found = statistics.median_curve(curves, low, span, counts)
    # means 2, 2 and 10, 30 -> scaled 2, 2 and 0, 1; then the first run of game one drawn twice
    assert found == pytest.approx(np.array([[1.0, 1.5], [0.5, 1.5]]))
    counts[0, 0] = counts[0, 1] = 0
    assert np.isnan(statistics.median_curve(curves, low, span, counts[:1])).all()


def test_standard_error_by_hand() -> None:
    values = np.array([[1.0, 5.0, NAN], [3.0, NAN, NAN]])
    found = statistics.standard_error(values)
    assert found[0] == pytest.approx(math.sqrt(2.0) / math.sqrt(2.0))  # sd sqrt(2), two values
    assert np.isnan(found[1:]).all()
    assert statistics.nanmean(values)[:2] == pytest.approx([2.0, 5.0])
