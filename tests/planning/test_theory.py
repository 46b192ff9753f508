"""The theorems, computed: naive re-derivations, hand-computed values, and controls that fail."""

import math

import numpy as np
import pytest

from proxrl.paper.planning import ROWS, TOLERANCE, Finding, Row, check_theory
from proxrl.planning.bregman import LpNorm, Mahalanobis, SquaredEuclidean, proximal_optimality
from proxrl.planning.mdp import MDP, garnet
from proxrl.planning.operators import greedy, optimal
from proxrl.planning.pmpi import Noise, iterate
from proxrl.planning.theory import (
    Inequality,
    expansion,
    iterated_factor,
    lipschitz_ratio,
    one_step_bounds,
    outside_theorem1,
    quadratic_factor,
    theorem1_factor,
    theorem2,
)


def test_factors_by_hand() -> None:
    assert theorem1_factor(0.5, 5.0) == 3.5 / 4.0
    assert theorem1_factor(0.99, 200.0) == pytest.approx(1.0)  # the edge, c = 2/(1 - gamma)
    assert quadratic_factor(0.5, 1.0) == 0.75
    assert quadratic_factor(0.99, 1e-6) < 1.0


def test_which_cases_the_theorem_covers() -> None:
    half_square, squared = Mahalanobis(np.eye(3)), SquaredEuclidean()
    assert outside_theorem1(0.9, 20.1, half_square) == ""
    assert outside_theorem1(0.9, 20.0, half_square) == "c <= 2/(1 - gamma)"
    assert outside_theorem1(0.9, 20.1, squared) == "grad f not 1-Lipschitz"
    assert (
        outside_theorem1(0.9, 1.0, LpNorm(3.0)) == "c <= 2/(1 - gamma) and grad f not 1-Lipschitz"
    )
    assert outside_theorem1(0.9, 20.1, LpNorm(2.0)) == ""


@pytest.mark.parametrize("c", [0.1, 1.0, 50.0])
def test_the_quadratic_factor_is_attained(c: float) -> None:
    mdp = garnet(6, 3, 3, discount=0.9, seed=1)
    measured = lipschitz_ratio(mdp, c, SquaredEuclidean(), np.random.default_rng(0))
    assert measured == pytest.approx(quadratic_factor(0.9, c), abs=1e-10)


def test_the_ratio_detects_an_expanding_operator() -> None:
    # One l_3 step with a strong pull: outside the theorem, and indeed not a contraction.
    mdp = garnet(6, 3, 3, discount=0.9, seed=1)
    assert lipschitz_ratio(mdp, 0.1, LpNorm(3.0), np.random.default_rng(0)) > 1.0


@pytest.mark.parametrize(
    "divergence", [SquaredEuclidean(), Mahalanobis(np.diag([0.1, 1.0, 5.0, 0.0])), LpNorm(3.0)]
)
def test_the_optimum_is_the_fixed_point_for_every_divergence(divergence) -> None:
    mdp = garnet(4, 2, 3, seed=2)
    best = optimal(mdp).values
    for c in (0.1, 1.0, 100.0):
        np.testing.assert_allclose(proximal_optimality(mdp, best, c, divergence), best, atol=1e-11)


def _recorded(n: float, beta: float, seed: int = 0, greedy_error: float = 0.3):
    mdp = garnet(5, 3, 3, discount=0.9, seed=seed)
    trace = iterate(
        mdp,
        iterations=6,
        n=n,
        beta=beta,
        noise=Noise(0.5),
        greedy_error=greedy_error,
        seed=seed,
        initial=np.random.default_rng(seed).standard_normal(5),
        record=True,
    ).trace
    assert trace is not None
    return mdp, trace


