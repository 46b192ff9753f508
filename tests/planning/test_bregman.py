"""Divergences and their proximal operators: definitions, hand-computed values, optimality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from proxrl.errors import UserError
from proxrl.planning.bregman import (
    Divergence,
    LpNorm,
    Mahalanobis,
    SquaredEuclidean,
    beta_from_c,
    proximal_bellman,
    proximal_optimality,
)
from proxrl.planning.mdp import garnet
from proxrl.planning.operators import bellman, optimality

STATES = 4
_ROOT = np.random.default_rng(0).standard_normal((STATES, STATES))
DIVERGENCES: dict[str, Divergence] = {
    "squared": SquaredEuclidean(),
    "mahalanobis": Mahalanobis(_ROOT @ _ROOT.T),
    "semi-definite": Mahalanobis(np.outer(_ROOT[0], _ROOT[0])),  # rank 1
    "l_1.2": LpNorm(1.2),
    "l_2": LpNorm(2.0),
    "l_3": LpNorm(3.0),
    "l_8": LpNorm(8.0),
}
each = pytest.mark.parametrize("divergence", DIVERGENCES.values(), ids=DIVERGENCES.keys())
vectors = arrays(np.float64, STATES, elements=st.floats(-100, 100).map(lambda x: round(x, 6)))
positive = st.floats(1e-2, 1e3)


def test_by_hand() -> None:
    new, old = np.array([3.0, 4.0]), np.array([0.0, 0.0])
    assert SquaredEuclidean()(new, old) == 25.0
    assert Mahalanobis(np.diag([1.0, 2.0]))(new, old) == (9 + 2 * 16) / 2
    assert LpNorm(2.0)(new, old) == pytest.approx(12.5)
    # ||(1, 2)||_3^2 / 2 = 9^(2/3) / 2, its gradient 9^(-1/3) (1, 4)
    assert LpNorm(3.0).f(np.array([1.0, 2.0])) == pytest.approx(9 ** (2 / 3) / 2)
    np.testing.assert_allclose(
        LpNorm(3.0).gradient(np.array([1.0, -2.0])), 9 ** (-1 / 3) * np.array([1.0, -4.0])
    )
    # argmin (v' - 10)^2 + (1/c)(v' - 2)^2 at c = 3: (3 * 10 + 2) / 4
    target, before = np.array([10.0]), np.array([2.0])
    assert SquaredEuclidean().proximal(target, before, 3.0) == 8.0
    # argmin (v' - 10)^2 + (1/c)(1/2) 6 (v' - 2)^2 at c = 3: the same weights 1 : 1
    assert Mahalanobis(np.array([[6.0]])).proximal(target, before, 3.0) == pytest.approx(6.0)


def test_beta_is_one_over_one_plus_c() -> None:
    np.testing.assert_array_equal(beta_from_c([1.0, 3.0, np.inf]), [0.5, 0.25, 0.0])


@each
@given(new=vectors, old=vectors)
def test_divergence_is_its_definition(divergence: Divergence, new, old) -> None:
    defined = divergence.f(new) - divergence.f(old) - np.sum(divergence.gradient(old) * (new - old))
    scale = 1.0 + abs(divergence.f(new)) + abs(divergence.f(old))
    assert divergence(new, old) == pytest.approx(defined, abs=1e-10 * scale)


@each
@given(new=vectors, old=vectors)
def test_divergence_is_never_negative_and_zero_at_equality(divergence, new, old) -> None:
    scale = 1.0 + abs(divergence.f(new)) + abs(divergence.f(old))
    assert divergence(new, old) >= -1e-12 * scale
    assert divergence(old, old) == 0.0


@each
@given(old=vectors)
def test_gradient_is_the_slope_of_f(divergence: Divergence, old) -> None:
    old = old + np.where(old >= 0, 1.0, -1.0)  # away from 0, where |v|^(p-1) bends sharply
    step = 1e-5
    for state, unit in enumerate(np.eye(STATES) * step):
        slope = (divergence.f(old + unit) - divergence.f(old - unit)) / (2 * step)
        assert divergence.gradient(old)[state] == pytest.approx(slope, rel=1e-4, abs=1e-3)


@each
@settings(deadline=None)
@given(target=vectors, old=vectors, c=positive)
def test_the_argmin_satisfies_the_optimality_condition(divergence, target, old, c) -> None:
    new = divergence.proximal(target, old, c)
    slope = 2 * (new - target) + (divergence.gradient(new) - divergence.gradient(old)) / c
    scale = 1 + np.abs(target).max() + np.abs(divergence.gradient(old)).max() / c
    assert np.abs(slope).max() <= 1e-9 * scale


@each
def test_the_argmin_beats_a_general_minimiser(divergence: Divergence) -> None:
    generator = np.random.default_rng(3)
    for _ in range(5):
        target, old = generator.standard_normal((2, STATES)) * 3
        c = 10 ** generator.uniform(-1, 1)

        def objective(v, target=target, old=old, c=c):
            return float(np.sum((v - target) ** 2) + divergence(v, old) / c)

        found = divergence.proximal(target, old, c)
        numerical = minimize(objective, old, method="Nelder-Mead", options={"maxiter": 4_000})
        assert objective(found) <= numerical.fun + 1e-9
        np.testing.assert_allclose(found, numerical.x, atol=2e-3)


@each
def test_a_batch_is_its_members_and_c_broadcasts(divergence: Divergence) -> None:
    generator = np.random.default_rng(4)
    target, old = generator.standard_normal((2, STATES, 3, 2))
    c = np.array([[0.1], [1.0], [np.inf]])
    together = divergence.proximal(target, old, c)
    for i, j in np.ndindex(3, 2):
        alone = divergence.proximal(target[:, i, j], old[:, i, j], c[i, 0])
        np.testing.assert_allclose(together[:, i, j], alone, atol=1e-12)
    np.testing.assert_allclose(together[:, 2], target[:, 2], atol=1e-12)  # c = inf: no pull


@each
def test_zero_stays_zero(divergence: Divergence) -> None:
    zero = np.zeros(STATES)
    np.testing.assert_array_equal(divergence.proximal(zero, zero, 1.0), zero)


def test_factor_two_between_the_paper_s_examples() -> None:
    target, old = np.random.default_rng(5).standard_normal((2, STATES))
    squared = SquaredEuclidean().proximal(target, old, 2.0)
    for half in (LpNorm(2.0), Mahalanobis(np.eye(STATES))):
        np.testing.assert_allclose(half.proximal(target, old, 1.0), squared, atol=1e-14)


def test_the_operators_are_the_argmin_of_bellman() -> None:
    mdp, c = garnet(STATES, 2, 3, seed=1), 3.0
    values, policy = np.arange(4.0), np.array([0, 1, 1, 0])
    wanted = 0.75 * bellman(mdp, policy, values, 5) + 0.25 * values
    found = proximal_bellman(mdp, policy, values, c, SquaredEuclidean(), n=5)
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    wanted = 0.75 * optimality(mdp, values) + 0.25 * values
    np.testing.assert_allclose(
        proximal_optimality(mdp, values, c, SquaredEuclidean()), wanted, atol=1e-14
    )


def test_lipschitz_constants_of_gradients_are_confirmed_by_measurement() -> None:
    generator = np.random.default_rng(6)
    first, second = generator.standard_normal((2, STATES, 500))
    apart = np.abs(first - second).max(axis=0)
    for divergence in DIVERGENCES.values():
        moved = divergence.gradient(first) - divergence.gradient(second)
        assert (np.abs(moved).max(axis=0) / apart).max() <= divergence.gradient_lipschitz() + 1e-12


@pytest.mark.parametrize("c", [0.0, -1.0, np.nan, [1.0, -2.0]])
def test_c_is_positive(c) -> None:
    with pytest.raises(UserError, match=r"c must be positive \(inf for no proximal term\), got"):
        SquaredEuclidean().proximal(np.ones(2), np.ones(2), c)


def test_invalid_divergences() -> None:
    with pytest.raises(UserError, match="square matrix"):
        Mahalanobis(np.ones((2, 3)))
    with pytest.raises(UserError, match="symmetric"):
        Mahalanobis(np.array([[1.0, 2.0], [0.0, 1.0]]))
    with pytest.raises(UserError, match="positive semi-definite, its smallest eigenvalue is -1"):
        Mahalanobis(np.diag([1.0, -1.0]))
    for p in (1.0, 0.5, np.inf, np.nan):
        with pytest.raises(UserError, match=r"p must be in \(1, inf\)"):
            LpNorm(p)
