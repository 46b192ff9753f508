"""PMPI: the paper's two lines against a plain loop, its special cases, its noise."""

import math

import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.planning.bregman import LpNorm, Mahalanobis, SquaredEuclidean
from proxrl.planning.mdp import MDP, from_gymnasium, garnet
from proxrl.planning.operators import (
    action_values,
    bellman,
    chosen,
    greedy,
    optimal,
    optimality,
    policy_value,
)
from proxrl.planning.pmpi import Noise, iterate, policy_error

MDP_20 = garnet(20, 4, 5, discount=0.9, seed=11)
START = np.random.default_rng(12).standard_normal(20)


def _with_a_terminal_state() -> MDP:
    """Random, so that there are no ties, which rounding could break either way."""
    transitions, rewards = MDP_20.transitions.copy(), MDP_20.rewards.copy()
    transitions[:, 3] = np.eye(20)[3]
    rewards[:, 3] = 0.0
    return MDP(transitions, rewards, 0.9)


def test_a_trajectory_by_hand() -> None:
    # One state that pays 1, gamma = 1/2, beta = 1/2: v_k = (1 + v_{k-1}/2)/2 + v_{k-1}/2.
    mdp = MDP(np.ones((1, 1, 1)), np.ones((1, 1)), 0.5)
    trace = iterate(mdp, iterations=3, beta=0.5, record=True).trace
    assert trace is not None
    assert trace.values[:, 0].tolist() == [0.0, 0.5, 0.875, 1.15625]
    # n = 2: (T)^2 v = 1.5 + v/4, so v_1 = 0.75 and v_2 = 0.75 + 0.75/8 + 0.375.
    trace = iterate(mdp, iterations=2, n=2, beta=0.5, record=True).trace
    assert trace is not None
    assert trace.values[:, 0].tolist() == [0.0, 0.75, 1.21875]


def test_beta_zero_and_n_one_is_value_iteration_for_every_iterate() -> None:
    trace = iterate(MDP_20, iterations=30, n=1, beta=0.0, initial=START, record=True).trace
    assert trace is not None
    values = START
    for reached in trace.values[1:]:
        values = optimality(MDP_20, values)
        np.testing.assert_array_equal(reached, values)


def test_beta_zero_and_n_infinite_is_policy_iteration_for_every_iterate() -> None:
    out = iterate(MDP_20, iterations=10, n=math.inf, beta=0.0, initial=START, record=True)
    assert out.trace is not None
    values = START
    for reached, policy in zip(out.trace.values[1:], out.trace.policies, strict=True):
        np.testing.assert_array_equal(policy, greedy(MDP_20, values))
        values = policy_value(MDP_20, policy)
        np.testing.assert_array_equal(reached, values)
    np.testing.assert_allclose(out.values, optimal(MDP_20).values, atol=1e-12)


def test_beta_one_never_moves() -> None:
    out = iterate(MDP_20, iterations=5, beta=1.0, noise=Noise(100.0), initial=START, record=True)
    assert out.trace is not None
    assert (out.trace.values == START).all()


@pytest.mark.parametrize("n", [1, 3, math.inf])
def test_without_noise_it_reaches_the_optimum(n: float) -> None:
    out = iterate(MDP_20, iterations=600, n=n, beta=[0.0, 0.3, 0.6])
    np.testing.assert_allclose(out.values, optimal(MDP_20).values[:, None] + np.zeros(3), atol=1e-9)
    assert (policy_error(MDP_20, out.policy) < 1e-9).all()


