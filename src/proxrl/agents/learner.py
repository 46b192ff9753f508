"""One learner for all agents: DQN Pro (Algorithm 1 of the paper), DQN (c = inf), Rainbow.

    sample B, compute grad_w h(w)                                        (line 10)
    w <- (1 - alpha/c) w + (alpha/c) theta - alpha grad_w h(w)           (line 11)
    theta <- w every `period`                                            (lines 13-15)

The optimizer is Adam, the pull is decoupled from it (docs/fidelity.md, 1). Agents differ in head,
target rule, proximal rule and step-size rule, which are config values.
"""

import copy
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from proxrl.agents.adam import FLUSH_PERIOD, Adam
from proxrl.agents.heads import make_head
from proxrl.agents.networks import QNetwork
from proxrl.agents.noisy import draw_noise, noisy_layers, silent
from proxrl.agents.weights import Layout
from proxrl.config import RunConfig
from proxrl.errors import RunFailed
from proxrl.proximal.rules import Rule, make_rule
from proxrl.types import Batch, State

PROBES_PER_SYNC = 10


class Distances(NamedTuple):
    """Distance between online and target network, in weights and in values on a batch.

    The first one after a sync is taken at the sync itself, where both are 0.
    """

    parameters: Tensor  # ||w - theta||
    values: Tensor  # mean |Q(s, a; w) - Q(s, a; theta)|


class Update(NamedTuple):
    """Results of one update, as tensors, to avoid synchronizing with the device."""

    losses: Tensor  # [batch], before the step; weighted if the batch has weights
    values: Tensor  # [batch]: Q(s, a; w)
    priorities: Tensor  # [batch]: |TD error| or cross-entropy of each transition
    distances: Distances | None  # measured a few times between two syncs
    sync_distance: Tensor | None  # ||theta_new - theta_old||, if the target was synced
    rule: Mapping[str, Tensor | float]  # the proximal rule's own metrics

    @property
    def loss(self) -> Tensor:
        """h(w)."""
        return self.losses.mean()

    @property
    def mean_value(self) -> Tensor:
        return self.values.mean()


class Learner:
    """Online and target network, optimizer and rules."""

    def __init__(
        self,
        network: QNetwork,
        config: RunConfig,
        device: torch.device,
        noise: np.random.Generator | None = None,
        rule_generator: np.random.Generator | None = None,
    ) -> None:
        self.online = network.to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        layout = Layout(self.online)
        self.weights = layout.move_(self.online, with_gradient=True)  # w
        self.anchor = layout.move_(self.target, with_gradient=False)  # theta
        self.updates = 0
        self._adam = Adam(layout, config.learner.adam_epsilon)
        self.rule = make_rule(config)
        self.rule.moments = self._adam
        self.rule.loss = self.loss
        self._has_penalty = type(self.rule).penalty is not Rule.penalty
        self.rule.generator = rule_generator or np.random.default_rng(config.seed)
        self._head = make_head(config.head, config.learner.loss).to(device)
        self._config = config
        self._noise = noise or np.random.default_rng(config.seed)
        self._noisy = [noisy_layers(network) for network in (self.online, self.target)]
        self._updates_per_sync = max(1, round(config.updates_per_sync))
        self._probe_period = max(1, self._updates_per_sync // PROBES_PER_SYNC)

    @torch.no_grad()
    def update(self, batch: Batch, proximal_batch: Batch | None = None) -> Update:
        """One pass of Algorithm 1's inner loop; a proximal rule may use a separate batch."""
        for layers in self._noisy:
            draw_noise(layers, self._noise)
        with torch.inference_mode():  # less overhead per operation than no_grad
            targets = self._targets(batch)
            outputs, backward = self.online.with_backward(batch.states)
            found = self._head.loss(outputs, batch.actions, targets)
            losses, gradients = found.losses, found.gradients
            if batch.weights is not None:
                losses = batch.weights * losses
                gradients = gradients * batch.weights.view(-1, *[1] * (gradients.dim() - 1))
            backward(gradients)  # dh/dw
        if self._has_penalty:
            self._add_penalty(proximal_batch or batch)

        distances = self._distances(batch, outputs)
        alpha = self.learning_rate
        self.clip_gradient()
        self.rule.change_gradient(self.weights, self.anchor)
        self.rule.change_weights(self.weights, self.anchor, alpha)  # the proximal pull
        self._adam.step(self.weights, alpha)
        self.updates += 1
        if self.updates % FLUSH_PERIOD == 0:
            self._adam.flush()
        sync_distance = self._sync_target()

        return Update(
            losses,
            found.values,
            found.priorities,
            distances,
            sync_distance,
            self.rule.metrics(),
        )

    def clip_gradient(self) -> None:
        """Scale the gradient to `learner.max_gradient_norm` if it is longer (Pascanu et al. 2013),
        so far without the proximal term, except that of the rule `values`."""
        if self._config.learner.max_gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.weights, self._config.learner.max_gradient_norm)

    @torch.no_grad()
    def loss(self, batch: Batch) -> Tensor:
        """h(w) of a batch, without noise; changes nothing."""
        with self._without_noise():
            targets, outputs = self._targets(batch), self.online.outputs(batch.states)
        losses = self._head.loss(outputs, batch.actions, targets).losses
        return losses.mean() if batch.weights is None else (batch.weights * losses).mean()

    def _targets(self, batch: Batch) -> Tensor:
        """r + gamma max_a' Q(s', a'; theta), or its distribution; with double DQN, w selects a'."""
        chooser = self.online(batch.next_states) if self._config.learner.double else None
        return self._head.targets(batch, self.target.outputs(batch.next_states), chooser)

    def _add_penalty(self, batch: Batch) -> None:
        """Add the gradient of the proximal rule's loss term."""
        with torch.enable_grad(), self._without_noise():
            penalty = self.rule.penalty(self.online, self.target, batch)
            if penalty is not None:
                torch.autograd.backward(penalty)

    def draw_noise(self) -> None:
        """Draw new noise for the online network's noisy layers; called before each action."""
        draw_noise(self._noisy[0], self._noise)

    def _without_noise(self) -> AbstractContextManager[None]:
        """Use the means of both networks, which are equal at w = theta."""
        noisy = [layer for layers in self._noisy for layer in layers]
        return silent(noisy) if noisy else nullcontext()

    @property
    def learning_rate(self) -> float:
        """The current alpha; if annealed, it decays to alpha' between two syncs (Figure 6)."""
        alpha, last = self._config.learner.learning_rate, self._config.learner.annealed_rate
        if last is None:
            return scheduled_rate(self._config, self.updates)
        since_sync = self.updates % self._updates_per_sync
        return alpha + (last - alpha) * since_sync / max(1, self._updates_per_sync - 1)

    def _sync_target(self) -> Tensor | None:
        """theta <- w when due, or theta <- tau w + (1 - tau) theta after every update."""
        report = self.updates % self._updates_per_sync == 0
        if self._config.target.rule == "polyak":
            tau = self._config.target.tau
            moved = tau * self._distance() if report else None
            torch._foreach_lerp_(self.anchor, self.weights, tau)
        elif report:
            moved = self._distance()
            torch._foreach_copy_(self.anchor, self.weights)
        else:
            return None
        self.rule.synced(self.weights, self.anchor)
        return moved

    def _distance(self) -> Tensor:
        """||w - theta||."""
        apart = torch._foreach_sub(self.weights, self.anchor)
        distance: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(apart)))
        return distance

    def _distances(self, batch: Batch, outputs: Tensor) -> Distances | None:
        """`outputs` are the online network's for the batch, which noise makes useless here."""
        if self.updates % self._probe_period:
            return None
        with self._without_noise():
            noisy = bool(self._noisy[0])
            values = self.online(batch.states) if noisy else self._head.values(outputs)
            apart = values - self.target(batch.states)
        return Distances(
            parameters=self._distance(),
            values=apart.gather(1, batch.actions[:, None]).abs().mean(),
        )

    def require_finite(self, losses: list[float], mean_values: list[float]) -> None:
        """Raise `RunFailed` if a loss of the latest updates is not finite; may be called late."""
        for back, (loss, value) in enumerate(zip(losses, mean_values, strict=True)):
            if not math.isfinite(loss):
                raise RunFailed(
                    f"the loss became {loss} at update {self.updates - len(losses) + 1 + back} "
                    f"(mean Q of the batch {value:.3g}, learning rate {self.learning_rate:g}, "
                    f"loss {self._head.loss_name}): {self._head.advice}"
                )

    def require_finite_weights(self) -> None:
        """Raise `RunFailed` if a weight is not finite; before they are scored or saved."""
        if not math.isfinite(self._distance().item()):
            raise RunFailed(f"non-finite weights after update {self.updates}: {self._head.advice}")

    # -------------------------------------------------------------------------------- checkpoints

    def state(self) -> State:
        """Copies of both networks, Adam's moments and the rule's state, by name; `RunFailed` if the
        weights are not finite."""
        self.require_finite_weights()
        state: State = {f"online.{name}": t for name, t in self.online.state_dict().items()}
        state |= {f"target.{name}": t for name, t in self.target.state_dict().items()}
        state |= {f"adam.{name}": tensor for name, tensor in self._adam.state().items()}
        state |= {f"rule.{name}": value for name, value in self.rule.state().items()}
        copies = {name: _to_cpu(value) for name, value in state.items()}
        return {"updates": self.updates, **copies}

    def load(self, state: State) -> None:
        """Restore `state`; arrays of a rule are converted back to tensors."""
        tensors = {
            name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            for name, value in state.items()
        }
        self.updates = state["updates"]
        self.online.load_state_dict(_with_prefix("online.", tensors))
        self.target.load_state_dict(_with_prefix("target.", tensors))
        self._adam.load(_with_prefix("adam.", tensors))
        self.rule.load(_with_prefix("rule.", tensors))


def scheduled_rate(config: RunConfig, updates: int) -> float:
    """alpha after `updates` updates by `learner.rate_schedule`: a function of their number only, so
    that resuming is exact."""
    rules = config.learner
    if rules.rate_schedule == "constant":
        return rules.learning_rate
    steps = (rules.rate_schedule_steps or config.steps) - config.replay.warmup_steps
    total = steps // rules.update_period_steps * rules.updates_per_step
    done = min(1.0, updates / max(1, total))
    left = 1.0 - done if rules.rate_schedule == "linear" else (1.0 + math.cos(math.pi * done)) / 2
    return rules.final_rate + (rules.learning_rate - rules.final_rate) * left


def _to_cpu(value: Any) -> Any:
    """A copy: the checkpoint is written while training goes on."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {name: _to_cpu(one) for name, one in value.items()}
    return copy.deepcopy(value)


def _with_prefix(prefix: str, tensors: State) -> State:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
