"""Bellman operators against values computed by hand, naive loops and linear programming."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from proxrl.errors import UserError
from proxrl.planning.mdp import MDP, from_gymnasium, garnet
from proxrl.planning.operators import (
    action_values,
    bellman,
    check_steps,
    greedy,
    greedy_action,
    optimal,
    optimality,
    policy_value,
)

# Two states; action 0 stays, action 1 swaps; the second state pays 1, gamma = 1/2.
TWO = MDP(np.stack([np.eye(2), np.eye(2)[::-1]]), np.array([[0.0, 1.0], [0.0, 1.0]]), 0.5)


def test_by_hand() -> None:
    values = np.array([4.0, 8.0])
    assert action_values(TWO, values).tolist() == [[2.0, 5.0], [4.0, 3.0]]
    assert greedy(TWO, values).tolist() == [1, 0]
    assert optimality(TWO, values).tolist() == [4.0, 5.0]
    stay = np.array([0, 0])
    assert bellman(TWO, stay, values).tolist() == [2.0, 5.0]
    assert bellman(TWO, stay, values, n=2).tolist() == [1.0, 3.5]
    assert bellman(TWO, stay, values, n=0).tolist() == [4.0, 8.0]
    # staying in the second state is worth 1 + 1/2 + 1/4 + ... = 2
    np.testing.assert_allclose(policy_value(TWO, stay), [0.0, 2.0], atol=1e-15)
    np.testing.assert_allclose(bellman(TWO, stay, values, n=math.inf), [0.0, 2.0], atol=1e-15)
    best = optimal(TWO)
    np.testing.assert_allclose(best.values, [1.0, 2.0], atol=1e-15)
    assert best.policy.tolist() == [1, 0]


def test_ties_go_to_the_lowest_index() -> None:
    q = np.array([[1.0, 0.0, 2.0], [1.0, 3.0, 2.0], [0.0, 3.0, 2.0]])
    assert greedy_action(q).tolist() == [0, 1, 0]


def test_greedy_action_is_argmax() -> None:
    q = np.random.default_rng(0).integers(0, 4, size=(300, 7, 5)).astype(float)  # many ties
    np.testing.assert_array_equal(greedy_action(q), q.argmax(axis=0))


def _naive_bellman(mdp: MDP, policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    backed_up = np.zeros(mdp.states)
    for state in range(mdp.states):
        action = policy[state]
        backed_up[state] = mdp.rewards[action, state] + mdp.discount * sum(
            mdp.transitions[action, state, after] * values[after] for after in range(mdp.states)
        )
    return backed_up


@pytest.mark.parametrize("n", [1, 3, math.inf])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_batch_is_its_members(n: float, as_sparse: bool) -> None:
    mdp = garnet(9, 3, 4, seed=5)
    generator = np.random.default_rng(1)
    values = generator.standard_normal((9, 2, 3))
    policies = generator.integers(0, 3, size=(9, 2, 3))
    together = bellman(mdp.to_sparse() if as_sparse else mdp, policies, values, n)
    for at in np.ndindex(2, 3):
        one = values[:, *at]
        for _ in range(2_000 if n == math.inf else int(n)):
            one = (
                _naive_bellman(mdp, policies[:, *at], one)
                if n != math.inf
                else bellman(mdp, policies[:, *at], one)
            )
        np.testing.assert_allclose(together[:, *at], one, atol=1e-11)


def test_one_policy_for_a_batch_of_values() -> None:
    mdp = garnet(6, 2, 3, seed=2)
    policy = np.array([0, 1, 0, 1, 1, 0])
    values = np.random.default_rng(0).standard_normal((6, 4))
    for n in (1, 2, math.inf):
        together = bellman(mdp, policy, values, n)
        for column in range(4):
            np.testing.assert_allclose(
                together[:, column], bellman(mdp, policy, values[:, column], n), atol=1e-12
            )


@pytest.mark.parametrize("env", ["FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1"])
def test_optimal_values_agree_with_linear_programming(env: str) -> None:
    # min sum v  subject to  v >= R_a + gamma P_a v  for every action: v* is its only solution.
    mdp = from_gymnasium(env, discount=0.99)
    lhs = np.concatenate([mdp.discount * one - np.eye(mdp.states) for one in mdp.transitions])
    program = linprog(
        np.ones(mdp.states), lhs, -mdp.rewards.ravel(), bounds=(None, None), method="highs"
    )
    assert program.status == 0
    best = optimal(mdp)
    assert np.abs(best.values - program.x).max() < 1e-10
    assert best.error_bound < 1e-10
    assert (best.values[mdp.terminal] == 0.0).all()


@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_error_bound_is_true(as_sparse: bool) -> None:
    mdp = garnet(40, 3, 5, discount=0.9, seed=8, as_sparse=as_sparse)
    best = optimal(mdp)
    values = np.zeros(40)
    for _ in range(500):  # 0.9^500 is 1e-23
        values = optimality(mdp, values)
    assert np.abs(best.values - values).max() <= best.error_bound + 1e-13
    assert best.residual < 1e-12


@pytest.mark.parametrize("n", [0, -1, 1.5, math.nan, -math.inf])
def test_n_is_a_natural_number_or_infinity(n: float) -> None:
    with pytest.raises(UserError, match="n must be a positive integer or inf"):
        check_steps(n)
