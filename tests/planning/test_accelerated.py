"""Accelerated value iteration: measured and theoretical rates, and the monitor's guarantee."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxrl.errors import UserError
from proxrl.planning.accelerated import Accelerated, accelerated_rate, iterate, momentum
from proxrl.planning.mdp import MDP, from_gymnasium, garnet
from proxrl.planning.operators import optimal, optimality

STATES = 50
REWARDS = np.random.default_rng(100).standard_normal((1, STATES))


def _walk(discount: float) -> MDP:
    """One policy: a step in either direction on a ring with equal probability. Reversible."""
    right = np.roll(np.eye(STATES), 1, axis=1)
    return MDP(((right + right.T) / 2.0)[None], REWARDS, discount, "walk")


def _wheel(discount: float) -> MDP:
    """One policy: always one step forward. Its eigenvalues fill the unit circle."""
    return MDP(np.roll(np.eye(STATES), 1, axis=1)[None], REWARDS, discount, "wheel")


def _rate(result: Accelerated) -> float:
    """The factor by which the residual decreases per backup, over the second half."""
    middle = len(result.residuals) // 2
    spent = result.backups[-1] - result.backups[middle]
    return float((result.residuals[-1] / result.residuals[middle]) ** (1.0 / spent))


def test_constants_by_hand() -> None:
    # gamma = 0.6: sqrt(1 - 0.36) = 0.8, m = 0.2/0.6, rate 1 - sqrt(0.4/1.6) = 1/2.
    assert momentum(0.6) == pytest.approx(1 / 3)
    assert accelerated_rate(0.6) == pytest.approx(0.5)
    assert momentum(0.0) == 0.0


def test_two_iterations_by_hand() -> None:
    # One state that pays 1, gamma = 0.6: T v = 1 + 0.6 v, beta = 3/8, m = 1/3, v* = 2.5.
    # p_0 = 0, T p_0 = 1, w_0 = 5/8 = y (no momentum yet), T y = 11/8: residual 3/4 > 0.6, rejected;
    # p_1 = T p_0 = 1, T p_1 = 1.6, residual 0.6; again: w_1 = 5/8 x 1.6 + 3/8 = 1.375,
    # T w_1 = 1.825, residual 0.45 > 0.36, rejected: p_2 = 1.6, residual 0.36.
    mdp = MDP(np.ones((1, 1, 1)), np.ones((1, 1)), 0.6)
    result = iterate(mdp, max_iterations=2)
    np.testing.assert_allclose(result.residuals, [1.0, 0.6, 0.36])
    assert result.backups.tolist() == [1, 3, 5]
    assert result.rejected == 2


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_on_a_reversible_chain_the_rate_is_nesterov_s(discount: float) -> None:
    plain = iterate(_walk(discount), tolerance=1e-9, extrapolate=False)
    fast = iterate(_walk(discount), tolerance=1e-9)
    assert _rate(plain) == pytest.approx(discount, abs=0.005)
    assert _rate(fast) == pytest.approx(accelerated_rate(discount), abs=0.015)
    assert fast.rejected == 0
    assert fast.backups[-1] < plain.backups[-1] / (2 if discount < 0.95 else 5)


def test_on_a_wheel_nesterov_diverges_and_the_monitor_keeps_the_plain_rate() -> None:
    wheel = _wheel(0.99)
    loose = iterate(wheel, monitored=False)
    assert loose.residuals[-1] > 1e5 * loose.residuals[0]
    kept = iterate(wheel, tolerance=1e-8)
    plain = iterate(wheel, tolerance=1e-8, extrapolate=False)
    assert kept.rejected > 0
    assert _rate(kept) == pytest.approx(0.99, abs=0.001)
    assert kept.backups[-1] <= plain.backups[-1] + math.log2(plain.backups[-1]) + 2


@pytest.mark.parametrize("env", ["FrozenLake-v1", "FrozenLake8x8-v1"])
def test_on_the_lakes_it_needs_fewer_backups(env: str) -> None:
    lake = from_gymnasium(env, discount=0.99)
    plain = iterate(lake, tolerance=1e-8, extrapolate=False)
    fast = iterate(lake, tolerance=1e-8)
    assert fast.backups[-1] < 0.6 * plain.backups[-1]
    np.testing.assert_allclose(fast.values, optimal(lake).values, atol=1e-6)


def test_it_is_slower_where_value_iteration_is_exact_after_a_few_steps() -> None:
    # Taxi is deterministic and its goal at most 18 steps away: v_18 = v*. A bound of gamma^k is
    # no guarantee of being as fast as that.
    taxi = from_gymnasium("Taxi-v4", discount=0.99)
    plain = iterate(taxi, tolerance=1e-8, extrapolate=False)
    fast = iterate(taxi, tolerance=1e-8)
    assert plain.backups[-1] < 25
    assert plain.backups[-1] < fast.backups[-1] < 150
    np.testing.assert_allclose(fast.values, optimal(taxi).values, atol=1e-6)


def test_without_extrapolation_it_is_value_iteration() -> None:
    mdp = garnet(20, 3, 4, discount=0.9, seed=100)
    result = iterate(mdp, max_iterations=15, extrapolate=False)
    values = np.zeros(20)
    for _ in range(16):
        values = optimality(mdp, values)
    np.testing.assert_array_equal(result.values, values)
    assert result.backups.tolist() == list(range(1, 17))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    states=st.integers(2, 15),
    actions=st.integers(1, 3),
    discount=st.floats(0.0, 0.97),
)
def test_it_never_exceeds_the_bound_of_value_iteration(
    seed: int, states: int, actions: int, discount: float
) -> None:
    mdp = garnet(states, actions, min(2, states), discount=discount, seed=seed)
    result = iterate(mdp, tolerance=1e-7)
    k = np.arange(len(result.residuals))
    assert (result.residuals <= discount**k * result.residuals[0] * (1 + 1e-9) + 1e-12).all()
    assert (result.backups <= k + 1 + np.log2(k + 1) + 1).all()
    certificate = discount * result.residuals[-1] / (1.0 - discount)
    assert np.abs(result.values - optimal(mdp).values).max() <= certificate + 1e-9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": 0.0}, "invalid tolerance 0"),
        ({"max_iterations": 0}, "invalid max_iterations"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        iterate(_walk(0.9), **arguments)  # type: ignore[arg-type]
