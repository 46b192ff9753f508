"""kappa from Adam's moments: known values, an oracle, and gradients of known signal and noise."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from proxrl.agents.adam import BETA_1
from proxrl.config import AdaptiveOptions
from proxrl.proximal.kappa import (
    KappaEstimate,
    kappa_for,
    kappa_of,
    noise_ratio,
    shares_of,
    signal_shares,
    signal_to_noise,
)

BETAS = (BETA_1, 0.999)


def kept(kappa: float) -> float:
    """What the pull keeps of a steady displacement."""
    return -math.expm1(-kappa) / kappa


def number(tensor: Tensor) -> float:
    return float(tensor)


@pytest.mark.parametrize("kappa", [1e-4, 0.1, 0.5, 1.0, 2.5, 10.0, 1_000.0])
def test_kappa_solves_its_equation(kappa: float) -> None:
    """r from kappa by hand, r/(1+r) = kept, and back."""
    share = kept(kappa)
    assert number(kappa_for(torch.tensor(share / (1.0 - share)).double())) == pytest.approx(
        kappa, rel=1e-5
    )


def test_known_values() -> None:
    """kappa = 1 keeps 1 - 1/e, so r = e - 1; a large r gives 2/(1+r)."""
    assert number(kappa_for(torch.tensor(math.e - 1.0).double())) == pytest.approx(1.0, abs=1e-6)
    assert number(kappa_for(torch.tensor(1e4))) == pytest.approx(2.0 / 10_001.0, rel=1e-3)
    assert number(kappa_for(torch.tensor(0.0))) > 1e8, "noise alone: only a bound stops it"
    assert number(kappa_for(torch.tensor(math.inf))) < 1e-8, "signal alone: no pull"


@given(st.floats(0.0, 1e8))
def test_kappa_lies_within_its_bounds(ratio: float) -> None:
    found = number(kappa_for(torch.tensor(ratio, dtype=torch.float64)))
    assert found >= 2.0 / (1.0 + ratio) * (1.0 - 1e-6)
    assert ratio < 1e-9 or found <= min(2.0 / ratio, 1.0 + 1.0 / ratio) * (1.0 + 1e-6)


def test_kappa_falls_with_the_signal_and_is_solved_for_all_at_once() -> None:
    ratios = torch.logspace(-6, 6, 200, dtype=torch.float64)
    kappas = kappa_for(ratios)
    assert (kappas.diff() < 0).all()
    assert kappas.tolist() == [number(kappa_for(ratio)) for ratio in ratios]


def test_the_signal_of_two_syncs_by_hand() -> None:
    """N = 250: rho = 0.01 gives r = 250/99 = 2.525."""
    share = torch.tensor([0.01], dtype=torch.float64)
    assert number(signal_to_noise(share, 250)) == pytest.approx(250 / 99)
    assert kept(number(kappa_of(share, 250))) == pytest.approx((250 / 99) / (1 + 250 / 99))


def drift_of_polyak(kappa: float, tau: float, period: int) -> float:
    """Per update, of theta, which moves every `period` updates, after long; w has a steady push of
    1 and the pull kappa/N, N = period/tau."""
    online = target = before = 0.0
    for _ in range(round(40 / tau) + 40):
        before = target
        for _ in range(period):
            online += 1.0 + kappa * tau / period * (target - online)
        target += tau * (online - target)
    return (target - before) / period


@pytest.mark.parametrize("kappa", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("tau", "period"), [(0.001, 1), (0.05, 50), (0.5, 500), (0.9, 500)])
def test_with_polyak_targets_the_pull_keeps_less_and_kappa_follows(
    kappa: float, tau: float, period: int
) -> None:
    """The share that is kept is simulated; where it is r/(1+r), the formula finds this kappa."""
    drift = drift_of_polyak(kappa, tau, period)
    updates = period / tau
    ratio = drift / (1.0 - drift)
    share = torch.tensor([ratio / (updates + ratio)], dtype=torch.float64)  # r = N rho / (1 - rho)
    assert number(kappa_of(share, updates, tau)) == pytest.approx(kappa, rel=0.05)
    assert number(kappa_of(share, updates)) > kappa
    if tau < 0.01:
        assert drift == pytest.approx(1.0 / (1.0 + kappa), rel=0.01)


def test_noise_in_few_directions_counts_as_signal() -> None:
    """A known limit (docs/rules.md): of noise along two directions, the positive part of rho has a
    mean of about 0.02 instead of 0, in however many weights."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(2, 10_000, generator=generator)
    means, mean = [], torch.zeros(10_000)
    square = directions.square().sum(0)  # of the gradient, on average
    for step in range(2_000):
        gradient = torch.randn(2, generator=generator) @ directions
        mean = BETA_1 * mean + (1 - BETA_1) * gradient
        if step > 100 and step % 10 == 0:
            shares = shares_of([mean], [square], torch.tensor(1e6), (BETA_1, 0.999), together=True)
            means.append(number(shares.clamp(min=0.0)))
    assert 0.015 < sum(means) / len(means) < 0.03