@pytest.mark.parametrize("n", [1, 4])
def test_quantities_against_a_naive_reading_of_the_appendix(n: int) -> None:
    beta = 0.4
    mdp, trace = _recorded(n, beta)
    found = theorem2(mdp, trace, beta, n)
    best = optimal(mdp)
    here, gamma, identity = np.arange(5), mdp.discount, np.eye(5)
    p = {k: mdp.transitions[trace.policies[k - 1], here] for k in range(1, 7)}
    r = {k: mdp.rewards[trace.policies[k - 1], here] for k in range(1, 7)}
    v, eps = trace.values, {k: trace.noise[k - 1] for k in range(1, 7)}
    p_star = mdp.transitions[best.policy, here]

    def t(k: int, values: np.ndarray, times: int = 1) -> np.ndarray:
        for _ in range(times):
            values = r[k] + gamma * p[k] @ values
        return values

    for k in range(1, 7):
        reached = (1 - beta) * t(k, v[k - 1], n) + beta * v[k - 1]
        np.testing.assert_allclose(reached + (1 - beta) * eps[k], v[k], atol=1e-12)
        np.testing.assert_allclose(found.b[k - 1], v[k - 1] - t(k, v[k - 1]), atol=1e-12)
        np.testing.assert_allclose(found.d[k - 1], best.values - reached, atol=1e-12)
        value = np.linalg.solve(identity - gamma * p[k], r[k])
        np.testing.assert_allclose(found.s[k - 1], reached - value, atol=1e-12)
        np.testing.assert_allclose(found.x[k - 1], eps[k] - gamma * p[k] @ eps[k], atol=1e-12)
        np.testing.assert_allclose(found.y[k - 1], gamma * p_star @ eps[k], atol=1e-12)

    k = 3  # one full right side of each bound, written out
    b = found.b  # b[k] is b_k
    power = np.linalg.matrix_power(gamma * p[k], n)
    operator = (1 - beta) * power + beta * identity
    right = operator @ b[k - 1] + (1 - beta) * found.x[k - 1] + found.greedy_error[k]
    np.testing.assert_allclose(found.residual.right()[k - 1], right, atol=1e-12)
    shift = operator @ np.linalg.inv(identity - gamma * p[k]) @ b[k - 1]
    np.testing.assert_allclose(found.shift.right()[k - 1], shift, atol=1e-12)
    series = sum(
        (np.linalg.matrix_power(gamma * p[k + 1], j) @ b[k] for j in range(1, n)), np.zeros(5)
    )
    right = gamma * p_star @ found.d[k - 1] - (1 - beta) * found.y[k - 1] - beta * b[k]
    right = right + (1 - beta) * series + found.greedy_error[k]
    np.testing.assert_allclose(found.distance.right()[k - 1], right, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, math.inf])
@pytest.mark.parametrize("beta", [0.0, 0.35, 1.0])
def test_theorem_2_holds_and_a_flipped_sign_does_not(n: float, beta: float) -> None:
    flipped: dict[str, float] = {}
    for seed in range(10):
        mdp, trace = _recorded(n, beta, seed)
        found = theorem2(mdp, trace, beta, n)
        for name in ("residual", "distance", "shift", "split"):
            inequality: Inequality = getattr(found, name)
            assert inequality.margin() >= -1e-10
            for term in inequality.terms:
                key = f"{name} {term}"
                flipped[key] = min(flipped.get(key, math.inf), inequality.margin(flip=term))
    absent = {  # terms that are 0 here, so that their sign does not matter
        "residual x": beta == 1.0,
        "distance y": beta == 1.0,
        "distance beta b": beta == 0.0,
        "distance sum": beta == 1.0 or n == 1,
        "shift b": beta == 0.0 and n == math.inf,
        "split s": beta == 0.0 and n == math.inf,
        "residual b": beta == 0.0 and n == math.inf,
    }
    for key, margin in flipped.items():
        if not absent.get(key, False):
            assert margin < -1e-3, key


def test_without_greedy_error_the_measured_one_is_zero() -> None:
    mdp, trace = _recorded(2, 0.3, greedy_error=0.0)
    assert np.abs(theorem2(mdp, trace, 0.3, 2).greedy_error).max() < 1e-14


def test_a_batch_is_rejected() -> None:
    mdp = garnet(4, 2, 2)
    trace = iterate(mdp, iterations=2, beta=[0.1, 0.2], record=True).trace
    assert trace is not None
    with pytest.raises(ValueError, match="single run"):
        theorem2(mdp, trace, 0.1, 1)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_one_step_with_n_above_one_can_expand(beta: float) -> None:
    # gamma = 1/2, n = 2, gap = 0.01: (1 - beta) (1/2 - 1/4)/(1/2) / 0.01 + beta
    example = expansion(2, beta, discount=0.5, gap=0.01)
    assert example.ratio == pytest.approx(50 * (1 - beta) + beta)
    assert example.ratio == pytest.approx(example.predicted)
    assert example.ratio > 1.0
    for values in (example.first, example.second):  # and PMPI takes exactly that step
        policy = greedy(example.mdp, values)
        assert policy.tolist() == ([0, 1] if values[0] else [1, 0])
    step = [
        iterate(example.mdp, iterations=1, n=2, beta=beta, initial=values).values
        for values in (example.first, example.second)
    ]
    assert np.abs(step[0] - step[1]).max() / 0.01 == pytest.approx(example.ratio)


def test_one_step_with_n_one_does_not_expand() -> None:
    for beta in (0.0, 0.5, 1.0):
        assert expansion(1, beta).ratio == pytest.approx(beta)


def test_policy_iteration_expands_without_bound() -> None:
    ratios = [expansion(math.inf, 0.5, gap=gap).ratio for gap in (1e-2, 1e-4, 1e-6)]
    assert ratios[1] > 90 * ratios[0]
    assert ratios[2] > 90 * ratios[1]


def test_the_bounds_on_d_and_s_have_opposite_slopes_by_hand() -> None:
    """C46 on one state with reward 1, discount 1/2, v_k = 0, n = 2: b_k = -1, A = 1.5."""
    mdp = MDP(np.ones((1, 1, 1)), np.ones((1, 1)), 0.5, "one state")
    bounds = one_step_bounds(mdp, np.zeros(1), np.array([2.0]), 2, np.array([0.0, 0.5, 1.0]))
    # gamma d_k + (A - 1) b_k - beta A b_k,  and  gamma^2 b_k / (1 - gamma) + beta A b_k
    np.testing.assert_allclose(bounds.distance[:, 0], [0.5, 1.25, 2.0])
    np.testing.assert_allclose(bounds.shift[:, 0], [-0.5, -1.25, -2.0])


@pytest.mark.parametrize("n", [1, 2, 5, math.inf])
def test_the_one_step_bounds_are_those_of_theorem_2(n: float) -> None:
    for beta in (0.0, 0.3, 1.0):
        mdp = garnet(5, 3, 3, discount=0.9, seed=4)
        trace = iterate(mdp, iterations=2, n=n, beta=beta, seed=1, record=True).trace
        assert trace is not None
        found = theorem2(mdp, trace, beta, n)
        bounds = one_step_bounds(mdp, trace.values[1], found.d[0], n, np.array([beta]))
        np.testing.assert_allclose(bounds.distance[0], found.distance.right()[0], atol=1e-12)
        np.testing.assert_allclose(bounds.shift[0], found.shift.right()[1], atol=1e-12)


def test_no_residual_satisfies_the_one_step_statement() -> None:
    betas = np.linspace(0.0, 1.0, 5)
    for seed in range(50):
        mdp = garnet(4, 2, 2, discount=0.9, seed=seed)
        values = np.random.default_rng(seed).standard_normal(4)
        bounds = one_step_bounds(mdp, values, np.zeros(4), 1 + seed % 4, betas)
        assert min((b - b[0]).min() for b in (bounds.distance, bounds.shift)) < -1e-6
        np.testing.assert_allclose((bounds.distance + bounds.shift).std(axis=0), 0.0, atol=1e-12)


def test_the_iterated_factor_is_smallest_at_beta_zero() -> None:
    np.testing.assert_allclose(iterated_factor(0.5, 2, [0.0, 0.5, 1.0]), [0.25, 0.625, 1.0])
    assert iterated_factor(0.9, math.inf, 0.0) == 0.0


def test_every_claim_holds_and_every_control_fails() -> None:
    heard: list[int] = []
    findings = check_theory(mdps=60, seed=3, progress=heard.append)
    assert heard == list(range(1, 61))
    assert len(findings) == len(ROWS)
    assert {finding.cases for finding in findings} == {60}
    for finding in findings:
        assert finding.as_expected, finding
        if finding.row.kind == "claim":
            assert finding.worst >= -TOLERANCE
        if finding.row.kind == "control":
            assert finding.violations > 40, finding  # not by a lucky draw
        if finding.row.kind == "refuted":
            assert finding.violations == 60, finding


def test_a_finding_counts_its_cases() -> None:
    claim = Finding(Row("C0", "x"))
    claim.add(0.5)
    claim.add(-1e-11)
    assert claim.as_expected
    assert claim.verdict == "holds"
    claim.add(math.nan)  # NaN never counts as holding
    assert not claim.as_expected
    assert claim.verdict == "FAILS in 1 cases"
    control = Finding(Row("C0", "x", "control"))
    control.add(0.5)
    assert not control.as_expected
    assert "ineffective" in control.verdict


@pytest.mark.parametrize("mdps", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_theorem_2_on_random_mdps(mdps: int) -> None:
    generator = np.random.default_rng(5)
    caught = 0
    for seed in range(mdps):
        beta, n = float(generator.uniform()), float(generator.choice([1, 2, 3, 5, math.inf]))
        mdp, trace = _recorded(n, beta, seed, greedy_error=float(generator.uniform(0.0, 0.5)))
        found = theorem2(mdp, trace, beta, n)
        for inequality in (found.residual, found.distance, found.shift, found.split):
            assert inequality.margin() >= -1e-10
        caught += found.residual.margin(flip="x") < -1e-10
    assert caught > 0.95 * mdps  # the wrong sign is detected almost every time


@pytest.mark.slow
def test_every_claim_on_a_thousand_mdps() -> None:
    assert all(finding.as_expected for finding in check_theory(mdps=1_000, seed=1))
