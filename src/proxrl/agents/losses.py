"""The temporal-difference objective h as pure functions, for either head.

    h(theta, w) = mean_B ( r + gamma max_a' Q(s', a'; theta) - Q(s, a; w) )^2    (equation 5)

For the categorical head the squared error becomes the cross-entropy between the projected
distribution of r + gamma z(s', a*; theta) and that of z(s, a; w); a* is best in expectation.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from proxrl.agents.categorical import cross_entropy, expected_values, project
from proxrl.agents.networks import QNetwork
from proxrl.types import Batch


class Objective(NamedTuple):
    """What a batch says."""

    losses: Tensor  # of each transition, [batch]; h is their (weighted) mean
    values: Tensor  # Q(s, a; w), [batch], without gradient
    priorities: Tensor  # |TD error| or cross-entropy, [batch], without gradient


def objective(
    online: QNetwork, target: QNetwork, batch: Batch, double: bool, loss: str
) -> Objective:
    """The TD objective of the networks' head; `double` lets the online network choose a'."""
    if online.support is not None:
        return _categorical(online, target, batch, double, online.support)
    with torch.no_grad():
        chooser = online(batch.next_states) if double else None
        targets = td_targets(batch, target(batch.next_states), chooser)
    values = _of(online(batch.states), batch.actions)
    found = values.detach()
    return Objective(td_loss(values, targets, loss), found, (targets - found).abs())


def _categorical(
    online: QNetwork, target: QNetwork, batch: Batch, double: bool, support: Tensor
) -> Objective:
    with torch.no_grad():
        probabilities = target.outputs(batch.next_states).softmax(dim=-1)  # [batch, actions, atoms]
        chooser = online(batch.next_states) if double else probabilities @ support
        best = _of(probabilities, chooser.argmax(dim=1))
        targets = project(best, batch, support)
    logits = _of(online.outputs(batch.states), batch.actions)  # [batch, atoms]
    losses = cross_entropy(targets, logits)
    return Objective(losses, expected_values(logits.detach(), support), losses.detach())


def td_targets(batch: Batch, next_values: Tensor, chooser_values: Tensor | None = None) -> Tensor:
    """y = r + gamma max_a' Q(s', a'; theta), [batch].

    `next_values` are the target network's [batch, actions]; with `chooser_values`, the online
    network's, the action is theirs (double DQN).
    """
    if chooser_values is None:
        bootstrap = next_values.amax(dim=1)
    else:
        bootstrap = _of(next_values, chooser_values.argmax(dim=1))
    return torch.addcmul(batch.returns, batch.discounts, bootstrap)


def td_loss(values: Tensor, targets: Tensor, kind: str) -> Tensor:
    """Loss of each transition, [batch]: squared as in the paper, or Huber with threshold 1."""
    if kind == "squared":
        return functional.mse_loss(values, targets, reduction="none")
    return functional.huber_loss(values, targets, reduction="none")


def _of(outputs: Tensor, actions: Tensor) -> Tensor:
    """The entry of each transition's action: [batch, actions, ...] -> [batch, ...]."""
    if outputs.dim() == 2:
        return outputs.gather(1, actions[:, None]).squeeze(1)
    return outputs[torch.arange(len(actions), device=outputs.device), actions]