@pytest.mark.parametrize("steps", [1, 2, 5, 1_000])
def test_what_noise_alone_gives_depends_on_the_number_of_steps(steps: int) -> None:
    """The mean's weights are (1 - beta) beta^i / (1 - beta^t): b is the sum of their squares."""
    weights = (1 - BETA_1) * BETA_1 ** torch.arange(steps).double() / (1 - BETA_1**steps)
    found = noise_ratio(BETA_1, torch.tensor(float(steps)).double())
    assert number(found) == pytest.approx(number(weights.square().sum()))
    assert steps < 1_000 or number(found) == pytest.approx(0.1 / 1.9)


def moments_after(gradients: Tensor) -> Any:
    """Adam's moments after each row of gradients, by its definition."""
    mean = square = torch.zeros(gradients.shape[1])
    for gradient in gradients:
        mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient.square()

    def views(vectors: list[Tensor]) -> dict[str, Tensor]:
        half = len(vectors[0]) // 2
        return {"first": vectors[0][:half], "second": vectors[0][half:]}

    steps = torch.tensor(float(len(gradients)))
    return SimpleNamespace(mean=[mean], square=[square], steps=[steps], betas=BETAS, views=views)


def shares(gradients: Tensor, together: bool = True) -> list[float]:
    found: list[float] = signal_shares(moments_after(gradients), together).tolist()
    return found


@pytest.mark.parametrize("signal", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_signal_is_found(signal: float) -> None:
    """Gradients of mean +-sqrt(rho) and variance 1 - rho: 20,000 coordinates, 400 updates."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(20_000, generator=generator).sign()
    noise = torch.randn(400, 20_000, generator=generator)
    gradients = math.sqrt(signal) * direction + math.sqrt(1.0 - signal) * noise
    assert shares(gradients) == pytest.approx([signal], abs=0.01)


def test_each_parameter_has_its_own_share() -> None:
    generator = torch.Generator().manual_seed(1)
    gradients = torch.randn(200, 20_000, generator=generator)
    gradients[:, :10_000] = 1.0
    first, second = shares(gradients, together=False)
    assert first == pytest.approx(1.0, abs=1e-3)
    assert second == pytest.approx(0.0, abs=0.01)


def test_no_gradient_is_no_signal() -> None:
    assert shares(torch.zeros(3, 8)) == [0.0]


def test_one_step_tells_nothing_and_few_steps_are_not_taken_for_signal() -> None:
    generator = torch.Generator().manual_seed(2)
    gradients = torch.randn(5, 40_000, generator=generator)
    assert shares(gradients[:1]) == [0.0]
    assert shares(gradients) == pytest.approx([0.0], abs=0.01)


def test_a_measurement_that_is_not_finite_leaves_the_mean_as_it_is() -> None:
    measured = iter([0.2, math.nan, math.inf, 0.4, 0.9])  # the last after kappa is set
    options = AdaptiveOptions(smoothing=0.5, warmup_updates=1, kappa_max=9.0)
    estimate = KappaEstimate(options, updates_per_sync=50)
    for _ in range(51):
        estimate.advance(lambda: torch.tensor([next(measured)]))
    # Weights 1/16, 1/8, 1/4, 1/2 of 0.2, 0.2, 0.2, 0.4
    assert estimate.signals == pytest.approx([(0.2 * 7 + 0.4 * 8) / 15])


def test_measurements_below_zero_count_as_zero() -> None:
    measured = iter([0.2, -0.6, 0.4])
    options = AdaptiveOptions(smoothing=0.5, warmup_updates=1, kappa_max=9.0)
    estimate = KappaEstimate(options, updates_per_sync=40)
    for _ in range(41):
        estimate.advance(lambda: torch.tensor([next(measured, 9.0)]))
    assert estimate.signals == pytest.approx([(0.2 + 0.4 * 4) / 7])


def test_the_positive_part_of_noise_is_small_for_many_weights() -> None:
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(60, 100_000, generator=generator)
    found = [max(0.0, *shares(noise[:number])) for number in range(20, 60, 10)]
    assert max(found) < 1e-3


def test_kappa_is_at_most_n() -> None:
    """A pull of kappa/N = 1 is all the way to the anchor."""
    options = AdaptiveOptions(kappa_min=5.0, kappa_max=9.0, warmup_updates=1)
    estimate = KappaEstimate(options, updates_per_sync=2)
    for _ in range(13):
        estimate.advance(lambda: torch.tensor([0.0]))
    assert (estimate.kappas, estimate.strengths) == ([2.0], [1.0])
