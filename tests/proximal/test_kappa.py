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
from proxrl.proximal.kappa import (
    kappa_for,
    kappa_of,
    moment_ratios,
    noise_ratio,
    signal_share,
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
    """N = 250: rho = 0.01 gives r = 250/99 = 2.525; the ratio of moments is rho + b (1 - rho)."""
    b = noise_ratio(BETA_1)
    assert b == pytest.approx(0.1 / 1.9)
    ratios = torch.tensor([0.01 + b * 0.99, b, b / 2, 1.0, 1.5], dtype=torch.float64)
    share = signal_share(ratios, b)
    assert share.tolist() == pytest.approx([0.01, 0.0, 0.0, 1.0, 1.0])
    assert number(signal_to_noise(share, 250)[0]) == pytest.approx(250 / 99)
    kappa = number(kappa_of(share[:1], 250))
    assert kept(kappa) == pytest.approx((250 / 99) / (1 + 250 / 99))


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
    ratios = moment_ratios(moments_after(gradients), together)
    return signal_share(ratios, noise_ratio(BETA_1)).tolist()


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
