"""The paper's update on numbers small enough to check by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proxrl.proximal import (
    c_from_pull_per_sync,
    distance,
    pull_,
    pull_per_sync,
    pull_strength,
)
from proxrl.proximal.pull import not_both


def test_pull_is_a_convex_combination() -> None:
    weights = [torch.tensor([1.0, 2.0]), torch.tensor([[4.0]])]
    anchor = [torch.tensor([0.0, 4.0]), torch.tensor([[8.0]])]
    pull_(weights, anchor, strength=0.25)
    torch.testing.assert_close(weights[0], torch.tensor([0.75, 2.5]))
    torch.testing.assert_close(weights[1], torch.tensor([[5.0]]))
    torch.testing.assert_close(anchor[0], torch.tensor([0.0, 4.0]))


def test_pull_of_strength_zero_touches_nothing_not_even_a_nan_anchor() -> None:
    weights = [torch.tensor([1.0])]
    pull_(weights, [torch.tensor([math.nan])], strength=0.0)
    assert weights[0].item() == 1.0


def test_pull_at_the_anchor_is_exactly_zero() -> None:
    weights = [torch.randn(1000, generator=torch.Generator().manual_seed(0))]
    before = weights[0].clone()
    pull_(weights, [before.clone()], strength=5e-4)
    assert torch.equal(weights[0], before)


def test_distance_is_the_norm_over_all_parameters() -> None:
    weights = [torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])]
    anchor = [torch.zeros(1), torch.zeros(1, 2)]
    assert distance(weights, anchor) == 5.0


@pytest.mark.parametrize("c", [0.0, -1.0, math.nan])
def test_c_must_be_positive(c: float) -> None:
    with pytest.raises(ValueError, match="c must be positive"):
        pull_strength(1e-4, c)


def test_a_pull_beyond_the_anchor_is_rejected_with_a_valid_c() -> None:
    with pytest.raises(ValueError, match=r"choose c >= 0.1"):
        pull_strength(0.1, 0.05)
    assert pull_strength(0.1, 0.1) == 1.0
    assert pull_strength(1e-4, math.inf) == 0.0


def test_the_papers_pull_per_sync() -> None:
    """docs/fidelity.md, 10: kappa is 1.0 if the period of 8000 counts agent steps, 4 if updates."""
    assert pull_per_sync(c=0.2, learning_rate=1e-4, updates_per_sync=2000) == pytest.approx(1.0)
    assert pull_per_sync(c=0.2, learning_rate=1e-4, updates_per_sync=8000) == pytest.approx(4.0)
    assert pull_per_sync(c=0.05, learning_rate=6.25e-5, updates_per_sync=2000) == pytest.approx(2.5)


@given(
    kappa=st.floats(1e-3, 1e3),
    learning_rate=st.floats(1e-6, 1.0),
    updates=st.integers(1, 100_000),
)
def test_c_and_pull_per_sync_are_equivalent(
    kappa: float, learning_rate: float, updates: int
) -> None:
    c = c_from_pull_per_sync(kappa, learning_rate, updates)
    assert pull_per_sync(c, learning_rate, updates) == pytest.approx(kappa)


def test_zero_pull_per_sync_is_infinite_c() -> None:
    assert c_from_pull_per_sync(0.0, 1e-4, 2000) == math.inf
    with pytest.raises(ValueError, match="finite and non-negative"):
        c_from_pull_per_sync(-1.0, 1e-4, 2000)


def test_the_distance_shrinks_by_exp_minus_kappa_between_syncs() -> None:
    """The meaning of kappa, measured: no gradient, 2000 pulls of the paper's strength."""
    weights, anchor = [torch.ones(1, dtype=torch.float64)], [torch.zeros(1, dtype=torch.float64)]
    for _ in range(2000):
        pull_(weights, anchor, pull_strength(1e-4, 0.2))
    assert distance(weights, anchor) == pytest.approx(math.exp(-1.0), rel=1e-3)


@pytest.mark.parametrize("kappa", [0.5, 1.0, 2.5, 4.0, 10.0])
def test_the_reference_ratios_of_docs_drop_in(kappa: float) -> None:
    """How much closer w stays to the anchor than without the pull, with 2000 updates per sync.

    A steady drift v per update: d <- (1 - s) d + v ends at v U (1 - e^-kappa) / kappa. A random
    walk's variance: d2 <- (1 - s)^2 d2 + v^2 ends at v^2 U (1 - e^-2kappa) / (2 kappa).
    """
    updates, strength = 2000, kappa / 2000
    drift, variance = torch.zeros(1, dtype=torch.float64), 0.0
    for _ in range(updates):
        pull_([drift], [torch.zeros(1, dtype=torch.float64)], strength)
        drift += 1.0
        variance = (1.0 - strength) ** 2 * variance + 1.0
    assert drift.item() / updates == pytest.approx((1 - math.exp(-kappa)) / kappa, rel=0.01)
    walk = math.sqrt((1 - math.exp(-2 * kappa)) / (2 * kappa))
    assert math.sqrt(variance / updates) == pytest.approx(walk, rel=0.01)


def test_a_c_that_no_pull_per_sync_can_tell_is_refused() -> None:
    """Without a step, or without an update between two syncs, every c has the pull per sync 0."""
    for rate, updates in ((0.0, 2000), (1e-4, 0)):
        with pytest.raises(ValueError, match="pass c instead"):
            c_from_pull_per_sync(1.0, rate, updates)


def test_a_negative_learning_rate_is_refused_and_zero_pulls_nothing() -> None:
    with pytest.raises(ValueError, match="must be non-negative"):
        pull_strength(-1e-4, 0.2)
    assert pull_strength(0.0, 0.2) == 0.0


def test_without_parameters_there_is_no_distance() -> None:
    assert distance([], []) == 0.0


def test_c_is_given_once() -> None:
    with pytest.raises(ValueError, match=r"c = 0\.2 or pull_per_sync = 1\.0, not both"):
        not_both(0.2, 1.0)
    not_both(0.2, None)
    not_both(None, 1.0)
    not_both(None, None)
