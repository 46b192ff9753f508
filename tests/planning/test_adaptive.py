"""The adaptive beta: hand-computed gains, its gradient identity, its off-switches, its noise."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxrl.errors import UserError
from proxrl.planning.adaptive import AdaptiveBeta
from proxrl.planning.bregman import SquaredEuclidean
from proxrl.planning.mdp import MDP, from_gymnasium, garnet
from proxrl.planning.operators import bellman, optimal, optimality
from proxrl.planning.pmpi import Noise, Trace, iterate, policy_error

LAKE = from_gymnasium("FrozenLake8x8-v1", discount=0.99)
GARNET = garnet(30, 3, 4, discount=0.95, seed=100)


def _trace(mdp: MDP, scale: object, iterations: int = 100, **options: object) -> Trace:
    noise = Noise(scale)  # type: ignore[arg-type]
    rule = options.pop("rule", AdaptiveBeta)
    out = iterate(mdp, iterations=iterations, noise=noise, rule=rule, record=True, **options)  # type: ignore[arg-type]
    assert out.trace is not None
    return out.trace


def test_gains_by_hand() -> None:
    # Centred innovations: (1, -1), (1, -1), (-1, 1); step 0.5 and memory 0.5.
    rule = AdaptiveBeta(first_gain=0.5, step=0.5, memory=0.5)
    origin = np.zeros(2)
    assert rule(np.array([3.0, 1.0]), origin) == 0.5
    # products 2, squares 2: correlation 1, the gain 0.5 e^0.5 = 0.824
    assert rule(np.array([6.0, 4.0]), origin) == pytest.approx(1.0 - 0.5 * np.exp(0.5))
    # products 2/2 - 2 = -1, squares 2/2 + 2 = 3: correlation -1/3, the gain 0.824 e^(-1/6)
    third = rule(np.array([0.0, 2.0]), origin)
    assert third == pytest.approx(1.0 - 0.5 * np.exp(0.5 - 0.5 / 3.0))


def test_the_gain_never_exceeds_one_nor_falls_below_averaging() -> None:
    rule = AdaptiveBeta(first_gain=1.0, step=50.0, memory=0.0)
    there, back = np.array([1.0, -1.0]), np.array([-1.0, 1.0])
    gains = [float(1.0 - rule(target, np.zeros(2))) for target in (there, back, there, back)]
    assert gains == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 4])  # averaging: 1/k from v_0 = b_1
    assert rule(back, np.zeros(2)) == 0.0


def test_correlation_is_the_slope_of_the_expected_energy() -> None:
    # E <delta', delta> = -1/2 d/dg E <e', A e'> for a symmetric A, by exact sums over noise that is
    # +-sigma in each of three states, instead of sampling.
    symmetric = np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
    a = np.eye(3) - np.linalg.matrix_power(0.9 * symmetric, 2)  # n = 2
    error, sigma = np.array([1.0, -2.0, 0.5]), 0.7
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1)
    innovations = (a @ error)[:, None] + sigma * signs  # [states, outcomes]

    def energy(gain: float) -> float:
        after = error[:, None] - gain * innovations
        return float((after * (a @ after)).sum(axis=0).mean())

    for gain in (0.1, 0.4, 0.9):
        after = error[:, None] - gain * innovations
        product = ((a @ after) * innovations).sum(axis=0).mean()  # the next noise has mean 0
        slope = (energy(gain + 1e-6) - energy(gain - 1e-6)) / 2e-6
        assert product == pytest.approx(-0.5 * slope, abs=1e-8)
        signal = a @ error
        by_formula = signal @ signal - gain * (signal @ a @ signal + sigma**2 * np.trace(a))
        assert product == pytest.approx(by_formula)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("mdp", [LAKE, GARNET], ids=["lake", "garnet"])
def test_without_noise_it_ends_where_beta_zero_ends(mdp: MDP, n: int) -> None:
    plain = iterate(mdp, iterations=100, n=n, beta=0.0)
    trace = _trace(mdp, 0.0, n=n)
    assert policy_error(mdp, trace.policies[-1]) <= policy_error(mdp, plain.policy) + 1e-9


def test_without_noise_beta_soon_reaches_zero_on_the_lake() -> None:
    betas = _trace(LAKE, 0.0).weights
    assert betas[0] == 0.75
    assert (betas[10:] == 0.0).all()  # and v_k is then exactly the backup


def test_huge_noise_is_averaged() -> None:
    trace = _trace(GARNET, 1e6, iterations=400, seed=range(8))
    gains = 1.0 - trace.weights  # [iterations, seeds]
    k = np.arange(1, 401)[:, None]
    assert (gains >= 1.0 / (k + 3.0) - 1e-15).all()
    assert (gains[-1] < 0.06).all()  # falls like 1/k, up to a small factor
    spread = trace.values[-1].std(axis=0)
    assert (spread < 0.25e6).all()  # a single backup's is 1e6


def test_more_noise_more_beta() -> None:
    seeds = range(100, 120)
    betas = _trace(LAKE, [0.0, 0.01, 0.1, 1.0], seed=seeds).weights.mean(axis=(0, 2))
    assert (np.diff(betas) > 0.0).all()
    assert betas[0] < 0.05 < 0.85 < betas[-1]


def test_it_beats_beta_zero_in_noise() -> None:
    # Development seeds, not those of the published comparison.
    seeds = list(range(100, 130))
    for n in (1, 3):
        out = {"noise": Noise([0.1, 0.3]), "seed": seeds, "n": n, "iterations": 100}
        adaptive = policy_error(LAKE, iterate(LAKE, rule=AdaptiveBeta, **out).policy)  # type: ignore[arg-type]
        plain = policy_error(LAKE, iterate(LAKE, beta=0.0, **out).policy)  # type: ignore[arg-type]
        assert (adaptive.mean(axis=-1) < 0.85 * plain.mean(axis=-1)).all()


def test_the_paper_s_second_line_is_kept() -> None:
    trace = _trace(GARNET, 0.5, iterations=30, n=2)
    for k in range(30):
        before, beta = trace.values[k], trace.weights[k]
        target = bellman(GARNET, trace.policies[k], before, 2) + trace.noise[k]
        np.testing.assert_allclose(trace.values[k + 1], (1 - beta) * target + beta * before)


def test_the_same_seed_is_bit_identical_alone_or_in_a_batch() -> None:
    alone, again = (_trace(GARNET, 0.5, seed=7) for _ in range(2))
    np.testing.assert_array_equal(alone.values, again.values)
    np.testing.assert_array_equal(alone.weights, again.weights)
    company = _trace(GARNET, [0.1, 0.5], seed=[6, 7])
    np.testing.assert_allclose(company.weights[:, 1, 1], alone.weights, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.floats(0.01, 100.0),
    shift=st.floats(-50.0, 50.0),
    n=st.integers(1, 3),
)
def test_it_is_invariant_to_scale_and_shift_of_rewards(
    seed: int, scale: float, shift: float, n: int
) -> None:
    # No terminal states: rewards scale R + shift change every v_k by a constant, and no policy.
    mdp = garnet(12, 3, 3, discount=0.9, seed=seed)
    moved = MDP(mdp.transitions, scale * mdp.rewards + shift, mdp.discount)
    one = _trace(mdp, 0.3, iterations=12, n=n, seed=seed)
    other = _trace(moved, 0.3 * scale, iterations=12, n=n, seed=seed)
    np.testing.assert_array_equal(one.policies, other.policies)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.0, 10.0), discount=st.floats(0.0, 0.95))
def test_bounded_noise_bounds_the_error(seed: int, scale: float, discount: float) -> None:
    # n = 1: ||v_k - v*|| <= max(||v_0 - v*||, sup ||eps|| / (1 - gamma)), for any beta_k.
    mdp = garnet(8, 2, 3, discount=discount, seed=seed)
    trace = _trace(mdp, scale, iterations=60, seed=seed)
    errors = np.abs(trace.values - optimal(mdp).values).max(axis=1)
    bound = max(errors[0], np.abs(trace.noise).max() / (1.0 - discount))
    assert (errors <= bound + 1e-9).all()


def test_a_rule_and_value_iteration_agree_where_the_gain_is_one() -> None:
    always = partial(AdaptiveBeta, first_gain=1.0, step=0.0)
    trace = _trace(GARNET, 0.0, iterations=1, rule=always)
    np.testing.assert_array_equal(trace.values[1], optimality(GARNET, np.zeros(30)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"first_gain": 0.0}, r"invalid first_gain 0: must be in \(0, 1\]"),
        ({"step": -1.0}, "invalid step -1"),
        ({"memory": 1.5}, "invalid memory 1.5"),
    ],
)
def test_invalid_arguments_are_named(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        AdaptiveBeta(**arguments)


def test_a_rule_excludes_other_arguments() -> None:
    with pytest.raises(UserError, match="pass exactly one of beta, c"):
        iterate(GARNET, iterations=1, beta=0.5, rule=AdaptiveBeta)
    with pytest.raises(UserError, match="squared Euclidean"):
        iterate(GARNET, iterations=1, rule=AdaptiveBeta, divergence=SquaredEuclidean())
