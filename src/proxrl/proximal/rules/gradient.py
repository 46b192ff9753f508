"""The proximal term as a part of the loss (equation 6), which Adam rescales."""

import math

import torch
from torch import Tensor

from proxrl.proximal.rules.base import Rule


class Gradient(Rule):
    """grad of (1/2c) ||w - theta||^2 added to that of the loss, so that Adam rescales both.

    A coefficient k on the squared distance is c = 1/(2k). The authors' nu is on half of it
    (TensorFlow's l2_loss), so c = 1/nu: 0.005 is c = 200 (docs/fidelity.md, 30).
    """

    @torch.no_grad()
    def change_gradient(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        if math.isinf(self.c):
            return
        pairs = zip(weights, anchor, strict=True)
        moving = [(w, w.grad, theta) for w, theta in pairs if w.grad is not None]
        away = torch._foreach_sub([w for w, _, _ in moving], [theta for _, _, theta in moving])
        torch._foreach_add_([grad for _, grad, _ in moving], away, alpha=1.0 / self.c)
