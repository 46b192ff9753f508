"""One learner, every agent: DQN Pro (Algorithm 1 of the paper), DQN where c is infinite, Rainbow.

    sample B, compute grad_w h(w)                                        (line 10)
    w <- (1 - alpha/c) w + (alpha/c) theta - alpha grad_w h(w)           (line 11)
    theta <- w every `period`                                            (lines 13-15)

The optimizer is Adam, the pull decoupled from it (docs/fidelity.md, 1). What differs between agents
is a head, a target rule, a proximal rule and a step-size rule, all values of the config.
"""

import copy
import math
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from proxrl.agents.adam import Adam
from proxrl.agents.losses import objective
from proxrl.agents.networks import QNetwork
from proxrl.agents.noisy import draw_noise, noisy_layers, silent
from proxrl.config import RunConfig
from proxrl.errors import RunFailed
from proxrl.proximal import distance
from proxrl.proximal.rules import make_rule
from proxrl.types import Batch, State

PROBES_PER_SYNC = 10
ADVICE = {
    "expected": "start a new run with a smaller learning rate, the Huber loss, or clipped rewards",
    "categorical": "start a new run with a smaller learning rate, or clipped rewards",
}


class Probe(NamedTuple):
    """How far the online network is from the target, in weights and on a batch, in values.

    The first of those between two syncs is taken at the sync, where both are 0.
    """

    parameter_distance: float  # ||w - theta||
    value_distance: float  # mean |Q(s, a; w) - Q(s, a; theta)|


class Update(NamedTuple):
    """What one update tells the rest of the run."""

    loss: float  # h(w), before the step; weighted, if the batch was
    mean_value: float  # mean Q(s, a; w) of the batch
    priorities: Tensor  # of each transition, [batch]: |TD error|, or the cross-entropy
    probe: Probe | None  # taken a few times between two syncs
    sync_distance: float | None  # ||theta_new - theta_old||, if the target was synced


