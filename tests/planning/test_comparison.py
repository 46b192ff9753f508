"""Adaptive against fixed betas: units, oracle, verdicts, reproducible bytes."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.planning.adaptive import AdaptiveBeta
from proxrl.planning.comparison import BETAS, Comparison, Problem, compare, problems, save
from proxrl.planning.mdp import MDP, from_gymnasium, garnet
from proxrl.planning.operators import optimal
from proxrl.planning.pmpi import Noise, iterate, policy_error

LAKE = Problem("lake", (from_gymnasium("FrozenLake-v1"),), range(100, 104))
PAIR = Problem("pair", (garnet(8, 2, 3, seed=100), garnet(6, 3, 2, seed=101)), range(100, 103))


def _made_up(fixed: list[list[float]], adapted: list[float]) -> Comparison:
    """One MDP, one n, one level: fixed [betas, seeds], adapted [seeds]."""
    one = np.array(fixed)[None, None, None]
    return Comparison(
        LAKE, 100, "gaussian", (1,), np.array([0.1]), one, np.array(adapted)[None, None, None]
    )


def test_numbers_are_those_of_pmpi_in_units_of_the_span() -> None:
    (result,) = compare([PAIR], n=(2,), levels=(0.2,), iterations=7)
    assert result.fixed.shape == (2, 1, 1, len(BETAS), 3)
    for mdp, fixed, adapted in zip(PAIR.mdps, result.fixed, result.adapted, strict=True):
        span = np.ptp(optimal(mdp).values)
        seeds, noise = list(PAIR.seeds), Noise([0.2 * span])
        plain = iterate(mdp, iterations=7, n=2, beta=BETAS, noise=noise, seed=seeds)
        np.testing.assert_allclose(fixed[0], policy_error(mdp, plain.policy) / span, atol=1e-12)
        own = iterate(mdp, iterations=7, n=2, rule=AdaptiveBeta, noise=noise, seed=seeds)
        np.testing.assert_allclose(adapted[0], policy_error(mdp, own.policy) / span, atol=1e-12)


def test_the_oracle_has_the_smallest_mean_and_the_smallest_beta_on_ties() -> None:
    result = _made_up([[3.0, 5.0], [1.0, 3.0], [2.0, 2.0]], [2.0, 2.0])
    assert result.best_beta()[0, 0] == 1
    assert result.samples["oracle"][0, 0].tolist() == [1.0, 3.0]
    assert result.mean["beta_0"][0, 0] == 4.0


def test_verdicts_by_hand() -> None:
    edge = _made_up([[1.0, 1.0]], [1.125, 1.25])
    assert edge.standard_error["adaptive"][0, 0] == pytest.approx(0.0625)
    assert not edge.not_worse[0, 0]  # 0.1875 > 2 x 0.0625
    assert _made_up([[1.0, 1.0]], [1.0, 1.25]).not_worse[0, 0]  # 0.125 <= 2 x 0.125
    assert _made_up([[1.0, 1.0]], [1.1, 1.1]).near_oracle[0, 0]
    assert not _made_up([[1.0, 1.0]], [1.1, 1.11]).near_oracle[0, 0]
    assert _made_up([[0.0, 0.0]], [0.0, 0.0]).near_oracle[0, 0]


def test_each_of_many_mdps_is_one_sample() -> None:
    (result,) = compare([PAIR], n=(1,), levels=(0.0, 0.3), iterations=5)
    assert result.samples["adaptive"].shape == (1, 2, 2)
    np.testing.assert_allclose(
        result.samples["beta_0"][0, 1], result.fixed[:, 0, 1, 0].mean(axis=-1)
    )
    best = result.fixed.mean(axis=-1).min(axis=-1)  # [mdps, n, levels]
    np.testing.assert_allclose(result.oracle_of_each, (best[0] + best[1]) / 2)
    assert (result.oracle_of_each <= result.mean["oracle"]).all()
    doubled = replace(result, adapted=result.fixed[..., 0, :] + 1.0)
    assert doubled.worse_mdps.tolist() == [[2, 2]]


def test_four_problems_and_other_seeds_are_other_mdps() -> None:
    first, second = problems(2, 100, 2), problems(2, 102, 2)
    assert [one.name for one in first] == [
        *("FrozenLake 4x4", "FrozenLake 8x8", "Taxi"),
        "2 random MDPs",
    ]
    assert first[-1].mdps[0].rewards.shape != second[-1].mdps[0].rewards.shape
    assert len(problems(2, 100, 0)) == 3


def test_the_same_numbers_give_the_same_bytes(tmp_path) -> None:
    results = compare([LAKE, PAIR], n=(1, 3), levels=(0.0, 0.1), iterations=10)
    once, twice = save(results, tmp_path / "a"), save(results, tmp_path / "b")
    for one, other in zip(once, twice, strict=True):
        assert one.read_bytes() == other.read_bytes()
    with once[-1].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert (rows[0]["problem"], rows[0]["first_seed"], rows[0]["seeds"]) == ("lake", "100", "4")
    assert float(rows[1]["adaptive_error"]) == pytest.approx(results[0].mean["adaptive"][0, 1])
    assert rows[-1]["mdps"] == "2"


def test_progress_ends_at_a_hundred() -> None:
    heard: list[int] = []
    compare(
        [LAKE, PAIR], n=(1,), levels=(0.1,), iterations=5, progress=lambda d, t: heard.append(d)
    )
    assert heard == sorted(heard)
    assert heard[-1] == 100


def test_a_flat_value_function_is_rejected() -> None:
    flat = MDP(np.eye(3)[None], np.ones((1, 3)), 0.9, "flat")
    with pytest.raises(UserError, match="flat: v\\* is constant"):
        compare([Problem("flat", (flat,), range(1))])
