"""Proximal rules, which keep w near theta: the paper's pull and its alternatives.

| rule       | update                                         | place in the paper      |
|------------|------------------------------------------------|-------------------------|
| parameters | w <- w + (alpha/c)(theta - w), outside Adam    | Algorithm 1, line 11    |
| gradient   | grad h + (w - theta)/c, rescaled by Adam       | equation 6 as a loss    |
| values     | h + (1/c) mean (Q(s, a; w) - Q(s, a; theta))^2 | appendix, "value space" |

A rule overrides the hooks it needs: on the loss, the gradient, the weights, or at a sync. To use a
custom rule, register it or set `proximal.rule` to `module:Rule`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.plugins import imported
from proxrl.proximal.pull import pull_, pull_strength
from proxrl.types import Batch, State


class Rule:
    """The hooks of a rule; this one does nothing (plain DQN)."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.c = config.c

    def penalty(self, online: nn.Module, target: nn.Module, batch: Batch) -> Tensor | None:
        """A term added to the loss."""
        return None

    def change_gradient(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        """Called after the backward pass, before the optimizer step."""

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        """Called after `change_gradient`, before the optimizer step with learning rate `rate`."""

    def synced(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        """Called after the target network changed."""

    def state(self) -> State:
        """Tensors and plain values that updates depend on besides weights and config."""
        return {}

    def load(self, state: State) -> None:
        """Restore `state`."""


class Parameters(Rule):
    """The paper's pull, decoupled from the optimizer step."""

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        pull_(weights, anchor, pull_strength(rate, self.c))


class Gradient(Rule):
    """Adds grad of (1/2c) ||w - theta||^2 to that of the loss, so that Adam rescales both.

    A coefficient k of the squared distance corresponds to c = 1/(2k). The authors' nu multiplies
    half of it (TensorFlow's l2_loss), so c = 1/nu: 0.005 is c = 200 (docs/fidelity.md, 30).
    """

    @torch.no_grad()
    def change_gradient(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        if math.isinf(self.c):
            return
        pairs = zip(weights, anchor, strict=True)
        moving = [(w, w.grad, theta) for w, theta in pairs if w.grad is not None]
        away = torch._foreach_sub([w for w, _, _ in moving], [theta for _, _, theta in moving])
        torch._foreach_add_([grad for _, grad, _ in moving], away, alpha=1.0 / self.c)


class Values(Rule):
    """(1/c) mean (Q(s, a; w) - Q(s, a; theta))^2, over the action taken or all actions.

    Q is the expected return for either head, so that c has the same unit; noisy layers use their
    mean. All states have the same weight, also in a prioritised batch.
    """

    def penalty(self, online: nn.Module, target: nn.Module, batch: Batch) -> Tensor | None:
        if math.isinf(self.c):
            return None
        with torch.no_grad():
            anchored = target(batch.states)  # [batch, actions]
        away: Tensor = online(batch.states) - anchored
        if self.config.proximal.actions == "taken":
            away = away.gather(1, batch.actions[:, None])
        return away.square().mean() / self.c


_rules: dict[str, Callable[[RunConfig], Rule]] = {
    "parameters": Parameters,
    "gradient": Gradient,
    "values": Values,
}


def register_rule(name: str, rule: Callable[[RunConfig], Rule]) -> None:
    """Register `rule(config) -> Rule` under a name for `proximal.rule`."""
    _rules[name] = rule


def make_rule(config: RunConfig) -> Rule:
    """The configured rule."""
    name = config.proximal.rule
    if name in _rules:
        return _rules[name](config)
    if ":" in name:
        kind = imported(name, "proximal.rule")
        if not (isinstance(kind, type) and issubclass(kind, Rule)):
            raise UserError(f"proximal.rule {name} is not a subclass of proxrl.proximal.rules.Rule")
        return kind(config)
    known = ", ".join(_rules)
    raise UserError(f"unknown proximal.rule {name}: choose from {known}, or pass module:Rule")
