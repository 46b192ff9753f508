"""The proximal term in value space (appendix)."""

import math

from torch import Tensor, nn

from proxrl.proximal.rules.base import Rule
from proxrl.types import Batch


class Values(Rule):
    """(1/c) mean (Q(s, a; w) - Q(s, a; theta))^2, over the action taken or all of a state's.

    Q is the expected return for either head, so that c has the same unit; of noisy layers it is
    the mean. Every state counts alike, also those of a prioritised batch.
    """

    def penalty(self, online: nn.Module, target: nn.Module, batch: Batch) -> Tensor | None:
        if math.isinf(self.c):
            return None
        anchored = target(batch.states).detach()  # [batch, actions]; computed as the online values,
        away: Tensor = online(batch.states) - anchored  # so that equal networks have no penalty
        if self.config.proximal.actions == "taken":
            away = away.gather(1, batch.actions[:, None])
        return away.square().mean() / self.c