@pytest.mark.parametrize("n", [1, 3, math.inf])
@pytest.mark.parametrize("kind", ["gaussian", "uniform"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_whole_batch_is_the_paper_s_loop_run_alone(n: float, kind, as_sparse: bool) -> None:
    mdp = _with_a_terminal_state()
    levels, betas, seeds = [0.0, 0.2], [0.0, 0.5, 1.0], [7, 3]
    start = START * ~mdp.terminal
    together = iterate(
        mdp.to_sparse() if as_sparse else mdp,
        iterations=4,
        n=n,
        beta=betas,
        noise=Noise(levels, kind),
        seed=seeds,
        initial=start,
    )
    assert together.values.shape == together.policy.shape == (20, 2, 3, 2)
    for i, j, k in np.ndindex(2, 3, 2):
        generator = np.random.default_rng(seeds[k])
        values = start
        for _ in range(4):
            draw = (
                generator.standard_normal(20)
                if kind == "gaussian"
                else generator.uniform(-math.sqrt(3), math.sqrt(3), 20)
            )
            noise = levels[i] * draw * ~mdp.terminal
            policy = action_values(mdp, values).argmax(axis=0)
            values = (1 - betas[j]) * (bellman(mdp, policy, values, n) + noise) + betas[j] * values
        np.testing.assert_allclose(together.values[:, i, j, k], values, atol=1e-12)


def test_axes_appear_for_arrays_only() -> None:
    shape = lambda **more: iterate(MDP_20, iterations=1, **more).values.shape  # noqa: E731
    assert shape(beta=0.5) == (20,)
    assert shape(beta=[0.5]) == (20, 1)
    assert shape(beta=[0.1, 0.5], seed=range(3)) == (20, 2, 3)
    assert shape(beta=0.5, noise=Noise([0.0, 1.0])) == (20, 2)
    assert shape(c=[1.0, 2.0], divergence=LpNorm(3.0), seed=[5]) == (20, 2, 1)


def test_c_and_beta_are_equivalent() -> None:
    by_beta = iterate(MDP_20, iterations=7, n=2, beta=[0.5, 0.2], noise=Noise(0.1)).values
    by_c = iterate(MDP_20, iterations=7, n=2, c=[1.0, 4.0], noise=Noise(0.1)).values
    named = iterate(
        MDP_20, iterations=7, n=2, c=[1.0, 4.0], noise=Noise(0.1), divergence=SquaredEuclidean()
    ).values
    np.testing.assert_allclose(by_beta, by_c, atol=1e-13)
    np.testing.assert_allclose(by_beta, named, atol=1e-13)


@pytest.mark.parametrize("divergence", [Mahalanobis(np.eye(20) * 2), LpNorm(1.5), LpNorm(3.0)])
def test_other_divergences_reach_the_same_optimum(divergence) -> None:
    out = iterate(MDP_20, iterations=400, n=1, c=[5.0, math.inf], divergence=divergence)
    np.testing.assert_allclose(out.values, optimal(MDP_20).values[:, None] + np.zeros(2), atol=1e-9)


def test_noise_has_the_given_standard_deviation() -> None:
    generators = [np.random.default_rng(seed) for seed in range(20)]
    for kind in ("gaussian", "uniform"):
        draws = Noise(1.0, kind).draw(generators, 5_000)  # 100,000 numbers
        assert abs(draws.mean()) < 0.02
        assert draws.std() == pytest.approx(1.0, abs=0.01)
    assert np.abs(Noise(1.0, "uniform").draw(generators, 5_000)).max() <= math.sqrt(3.0)


def test_the_result_of_a_seed_is_independent_of_other_seeds() -> None:
    mdp = MDP_20.to_sparse()  # a dense product may round differently in a batch of another size
    alone = iterate(mdp, iterations=5, beta=0.3, noise=Noise(0.5), greedy_error=0.2, seed=[4])
    among = iterate(mdp, iterations=5, beta=0.3, noise=Noise(0.5), greedy_error=0.2, seed=[9, 4, 1])
    np.testing.assert_array_equal(alone.values[:, 0], among.values[:, 1])
    assert (among.values[:, 0] != among.values[:, 1]).any()


def test_terminal_states_stay_worth_nothing() -> None:
    lake = from_gymnasium("FrozenLake8x8-v1")
    for n in (1, 3, math.inf):
        out = iterate(lake, iterations=20, n=n, beta=0.5, noise=Noise(1.0))
        assert (out.values[lake.terminal] == 0.0).all()
        assert (out.values[~lake.terminal] != 0.0).all()
    with pytest.raises(UserError, match="terminal state must be 0"):
        iterate(lake, iterations=1, beta=0.5, initial=np.ones(64))


def test_greedification_error_is_within_its_bound_and_used() -> None:
    out = iterate(
        MDP_20, iterations=20, n=2, beta=0.3, greedy_error=0.5, noise=Noise(0.1), record=True
    )
    assert out.trace is not None
    losses = []
    for values, policy in zip(out.trace.values[:-1], out.trace.policies, strict=True):
        q = action_values(MDP_20, values)
        losses.append(q.max(axis=0) - chosen(q, policy))
    assert 0.25 < np.max(losses) <= 0.5 + 1e-12


def test_policy_error_is_zero_at_the_optimum() -> None:
    best = optimal(MDP_20)
    worst = np.argmin(action_values(MDP_20, best.values), axis=0)
    errors = policy_error(MDP_20, np.stack([best.policy, worst], axis=1))
    assert errors[0] < 1e-12
    assert errors[1] == pytest.approx(np.abs(best.values - policy_value(MDP_20, worst)).max())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"beta": 1.5}, r"beta must be in \[0, 1\], got 1.5"),
        ({"beta": [0.5, -0.1]}, r"beta must be in \[0, 1\], got -0.1"),
        ({"beta": math.nan}, r"beta must be in \[0, 1\]"),
        ({"c": -1.0}, "c must be positive .* got -1"),
        ({"c": -1.0, "divergence": LpNorm(3.0)}, "c must be positive"),
        ({}, "pass exactly one of beta, c"),
        ({"beta": 0.5, "c": 1.0}, "pass exactly one of beta, c"),
        ({"beta": 0.5, "divergence": LpNorm(3.0)}, "pass c for another"),
        ({"beta": 0.5, "n": 0}, "n must be a positive integer or inf, got 0"),
        ({"beta": 0.5, "iterations": 0}, "iterations must be at least 1"),
        ({"beta": 0.5, "greedy_error": -1.0}, "greedification error"),
        ({"beta": 0.5, "initial": np.zeros(3)}, r"initial values must be \[states\]"),
    ],
)
def test_invalid_arguments_are_named(arguments, words: str) -> None:
    with pytest.raises(UserError, match=words):
        iterate(MDP_20, **{"iterations": 2, **arguments})


def test_invalid_noise_is_named() -> None:
    for scale in (-1.0, math.inf, [0.1, math.nan]):
        with pytest.raises(UserError, match="noise level must be finite and non-negative"):
            Noise(scale)
    with pytest.raises(UserError, match="gaussian or uniform, got cauchy"):
        Noise(1.0, "cauchy")  # type: ignore[arg-type]


def test_progress_is_called_for_every_iteration() -> None:
    heard: list[int] = []
    iterate(MDP_20, iterations=4, beta=0.5, progress=heard.append)
    assert heard == [1, 2, 3, 4]
