"""A pull per sync from what Adam knows: the share of signal in the gradient.

*How much of a displacement to keep.* Between two syncs, N updates apart, w moves by a signal (the
mean gradient) and by noise (of the minibatches). Of a steady displacement the pull keeps

    (1 - exp(-kappa)) / kappa                                              (0.63 at kappa = 1)

The best linear estimate of a displacement of signal-to-noise ratio r (in squares) keeps r/(1+r) of
what is seen. Setting both equal gives kappa:

    (1 - exp(-kappa)) / kappa = r / (1 + r)                                (*)

Since 1/(1 + kappa/2) >= (1 - exp(-kappa))/kappa >= 1 - kappa/2, the solution lies between 2/(1+r)
and 2/r, and it is below 1 + 1/r. A clear signal gives kappa = 2/(1+r), near 0; noise alone none
that is finite, so a rule needs a largest kappa.

*The signal-to-noise ratio.* Let a coordinate's gradient have mean s and variance sigma^2,
independent between updates. Adam's bias-corrected moments m and v then have the expectations

    E m^2 = s^2 + b sigma^2,   E v = s^2 + sigma^2,   b = (1 - beta1)/(1 + beta1) = 0.0526

so that with sums over coordinates the share of signal rho = sum s^2 / sum (s^2 + sigma^2) is

    rho = (sum m^2 / sum v - b) / (1 - b)

Over N updates the signal adds up to N s and the noise to sqrt(N) sigma: r = N rho / (1 - rho).

What this leaves out: Adam's division by sqrt(v), gradients that correlate from one update to the
next (a replay's batches overlap), and signal that turns within N updates.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from proxrl.proximal.rules.base import Moments

MOST_RATIO, LEAST_RATIO = 1e9, 1e-9  # of signal to noise, for the solver's sake
ITERATIONS = 20


def noise_ratio(beta_1: float) -> float:
    """b, what sum m^2 / sum v is for noise alone."""
    return (1.0 - beta_1) / (1.0 + beta_1)


def moment_ratios(moments: "Moments", together: bool) -> Tensor:
    """sum m^2 / sum v with bias-corrected moments: of all weights, [1], or of each parameter
    tensor, [parameters]. Where all gradients were zero: b."""
    mean, square = moments.mean, moments.square
    if not together:
        mean, square = [[*moments.views(one).values()] for one in (mean, square)]
    squared_means = torch.stack(torch._foreach_norm(mean)).square()
    squares = torch.stack(torch._foreach_norm(square, 1))
    if together:
        squared_means, squares = squared_means.sum(0, keepdim=True), squares.sum(0, keepdim=True)
    (beta_1, beta_2), steps = moments.betas, moments.steps[0]
    corrected = (1.0 - beta_2**steps) / (1.0 - beta_1**steps).square()
    ratios = squared_means / squares * corrected
    return torch.where(squares > 0, ratios, torch.full_like(ratios, noise_ratio(beta_1)))


def signal_share(ratio: Tensor, noise: float) -> Tensor:
    """rho in [0, 1] from sum m^2 / sum v; `noise` is b."""
    return ((ratio - noise) / (1.0 - noise)).clamp(0.0, 1.0)


def signal_to_noise(share: Tensor, updates: float) -> Tensor:
    """r = N rho / (1 - rho) over N updates; infinite for signal alone."""
    return updates * share / (1.0 - share)


def kappa_for(ratio: Tensor) -> Tensor:
    """kappa of equation (*) for a signal-to-noise ratio r >= 0; 1e9 for r = 0.

    Newton's method on g(kappa) = 1 - exp(-kappa) - kappa r/(1+r), which is concave and positive
    between 0 and the solution: from an upper bound it falls to the solution monotonically.
    """
    ratio = ratio.double().clamp(LEAST_RATIO, MOST_RATIO)
    kept = ratio / (1.0 + ratio)
    kappa = torch.minimum(2.0 / ratio, 1.0 + 1.0 / ratio)
    for _ in range(ITERATIONS):
        value = -torch.expm1(-kappa) - kept * kappa
        kappa = kappa - value / (torch.exp(-kappa) - kept)
    return kappa


def kappa_of(share: Tensor, updates_per_sync: float) -> Tensor:
    """kappa from the share of signal rho and N."""
    return kappa_for(signal_to_noise(share, updates_per_sync))
