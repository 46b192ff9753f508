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

*Polyak targets*, theta <- theta + tau (w - theta) every P updates: N = P/tau, and with a steady
drift the left side of (*) is, with e = exp(-kappa tau),

    (1 - e) / (kappa (1 - (1 - tau) e))                     (tau -> 0: 1/(1 + kappa))

*The signal-to-noise ratio.* Let a coordinate's gradient have mean s and variance sigma^2,
independent between updates. Adam's bias-corrected moments m and v then have, after t updates, the
expectations

    E m^2 = s^2 + b sigma^2,   E v = s^2 + sigma^2,
    b = (1 - beta1)/(1 + beta1) (1 + beta1^t)/(1 - beta1^t)                (0.0526 for large t)

so that with sums over coordinates the share of signal rho = sum s^2 / sum (s^2 + sigma^2) is

    rho = (sum m^2 - b sum v) / ((1 - b) sum v)

Over N updates the signal adds up to N s and the noise to sqrt(N) sigma: r = N rho / (1 - rho).

*Measurements below zero count as zero.* In training sum m^2 is often below b sum v: weights that
oscillate give gradients of opposite directions some updates apart. On MinAtar Asterix the mean of
rho with its sign is negative from about 60,000 steps on (`python -m benchmarks.signal`), and kappa
would stay at its upper bound. The mean of the positive parts is the signal of those updates that
show some. It is a heuristic: for noise alone it is near zero only if the noise has many independent
directions (docs/rules.md, "What is known and what is not").

