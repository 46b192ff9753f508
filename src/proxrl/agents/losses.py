"""The temporal-difference objective as pure functions (equation 5 of the paper).

h(theta, w) = mean_B ( r + gamma max_a' Q(s', a'; theta) - Q(s, a; w) )^2
"""

import torch
from torch import Tensor
from torch.nn import functional

from proxrl.types import Batch


def td_targets(batch: Batch, next_values: Tensor, chooser_values: Tensor | None = None) -> Tensor:
    """y = r + gamma max_a' Q(s', a'; theta), [batch].

    `next_values` are the target network's [batch, actions]; with `chooser_values`, the online
    network's, the action is theirs (double DQN).
    """
    if chooser_values is None:
        bootstrap = next_values.amax(dim=1)
    else:
        choices = chooser_values.argmax(dim=1, keepdim=True)
        bootstrap = next_values.gather(1, choices).squeeze(1)
    return torch.addcmul(batch.returns, batch.discounts, bootstrap)


def td_loss(values: Tensor, targets: Tensor, kind: str) -> Tensor:
    """Loss of each transition, [batch]: squared as in the paper, or Huber with threshold 1."""
    if kind == "squared":
        return functional.mse_loss(values, targets, reduction="none")
    return functional.huber_loss(values, targets, reduction="none")
