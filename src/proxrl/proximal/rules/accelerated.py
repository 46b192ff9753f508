"""The pull towards an extrapolated anchor (Nesterov's acceleration; the paper's future work).

At sync k the target is theta_k = w_k. The paper's pull then goes towards theta_k; this one towards

    y_k     = w_k + m_k (w_k - w_{k-1})                 w_k: the weights at sync k
    m_k     = min((t_{k-1} - 1) / t_k, momentum_max)    0, 0.28, 0.43, 0.53, ... towards 1
    t_k     = (1 + sqrt(1 + 4 t_{k-1}^2)) / 2,  t_0 = 1

Only the anchor of the pull is extrapolated; the target network, from which values are bootstrapped,
stays w_k, so that without a pull nothing changes.

The monitor, after Li and Lin (2015): if h(y_k) > h(w_k) on a fixed batch, the anchor is theta_k as
in the paper, and the momentum starts again (t_k = 1). The batch is the first one after the previous
sync, the same for both losses.

By the pull alone w approaches y_k, not w_k: where w_k - w_{k-1} is constant, it grows from a share
(1 - exp(-kappa))/kappa of plain DQN's (0.63 at kappa = 1) to (exp(kappa) - 1)/kappa (1.72), the
limit for m = 1.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.config import AcceleratedOptions, RunConfig
from proxrl.proximal.pull import pull_, pull_strength
from proxrl.proximal.rules.base import Rule
from proxrl.types import Batch, State

FIELDS = ("states", "actions", "returns", "discounts", "next_states", "weights")  # of a batch
NO_INDICES = np.empty(0, np.int64)  # priorities are not updated


class Accelerated(Rule):
    """An update costs what the paper's pull costs; a sync two losses of a batch more."""

    Options = AcceleratedOptions
    group = "accelerated"
    needs_syncs = True
    options: AcceleratedOptions

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._acts = math.isfinite(self.c) and self.options.momentum_max > 0.0
        self._t = 1.0
        self.momentum = 0.0  # m_k; 0: the anchor is theta_k
        self.rejected = False  # the monitor rejected y_k
        self._anchor: list[Tensor] = []  # y_k
        self._synced: list[Tensor] = []  # w_k; empty before the first sync
        self._batch: Batch | None = None  # the monitor's

    def penalty(self, online: nn.Module, target: nn.Module, batch: Batch) -> Tensor | None:
        if self._batch is None and self._acts and self.options.monitored:
            self._batch = _copy(batch)
        return None

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        towards = self._anchor if self.momentum > 0.0 else anchor
        pull_(weights, towards, pull_strength(rate, self.c))

    @torch.no_grad()
    def synced(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        if not self._acts:
            return
        before, self._t = self._t, (1.0 + math.sqrt(1.0 + 4.0 * self._t**2)) / 2.0
        self.momentum = min((before - 1.0) / self._t, self.options.momentum_max)
        self.rejected = False
        if self.momentum > 0.0:
            extrapolated = torch._foreach_lerp(self._synced, anchor, 1.0 + self.momentum)
            torch._foreach_copy_(self._anchor, extrapolated)
            self.rejected = self._batch is not None and self._is_worse(weights, self._batch)
        if self.rejected:
            self._t, self.momentum = 1.0, 0.0
        if not self._synced:
            self._synced = [theta.clone() for theta in anchor]
            self._anchor = [theta.clone() for theta in anchor]  # unused before the next sync
        torch._foreach_copy_(self._synced, anchor)
        self._batch = None

    def _is_worse(self, weights: list[Tensor], batch: Batch) -> bool:
        """h(y_k) > h(w_k); also if it is not a number."""
        plain = self.loss(batch)
        own = [weight.clone() for weight in weights]
        torch._foreach_copy_(weights, self._anchor)
        extrapolated = self.loss(batch)
        torch._foreach_copy_(weights, own)
        return not bool(extrapolated <= plain)

    def metrics(self) -> Mapping[str, Tensor | float]:
        return {"momentum": self.momentum, "rejected": float(self.rejected)}

    def state(self) -> State:
        state: State = {
            "t": self._t,
            "momentum": self.momentum,
            "rejected": self.rejected,
            **self.saved("anchor", self._anchor),
            **self.saved("synced", self._synced),
        }
        if self._batch is not None:
            fields = self._batch._asdict()
            state |= {f"batch.{name}": fields[name] for name in FIELDS if fields[name] is not None}
        return state

    def load(self, state: State) -> None:
        self._t, self.momentum, self.rejected = state["t"], state["momentum"], state["rejected"]
        self._anchor, self._synced = self.restored("anchor", state), self.restored("synced", state)
        device = self.moments.mean[0].device
        fields = {name: state[f"batch.{name}"] for name in FIELDS if f"batch.{name}" in state}
        tensors = {name: tensor.to(device) for name, tensor in fields.items()}
        self._batch = Batch(**tensors, indices=NO_INDICES) if tensors else None


def _copy(batch: Batch) -> Batch:
    """A copy, contiguous, as it also comes back from a checkpoint."""
    tensors = {name: value for name, value in batch._asdict().items() if name in FIELDS}
    copies = {
        name: value if value is None else value.clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    return Batch(**copies, indices=NO_INDICES)