What this leaves out: Adam's division by sqrt(v), gradients that correlate from one update to the
next (a replay's batches overlap), signal that turns within N updates, and that a pull of kappa/N
per update keeps a little more than (1 - exp(-kappa))/kappa where N is small.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from proxrl.config import AdaptiveOptions
from proxrl.types import State

if TYPE_CHECKING:
    from proxrl.proximal.rules.base import Moments

MOST_RATIO, LEAST_RATIO = 1e9, 1e-9  # of signal to noise, for the solver's sake
ITERATIONS = 20
BISECTIONS = 60
MEASURE_PERIOD = 10  # updates: Adam's mean forgets in 1 / (1 - beta1) = 10


def noise_ratio(beta_1: float, steps: Tensor) -> Tensor:
    """b, the expectation of m^2 / v for noise alone after this many steps."""
    grown = share_of_past(beta_1, steps)
    return (1.0 - beta_1) / (1.0 + beta_1) * (2.0 - grown) / grown


def share_of_past(beta: float, steps: Tensor) -> Tensor:
    """1 - beta^t, Adam's bias correction; in single precision accurate where it is small."""
    return -torch.expm1(steps * math.log(beta))


def signal_shares(moments: "Moments", together: bool) -> Tensor:
    """rho of all weights, [1], or of each parameter tensor, [parameters]."""
    mean, square = moments.mean, moments.square
    if not together:
        mean, square = [[*moments.views(one).values()] for one in (mean, square)]
    return shares_of(mean, square, moments.steps[0], moments.betas, together)


def shares_of(
    mean: list[Tensor],
    square: list[Tensor],
    steps: Tensor,
    betas: tuple[float, float],
    together: bool,
) -> Tensor:
    """rho from Adam's moments, which it corrects: of all tensors, [1], or of each, [tensors].

    `steps` that each tensor has taken, [tensors], or all, []. An estimate: outside of [0, 1] by
    chance, and 0 where all gradients were zero. One step tells nothing (b = 1) and does not count.
    """
    beta_1, beta_2 = betas
    device = mean[0].device
    squared_means = torch.stack([norm.to(device) for norm in torch._foreach_norm(mean)]).square()
    squares = torch.stack([one.sum().to(device) for one in square])
    squared_means = squared_means / share_of_past(beta_1, steps).square()
    squares = torch.where(steps > 1, squares / share_of_past(beta_2, steps), 0.0)
    noise = noise_ratio(beta_1, steps)
    signal = torch.where(steps > 1, squared_means - noise * squares, 0.0)
    total = (1.0 - noise) * squares
    if together:
        signal, total = signal.sum(0, keepdim=True), total.sum(0, keepdim=True)
    return torch.where(total > 0, signal / total, 0.0)


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


def polyak_kappa_for(ratio: Tensor, tau: float) -> Tensor:
    """The same for a target that moves by a share tau < 1: bisection between the solutions for
    tau -> 0 and tau = 1, because the share that is kept grows with tau and falls with kappa."""
    ratio = ratio.double().clamp(LEAST_RATIO, MOST_RATIO)
    low, high = 1.0 / ratio, kappa_for(ratio)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        left = torch.exp(-middle * tau)
        kept = -torch.expm1(-middle * tau) / (middle * (1.0 - (1.0 - tau) * left))
        too_small = kept > ratio / (1.0 + ratio)
        low, high = torch.where(too_small, middle, low), torch.where(too_small, high, middle)
    return (low + high) / 2.0


def kappa_of(share: Tensor, updates_per_sync: float, tau: float = 1.0) -> Tensor:
    """kappa from the share of signal rho and N; tau is the share by which the target moves."""
    ratio = signal_to_noise(share, updates_per_sync)
    return kappa_for(ratio) if tau == 1.0 else polyak_kappa_for(ratio, tau)


class KappaEstimate:
    """kappa of each part of the weights, in the course of training.

    Every 10 updates the share of signal rho is measured and its positive part enters a running
    mean; every N updates kappa is set from this mean and stays until the next time. In the learner,
    a device is waited for once in N updates.
    """

    def __init__(self, options: AdaptiveOptions, updates_per_sync: float, tau: float = 1.0) -> None:
        self.options = options
        self.updates_per_sync = updates_per_sync
        self.tau = tau
        self._period = max(1, round(updates_per_sync))
        self._updates = 0
        self._shares: Tensor | None = None  # running sum, [parts]
        self._weight = 0.0  # of the measurements in it
        self.kappas: list[float] = []  # of each part; empty: no pull yet
        self.signals: list[float] = []

    @property
    def strengths(self) -> list[float]:
        """kappa/N, the pull per update of each part, whatever the learning rate."""
        return [kappa / self.updates_per_sync for kappa in self.kappas]

    def advance(self, measure: Callable[[], Tensor | None]) -> None:
        """Before the pull of an update; `measure` returns rho of each part, [parts], or None if
        there are no moments yet."""
        if self.options.kappa_max > 0.0:
            if self._updates % self._period == 0 and self._shares is not None:
                self._set_kappas(self._shares)
            if self._updates % MEASURE_PERIOD == 0 and self._updates >= self.options.warmup_updates:
                self._add(measure())
        self._updates += 1

    def _add(self, now: Tensor | None) -> None:
        """Measurements below zero count as zero; those that are not finite (a diverged run) leave
        the mean as it is."""
        if now is None:
            return
        past = self.options.smoothing
        old = torch.zeros_like(now) if self._shares is None else self._shares.to(now.device)
        mean = old / self._weight if self._weight else old
        now = torch.where(now.isfinite(), now.clamp(min=0.0), mean)
        self._shares = past * old + (1.0 - past) * now
        self._weight = past * self._weight + (1.0 - past)

    def _set_kappas(self, shares: Tensor) -> None:
        """kappa is at most N: a pull of 1 is all the way to the anchor."""
        signal = (shares.cpu().double() / self._weight).clamp(0.0, 1.0)
        self.signals = signal.tolist()
        self.kappas = self._bounded(kappa_of(signal, self.updates_per_sync, self.tau))

    def _bounded(self, kappa: Tensor) -> list[float]:
        most = min(self.options.kappa_max, self.updates_per_sync)
        bounded: list[float] = kappa.clamp(min(self.options.kappa_min, most), most).tolist()
        return bounded

    def state(self) -> State:
        """What the next update depends on."""
        shares = {} if self._shares is None else {"shares": self._shares}
        return {
            "updates": self._updates,
            "weight": self._weight,
            "kappas": [*self.kappas],
            "signals": [*self.signals],
            **shares,
        }

    def load(self, state: State) -> None:
        """Continue where `state` was taken; its kappas are brought within the bounds of now."""
        self._updates, self._weight = state["updates"], state["weight"]
        self.kappas = self._bounded(torch.tensor(state["kappas"], dtype=torch.float64))
        self.signals = [*state["signals"]]
        self._shares = state.get("shares")
