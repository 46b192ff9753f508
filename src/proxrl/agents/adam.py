"""Adam (Kingma & Ba 2015) as one call of torch's fused kernel.

The same bits as `torch.optim.Adam(fused=True)`, without what an optimizer object costs per step: a
sixth of a MinAtar update.
"""

from typing import NamedTuple

import torch
from torch import Tensor

BETA_1, BETA_2 = 0.9, 0.999


class Moments(NamedTuple):
    """What Adam remembers of one weight."""

    mean: Tensor  # of the gradient, decaying
    square: Tensor  # of its square
    step: Tensor  # how often it was updated, a scalar


class Adam:
    """The moments of some weights, and the step that uses them."""

    def __init__(self, weights: list[Tensor], epsilon: float) -> None:
        self._weights = weights
        self._epsilon = epsilon
        self.moments = [
            Moments(torch.zeros_like(w), torch.zeros_like(w), torch.zeros((), device=w.device))
            for w in (weight.detach() for weight in weights)
        ]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """w <- w - alpha mean / (sqrt(square) + epsilon), the moments corrected for their start."""
        pairs = zip(self._weights, self.moments, strict=True)
        moving = [(w, w.grad, moments) for w, moments in pairs if w.grad is not None]
        steps = [moments.step for _, _, moments in moving]
        torch._foreach_add_(steps, 1.0)
        torch._fused_adam_(
            [weight for weight, _, _ in moving],
            [gradient for _, gradient, _ in moving],
            [moments.mean for _, _, moments in moving],
            [moments.square for _, _, moments in moving],
            [],
            steps,
            lr=learning_rate,
            beta1=BETA_1,
            beta2=BETA_2,
            weight_decay=0.0,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )
