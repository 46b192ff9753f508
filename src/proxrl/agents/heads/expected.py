"""The expected return: one number per action, with the squared TD error of the paper.

h(theta, w) = mean_B ( r + gamma max_a' Q(s', a'; theta) - Q(s, a; w) )^2       (equation 5)
"""

import torch
from torch import Tensor, nn

from proxrl.agents.heads.base import Loss, addresses, are_compiled, at_action, of_action
from proxrl.native import functions
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
        """`values` of one state on arrays: outputs [actions, 1] to [actions]."""
        return lambda outputs: outputs[:, 0]

    def targets(self, batch: Batch, next_outputs: Tensor, chooser: Tensor | None = None) -> Tensor:
        """y = r + gamma max_a' Q(s', a'; theta), [batch].

        `next_outputs` are the target network's. With `chooser`, the online network's values
        [batch, actions], these select the action (double DQN).
        """
        numbers = (next_outputs, batch.returns, batch.discounts)
        if chooser is None and are_compiled(numbers):
            return _compiled_targets(batch, next_outputs)
        if chooser is None:
            bootstrap = next_outputs.amax(dim=1)
        else:
            bootstrap = of_action(next_outputs, chooser.argmax(dim=1))
        return torch.addcmul(batch.returns, batch.discounts, bootstrap)

    def loss(self, outputs: Tensor, actions: Tensor, targets: Tensor) -> Loss:
        """Squared as in the paper (no factor 1/2), or Huber with threshold 1: e^2/2, and |e| - 1/2
        where |e| > 1. With its derivative d = clip(e, -1, 1), both are d (e - d/2)."""
        if targets.dim() == 1 and are_compiled((outputs, targets), actions):
            return _compiled_loss(outputs, actions, targets, self.loss_name == "huber")
        values = of_action(outputs, actions)
        errors = values - targets
        if self.loss_name == "squared":
            losses, slopes = errors.square(), errors + errors
        else:
            slopes = errors.clamp(-1.0, 1.0)
            losses = slopes * torch.sub(errors, slopes, alpha=0.5)
        gradients = at_action(slopes / len(errors), actions, outputs)
        return Loss(losses, gradients, values, errors.abs())


def _compiled_targets(batch: Batch, next_values: Tensor) -> Tensor:
    """With the bits of PyTorch's, as is the loss."""
    targets = torch.empty_like(batch.returns)
    tensors = (next_values, batch.returns, batch.discounts, targets)
    functions().td_targets(*next_values.shape, *addresses(*tensors))
    return targets


def _compiled_loss(values: Tensor, actions: Tensor, targets: Tensor, huber: bool) -> Loss:
    found, gradients = values.new_empty(3, values.shape[0]), torch.empty_like(values)
    read, written = addresses(values, actions, targets), addresses(found, gradients)
    functions().td_loss(*values.shape, *read, huber, *written)
    losses, of_taken, priorities = found.unbind()
    return Loss(losses, gradients, of_taken, priorities)
