"""The expected return: one number per action, with the squared TD error of the paper.

h(theta, w) = mean_B ( r + gamma max_a' Q(s', a'; theta) - Q(s, a; w) )^2       (equation 5)
"""

import torch
from torch import Tensor, nn

from proxrl.agents.heads.base import Loss, of_action
from proxrl.types import ArrayFunction, Batch


class Expected(nn.Module):
    """Outputs are action values, [batch, actions]."""

    size = 1  # numbers per action
    advice = "start a new run with a smaller learning rate, the Huber loss, or clipped rewards"

    def __init__(self, loss: str) -> None:
        super().__init__()
        self.loss_name = loss

    def values(self, outputs: Tensor) -> Tensor:
        """Q(s, .), [batch, actions]."""
        return outputs

    def of_state(self) -> ArrayFunction:
        """`values` of one state in NumPy: outputs [actions, 1] to [actions]."""
        return lambda outputs: outputs[:, 0]

    def targets(self, batch: Batch, next_outputs: Tensor, chooser: Tensor | None = None) -> Tensor:
        """y = r + gamma max_a' Q(s', a'; theta), [batch].

        `next_outputs` are the target network's. With `chooser`, the online network's values
        [batch, actions], these select the action (double DQN).
        """
        if chooser is None:
            bootstrap = next_outputs.amax(dim=1)
        else:
            bootstrap = of_action(next_outputs, chooser.argmax(dim=1))
        return torch.addcmul(batch.returns, batch.discounts, bootstrap)

    def loss(self, outputs: Tensor, actions: Tensor, targets: Tensor) -> Loss:
        """Squared as in the paper (no factor 1/2), or Huber with threshold 1: e^2/2, and |e| - 1/2
        where |e| > 1. With its derivative d = clip(e, -1, 1), both are d (e - d/2)."""
        values = of_action(outputs, actions)
        errors = values - targets
        if self.loss_name == "squared":
            losses, slopes = errors.square(), errors + errors
        else:
            slopes = errors.clamp(-1.0, 1.0)
            losses = slopes * torch.sub(errors, slopes, alpha=0.5)
        return Loss(losses, slopes / len(errors), values, errors.abs())
