"""The pull in a diagonal metric: the Mahalanobis distance of the paper's Section 3.

With f(w) = <w, D w>/2 as the generator of the Bregman divergence, the proximal term is
(1/2c) (w - theta)^T D (w - theta), and the pull, decoupled from Adam as in Algorithm 1,

    w <- w + (alpha/c) D (theta - w),        D = diag(d),  d_i = v_i^p / <v^p>

v are Adam's second moments, the running mean of the squared gradient. p = 1/2 is the metric in
which Adam itself takes its steps, p = 1 the diagonal of the empirical Fisher matrix, p = 0 the
paper's pull. <.> is the mean over parameters weighted by how far Adam moves them: by the square
u = v/(sqrt(v) + epsilon)^2 of a step whose gradient is as large as usual. With <d> = 1 the squared
displacement ||w - theta||^2 of small kappa shrinks as in the paper's pull, and kappa keeps its
meaning; a mean over all parameters would count those that hardly move. No coordinate overshoots its
anchor: (alpha/c) d_i <= 1; <d> is then smaller, and `rule/kappa` says by how much.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from proxrl.config import MetricOptions, RunConfig
from proxrl.proximal.kappa import share_of_past
from proxrl.proximal.pull import pull_, pull_strength
from proxrl.proximal.rules.base import Rule
from proxrl.types import State

TINY = torch.finfo(torch.float32).tiny


class Metric(Rule):
    """D is set at each sync and constant until the next; before the first it is the identity.

    For Polyak targets N = 1/tau updates take the place of a period.
    """

    Options = MetricOptions
    group = "metric"
    options: MetricOptions

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        rates = config.learner.learning_rate, config.learner.annealed_rate or 0.0
        self._largest = self.c / max(rates)  # (alpha/c) d = 1
        self._acts = math.isfinite(self.c) and self.options.power > 0.0
        self._period = max(1, round(config.updates_per_sync))
        self._updates = 0
        self.metric: list[Tensor] = []  # d; empty: the identity
        self._strengths: list[Tensor] = []  # (alpha/c) d
        self._rate: float | None = None  # alpha of the strengths
        self._metrics: dict[str, Tensor | float] = {"kappa": config.pull_per_sync}

    @torch.no_grad()
    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        if self._acts and self._updates and self._updates % self._period == 0:
            self._measure()
        self._updates += 1
        strength = pull_strength(rate, self.c)
        if not self.metric:
            pull_(weights, anchor, strength)
            return
        if rate != self._rate:
            self._strengths, self._rate = list(torch._foreach_mul(self.metric, strength)), rate
        torch._foreach_lerp_(weights, anchor, self._strengths)

    def _measure(self) -> None:
        """d from Adam's moments of now; 0 where every gradient was 0, or so long ago that Adam has
        flushed its moments."""
        parts = zip(self.moments.square, self.moments.steps, strict=True)
        moved = [self._squared_steps(square, steps) for square, steps in parts]
        powers = torch._foreach_pow(self.moments.square, self.options.power)
        scale = _sum(moved) / _sum(torch._foreach_mul(moved, powers)).clamp_min(TINY)
        self.metric, self._rate = [(p * scale).clamp_max_(self._largest) for p in powers], None
        mean = _sum(torch._foreach_mul(moved, self.metric)) / _sum(moved).clamp_min(TINY)
        squares = torch.stack(torch._foreach_norm(self.metric)).square().sum()
        evenness = _sum(self.metric).square() / (self._parameters * squares).clamp_min(TINY)
        self._metrics = {"kappa": self.config.pull_per_sync * mean, "evenness": evenness}

    def _squared_steps(self, square: Tensor, steps: Tensor) -> Tensor:
        """u; Adam's bias correction of v scales its epsilon."""
        corrected = share_of_past(self.moments.betas[1], steps).sqrt()
        roots = square.sqrt()
        return (roots / (roots + self.config.learner.adam_epsilon * corrected + TINY)).square()

    @property
    def _parameters(self) -> int:
        """Their number, without the padding of the vectors, whose v is 0."""
        return sum(view.numel() for view in self.moments.views(self.moments.square).values())

    def metrics(self) -> Mapping[str, Tensor | float]:
        return self._metrics

    def state(self) -> State:
        return {
            "updates": self._updates,
            **{f"logged.{name}": value for name, value in self._metrics.items()},
            **self.saved("metric", self.metric),
        }

    def load(self, state: State) -> None:
        self._updates = state["updates"]
        device = self.moments.mean[0].device
        for name in ("kappa", "evenness"):
            if isinstance(value := state.get(f"logged.{name}"), Tensor):
                self._metrics[name] = value.to(device)
        self.metric, self._rate = self.restored("metric", state), None


def _sum(vectors: Sequence[Tensor]) -> Tensor:
    return torch.stack([vector.sum() for vector in vectors]).sum()
