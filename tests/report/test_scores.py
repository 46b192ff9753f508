"""Scores by hand, the paper's formulas, and Dopamine's published aggregates to four digits."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from proxrl.report import scores, statistics
from proxrl.report.baselines import load
from proxrl.report.scores import ScoreScale
from proxrl.suites.minatar import MINATAR

SEEDS = Path(__file__).parent / "data" / "dopamine_seeds.csv"
AGGREGATES = {  # median, IQM over games, IQM over runs: at 120M frames and at the last iteration
    "dqn": ((0.6455, 0.7629, 0.7340), (0.6535, 0.7802, 0.7541)),
    "rainbow": ((1.3777, 1.5169, 1.5071), (1.4724, 1.8017, 1.7384)),
}


def test_the_final_window_is_a_million_steps_or_a_twentieth() -> None:
    assert scores.final_window_steps(30_000_000) == 1_000_000
    assert scores.final_window_steps(20_000_000) == 1_000_000
    assert scores.final_window_steps(1_000_000) == 50_000
    assert scores.final_window_steps(500_000) == 25_000


def test_the_final_score_is_the_mean_of_all_episodes_in_the_window() -> None:
    steps = np.array([800, 960, 980, 1000])
    returns = np.array([100.0, 1.0, 2.0, 6.0])
    episodes = np.array([2, 2, 2, 4])  # the window of 1000 steps is (950, 1000]
    found = scores.final_score(steps, returns, episodes, 1000)
    assert found == pytest.approx((2 * 1 + 2 * 2 + 4 * 6) / 8)


def test_the_windows_edge_is_outside() -> None:
    steps, returns = np.array([950, 1000]), np.array([7.0, 1.0])
    assert scores.final_score(steps, returns, np.array([1, 1]), 1000) == 1.0


def test_evaluations_further_apart_than_the_window_count_the_last() -> None:
    steps, returns, episodes = np.array([500, 900]), np.array([1.0, 5.0]), np.array([1, 1])
    assert scores.final_score(steps, returns, episodes, 1000) == 5.0


def test_area_by_hand() -> None:
    steps, returns = np.array([100, 200, 250]), np.array([1.0, 3.0, 7.0])
    assert scores.area_score(steps, returns, 250) == pytest.approx((100 + 300 + 350) / 250)
    assert scores.area_score(steps, returns, 200) == pytest.approx(2.0)


def test_the_papers_gain_by_hand() -> None:
    """Claim C54, with a base below and above the human score, and a game without one."""
    scale = ScoreScale("human", "", np.array([10.0, 0.0, np.nan]), np.array([110.0, 50.0, np.nan]))
    found = scores.gain(np.array([60.0, 150.0, 9.0]), np.array([35.0, 100.0, 5.0]), scale)
    assert found[:2] == pytest.approx([25 / 100, 50 / 100])
    assert math.isnan(found[2])


def test_human_normalised_by_hand() -> None:
    scale = scores.human_scale(("Alien", "AirRaid"))
    found = scale(np.array([[227.8, 3.0], [7127.7, 3.0]]))
    assert found[:, 0] == pytest.approx([0.0, 1.0])
    assert np.isnan(found[:, 1]).all()
    assert scale.known.tolist() == [True, False]


def test_55_games_51_of_them_with_a_human_score() -> None:
    games = scores.paper_games()
    assert len(games) == 55
    unknown = [game for game in games if game not in scores.PAPER.scores]
    assert unknown == ["AirRaid", "Carnival", "JourneyEscape", "Pooyan"]


def test_minatar_is_scaled_by_dqn_and_random_play() -> None:
    scale = scores.reference_scale(("Breakout", "Freeway"), MINATAR, "dqn", np.array([10.0, 0.1]))
    random = MINATAR.scores["Breakout"].random
    assert scale(np.array([10.0, 1.0]))[0] == pytest.approx(1.0)
    assert scale(np.array([random, 1.0]))[0] == pytest.approx(0.0)
    assert scale.known.tolist() == [True, False]  # DQN below random play: no scale


def test_one_raw_game_keeps_its_returns_and_two_share_no_scale() -> None:
    assert scores.raw_scale(("CartPole-v1",))(np.array([[237.0]]))[0, 0] == 237.0
    assert not scores.raw_scale(("CartPole-v1", "Acrobot-v1")).known.any()
    assert np.isnan(scores.gain(np.ones(1), np.zeros(1), scores.raw_scale(("a",)))).all()


@pytest.mark.parametrize("agent", ["dqn", "rainbow"])
def test_dopamines_aggregates_to_four_digits(agent: str) -> None:
    games = scores.paper_games()
    scale = scores.human_scale(games)
    runs: dict[int, np.ndarray] = {119: np.empty((5, 55)), 198: np.empty((5, 55))}
    with SEEDS.open() as file:
        for row in csv.DictReader(file):
            if row["agent"] == agent:
                at = int(row["seed_index"]), games.index(row["game"])
                runs[int(row["iteration"])][at] = float(row["value"])
    published = load(games, "legacy", agent)
    for iteration, expected in zip(runs, AGGREGATES[agent], strict=True):
        budget = (iteration + 1) * 250_000
        by_game = statistics.whole(scale(published.at(budget))[None])
        by_run = statistics.whole(scale(runs[iteration]))
        assert by_game.scores.shape == (1, 51)
        assert by_run.scores.shape == (5, 51)
        found = (
            statistics.median(by_game)[0],
            statistics.interquartile_mean(by_game)[0],
            statistics.interquartile_mean(by_run)[0],
        )
        assert [f"{value:.4f}" for value in found] == [f"{value:.4f}" for value in expected]
        assert statistics.median(by_run)[0] == pytest.approx(expected[0], abs=1e-4)


def test_published_curves_end_where_dopamines_do() -> None:
    legacy, jax = load(("Pong",), "legacy", "dqn"), load(("Pong",), "jax_cnn", "dqn")
    assert legacy.steps[-1] * 4 == 199_000_000
    assert jax.steps[-1] * 4 == 200_000_000
    assert np.isfinite(jax.mean).all()
    assert np.isnan(legacy.at(100_000)).all()  # a budget below one iteration