class Learner:
    """Online and target network, optimizer, and the rules that make the agent."""

    def __init__(
        self,
        network: QNetwork,
        config: RunConfig,
        device: torch.device,
        noise: np.random.Generator | None = None,
    ) -> None:
        self.online = network.to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.rule = make_rule(config)
        self.updates = 0
        self._weights: list[Tensor] = list(self.online.parameters())
        self._anchor: list[Tensor] = list(self.target.parameters())
        self._adam = Adam(self._weights, config.learner.adam_epsilon)
        self._config = config
        self._noise = noise or np.random.default_rng(config.seed)
        self._noisy = [noisy_layers(network) for network in (self.online, self.target)]
        self._updates_per_sync = max(1, round(config.updates_per_sync))
        self._probe_period = max(1, self._updates_per_sync // PROBES_PER_SYNC)

    def update(self, batch: Batch, proximal_batch: Batch | None = None) -> Update:
        """One pass of Algorithm 1's inner loop; a proximal rule may have a batch of its own."""
        config = self._config.learner
        for layers in self._noisy:
            draw_noise(layers, self._noise)
        losses, values, priorities = objective(
            self.online, self.target, batch, config.double, config.loss
        )
        loss = (losses if batch.weights is None else batch.weights * losses).mean()
        with self._without_noise():
            penalty = self.rule.penalty(self.online, self.target, proximal_batch or batch)

        for weight in self._weights:
            weight.grad = None
        (loss if penalty is None else loss + penalty).backward()
        probe = self._probe(batch)
        alpha = self.learning_rate
        self.rule.change_gradient(self._weights, self._anchor)
        self.rule.change_weights(self._weights, self._anchor, alpha)  # the proximal pull
        self._adam.step(alpha)
        self.updates += 1
        sync_distance = self._sync_target()

        return Update(
            loss=self._finite(loss.item(), values),
            mean_value=values.mean().item(),
            priorities=priorities,
            probe=probe,
            sync_distance=sync_distance,
        )

    def draw_noise(self) -> None:
        """New noise for the online network's noisy layers, if it has any: before each action."""
        draw_noise(self._noisy[0], self._noise)

    def _without_noise(self) -> AbstractContextManager[None]:
        """Both networks' means: at w = theta they agree, whatever their noise."""
        return silent([layer for layers in self._noisy for layer in layers])

    @property
    def learning_rate(self) -> float:
        """alpha, or what has become of it since the last sync if it falls to alpha' (Figure 6)."""
        alpha, last = self._config.learner.learning_rate, self._config.learner.annealed_rate
        if last is None:
            return alpha
        since_sync = self.updates % self._updates_per_sync
        return alpha + (last - alpha) * since_sync / max(1, self._updates_per_sync - 1)

    def _sync_target(self) -> float | None:
        """theta <- w when due, or theta <- tau w + (1 - tau) theta after every update."""
        report = self.updates % self._updates_per_sync == 0
        if self._config.target.rule == "polyak":
            tau = self._config.target.tau
            moved = tau * distance(self._weights, self._anchor) if report else None
            torch._foreach_lerp_(self._anchor, [weight.detach() for weight in self._weights], tau)
        elif report:
            moved = distance(self._weights, self._anchor)
            torch._foreach_copy_(self._anchor, [weight.detach() for weight in self._weights])
        else:
            return None
        self.rule.synced(self._weights, self._anchor)
        return moved

    @torch.no_grad()
    def _probe(self, batch: Batch) -> Probe | None:
        if self.updates % self._probe_period:
            return None
        with self._without_noise():
            away = self.online(batch.states) - self.target(batch.states)
        return Probe(
            parameter_distance=distance(self._weights, self._anchor),
            value_distance=away.gather(1, batch.actions[:, None]).abs().mean().item(),
        )

    def _finite(self, loss: float, values: Tensor) -> float:
        if math.isfinite(loss):
            return loss
        config, head = self._config.learner, self._config.head.kind
        kind = config.loss if head == "expected" else "cross-entropy"
        raise RunFailed(
            f"the loss became {loss} at update {self.updates} "
            f"(largest |Q| in the batch {values.abs().max().item():.3g}, "
            f"learning rate {config.learning_rate:g}, loss {kind}): {ADVICE[head]}"
        )

    # -------------------------------------------------------------------------------- checkpoints

    def state(self) -> State:
        """Copies of both networks, Adam's moments and the rule's state, by name; never of weights
        that are not finite."""
        if not math.isfinite(distance(self._weights, self._anchor)):
            advice = ADVICE[self._config.head.kind]
            raise RunFailed(f"the weights are not finite after update {self.updates}: {advice}")
        state: State = {f"online.{name}": t for name, t in self.online.state_dict().items()}
        state |= {f"target.{name}": t for name, t in self.target.state_dict().items()}
        state |= self._moments()
        state |= {f"rule.{name}": value for name, value in self.rule.state().items()}
        copies = {name: _copied(value) for name, value in state.items()}
        return {"updates": self.updates, **copies}

    def load(self, state: State) -> None:
        """Continue where `state()` was taken; a rule's arrays come back to it as tensors."""
        tensors = {
            name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            for name, value in state.items()
        }
        self.updates = state["updates"]
        self.online.load_state_dict(_below("online.", tensors))
        self.target.load_state_dict(_below("target.", tensors))
        for name, moment in self._moments().items():
            moment.copy_(tensors[name])
        self.rule.load(_below("rule.", tensors))

    def _moments(self) -> dict[str, Tensor]:
        """Adam's own tensors by the name of their weight."""
        names = [name for name, _ in self.online.named_parameters()]
        return {
            f"adam.{name}.{kind}": tensor
            for name, moments in zip(names, self._adam.moments, strict=True)
            for kind, tensor in moments._asdict().items()
        }


def _copied(value: Any) -> Any:
    return value.detach().to("cpu", copy=True) if isinstance(value, Tensor) else value


def _below(prefix: str, tensors: State) -> State:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
