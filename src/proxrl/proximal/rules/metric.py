"""The pull in a diagonal metric: the Mahalanobis distance of the paper's Section 3.

With f(w) = <w, D w>/2 as the generator of the Bregman divergence, the proximal term is
(1/2c) (w - theta)^T D (w - theta), and the pull, decoupled from Adam as in Algorithm 1,

    w <- w + (alpha/c) D (theta - w),        D = diag(d),  d_i = v_i^p / mean(v^p)

v are Adam's second moments, the running mean of the squared gradient; their bias correction cancels
out. p = 1/2 is the metric in which Adam itself takes its steps, p = 1 the diagonal of the empirical
Fisher matrix, p = 0 the paper's pull. The mean of d over all parameters is 1, so that the mean pull
is alpha/c and kappa keeps its meaning. No coordinate overshoots its anchor: (alpha/c) d_i <= 1; the
mean is then smaller, and `rule/kappa` says by how much.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from proxrl.config import MetricOptions, RunConfig
from proxrl.proximal.pull import pull_, pull_strength
from proxrl.proximal.rules.base import Rule
from proxrl.types import State


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
            self._set_metric(self._measured())
        self._updates += 1
        strength = pull_strength(rate, self.c)
        if not self.metric:
            pull_(weights, anchor, strength)
            return
        if rate != self._rate:
            self._strengths, self._rate = list(torch._foreach_mul(self.metric, strength)), rate
        torch._foreach_lerp_(weights, anchor, self._strengths)

    def _measured(self) -> list[Tensor]:
        """d from Adam's moments of now; 0 where every gradient was 0, or so long ago that Adam has
        flushed its moments."""
        powers = torch._foreach_pow(self.moments.square, self.options.power)
        total = torch.stack([power.sum() for power in powers]).sum()
        scale = self._parameters / total.clamp_min(torch.finfo(total.dtype).tiny)
        return [(power * scale.to(power.dtype)).clamp_max_(self._largest) for power in powers]

    def _set_metric(self, metric: list[Tensor]) -> None:
        self.metric, self._rate = metric, None
        mean = torch.stack([part.sum() for part in metric]).sum() / self._parameters
        squares = torch.stack(torch._foreach_norm(metric)).square().sum() / self._parameters
        evenness = mean.square() / squares.clamp_min(torch.finfo(squares.dtype).tiny)
        self._metrics = {"kappa": self.config.pull_per_sync * mean, "evenness": evenness}

    @property
    def _parameters(self) -> int:
        """Their number, without the padding of the vectors, whose v is 0."""
        return sum(view.numel() for view in self.moments.views(self.moments.square).values())

    def metrics(self) -> Mapping[str, Tensor | float]:
        return self._metrics

    def state(self) -> State:
        return {"updates": self._updates, **self.saved("metric", self.metric)}

    def load(self, state: State) -> None:
        self._updates = state["updates"]
        metric = self.restored("metric", state)
        if metric:
            self._set_metric(metric)
