"""The pull with a kappa that follows the gradient's signal-to-noise ratio (proximal/kappa.py).

The paper proposes it as future work (appendix, after Figure 11): "adaptively choosing c would
provide us with even more reliable improvements ... a promising idea would be to hinge on the
variance of our gradient updates". The formula is proxrl's own; its limits and what was seen are in
docs/rules.md.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from proxrl.config import AdaptiveOptions, RunConfig
from proxrl.proximal.kappa import KappaEstimate, signal_shares
from proxrl.proximal.pull import pull_
from proxrl.proximal.rules.base import Rule
from proxrl.types import State


class Adaptive(Rule):
    """One kappa for all weights, set at each sync and constant until the next.

    For Polyak targets, which have no syncs, N = 1/tau updates take the place of a period. The pull
    is kappa/N per update also while the learning rate changes: signal and noise change with it.
    """

    Options = AdaptiveOptions
    group = "adaptive"
    sets_kappa = True
    options: AdaptiveOptions

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        tau = config.target.tau if config.target.rule == "polyak" else 1.0
        self.estimate = KappaEstimate(self.options, config.updates_per_sync, tau)

    @torch.no_grad()
    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        self.estimate.advance(self.measured)
        if self.kappas:
            self.pull(weights, anchor, self.estimate.strengths)

    @property
    def kappas(self) -> list[float]:
        """kappa of each part of the weights; empty: no pull yet."""
        return self.estimate.kappas

    @property
    def signals(self) -> list[float]:
        """rho of each part."""
        return self.estimate.signals

    def measured(self) -> Tensor:
        """rho of each part of the weights, now; here of all together, [1]."""
        return signal_shares(self.moments, together=True)

    def pull(self, weights: list[Tensor], anchor: list[Tensor], strengths: list[float]) -> None:
        """Pull each part of the weights by its own strength."""
        pull_(weights, anchor, strengths[0])

    def metrics(self) -> Mapping[str, Tensor | float]:
        if not self.kappas:
            return {"kappa": 0.0}
        return {"kappa": self.kappas[0], "signal": self.signals[0]}

    def state(self) -> State:
        return self.estimate.state()

    def load(self, state: State) -> None:
        self.estimate.load(state)
