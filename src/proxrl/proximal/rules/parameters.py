"""The paper's pull (Algorithm 1, line 11)."""

from torch import Tensor

from proxrl.proximal.pull import pull_, pull_strength
from proxrl.proximal.rules.base import Rule


class Parameters(Rule):
    """The paper's pull, decoupled from the optimizer's own step."""

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        pull_(weights, anchor, pull_strength(rate, self.c))
