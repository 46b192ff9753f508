"""The pull with a kappa that follows the gradient's signal-to-noise ratio (proximal/kappa.py).

The paper proposes it as future work (appendix, after Figure 11): "adaptively choosing c would
provide us with even more reliable improvements ... a promising idea would be to hinge on the
variance of our gradient updates". The formula is proxrl's own; no study has tested it yet.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from proxrl.config import AdaptiveOptions, RunConfig
from proxrl.proximal.kappa import kappa_of, moment_ratios, noise_ratio, signal_share
from proxrl.proximal.pull import pull_
from proxrl.proximal.rules.base import Rule
from proxrl.types import State

MEASURE_PERIOD = 10  # updates: Adam's mean forgets in 1 / (1 - beta1) = 10


class Adaptive(Rule):
    """One kappa for all weights, set at each sync and constant until the next.

    Every 10 updates the ratio sum m^2 / sum v of Adam's moments is measured and enters a running
    mean; a sync turns this mean into the share of signal rho, and rho into kappa. For Polyak
    targets, which have no syncs, N = 1/tau updates take the place of a period. A device is waited
    for once per sync.
    """

    options: AdaptiveOptions

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._updates = 0
        self._period = max(1, round(config.updates_per_sync))
        self._ratios: Tensor | None = None  # running sum, [parts]
        self._weight = 0.0  # of the measurements in it
        self.kappas: list[float] = []  # of each part; empty: no pull yet
        self.signals: list[float] = []

    @classmethod
    def read_options(cls, config: RunConfig) -> AdaptiveOptions:
        return config.proximal.adaptive

    @torch.no_grad()
    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        if self.options.kappa_max > 0.0:
            if self._updates % self._period == 0 and self._ratios is not None:
                self._set_kappas(self._ratios)
            if self._updates % MEASURE_PERIOD == 0 and self._updates >= self.options.warmup_updates:
                self._measure()
        self._updates += 1
        if self.kappas:
            self.pull(weights, anchor, [self.strength(kappa, rate) for kappa in self.kappas])

    def measured(self) -> Tensor:
        """sum m^2 / sum v of each part of the weights, now; here of all together, [1]."""
        return moment_ratios(self.moments, together=True)

    def pull(self, weights: list[Tensor], anchor: list[Tensor], strengths: list[float]) -> None:
        """Pull each part of the weights by its own strength."""
        pull_(weights, anchor, strengths[0])

    def _measure(self) -> None:
        past, now = self.options.smoothing, self.measured()
        old = torch.zeros_like(now) if self._ratios is None else self._ratios.to(now.device)
        self._ratios = past * old + (1.0 - past) * now
        self._weight = past * self._weight + (1.0 - past)

    def _set_kappas(self, ratios: Tensor) -> None:
        mean = ratios.cpu().double() / self._weight
        signal = signal_share(mean, noise_ratio(self.moments.betas[0]))
        signal = signal.nan_to_num(1.0)  # a diverged run, which the learner reports: no pull
        kappa = kappa_of(signal, self.config.updates_per_sync)
        self.signals = signal.tolist()
        self.kappas = kappa.clamp(self.options.kappa_min, self.options.kappa_max).tolist()

    def metrics(self) -> Mapping[str, Tensor | float]:
        if not self.kappas:
            return {"kappa": 0.0}
        return {"kappa": self.kappas[0], "signal": self.signals[0]}

    def state(self) -> State:
        ratios = {} if self._ratios is None else {"ratios": self._ratios}
        return {
            "updates": self._updates,
            "weight": self._weight,
            "kappas": [*self.kappas],
            "signals": [*self.signals],
            **ratios,
        }

    def load(self, state: State) -> None:
        self._updates, self._weight = state["updates"], state["weight"]
        self.kappas, self.signals = [*state["kappas"]], [*state["signals"]]
        self._ratios = state.get("ratios")
