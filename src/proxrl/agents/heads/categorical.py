"""The distribution of returns over fixed atoms (C51, Bellemare et al. 2017).

A return is one of `atoms` equally spaced values z_0 < ... < z_{N-1}, the *support*; a network
outputs the logits of their probabilities. r + gamma z falls between atoms, so its probability is
split between the two neighbours by linear interpolation:

    (Phi p)_i = sum_j max(0, 1 - |clip(r + gamma z_j, z_0, z_{N-1}) - z_i| / dz) p_j

The squared error becomes the cross-entropy between Phi of z(s', a*; theta) and z(s, a; w); a* has
the largest expected return.
"""

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.agents.heads.base import Loss, addresses, are_compiled, at_action, of_action
from proxrl.native import Call, functions, library
from proxrl.types import Array, ArrayFunction, Batch


class Categorical(nn.Module):
    """Outputs are logits, [batch, actions, atoms]."""

    loss_name = "cross-entropy"
    advice = "start a new run with a smaller learning rate, or clipped rewards"
    support: Tensor

    def __init__(self, atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.size = atoms  # numbers per action
        self.register_buffer("support", torch.linspace(v_min, v_max, atoms), persistent=False)

    def values(self, outputs: Tensor) -> Tensor:
        """Q(s, .), [batch, actions]."""
        return expected_values(outputs, self.support)

    def of_state(self) -> ArrayFunction:
        """`values` of one state on arrays: logits [actions, atoms] to [actions]."""
        support = self.support.numpy()
        if library() is not None and self._fits():
            return _compiled_values(support)

        def values(logits: Array) -> Array:
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            found: Array = weights @ support
            found /= weights.sum(axis=1)
            return found

        return values

    def targets(self, batch: Batch, next_outputs: Tensor, chooser: Tensor | None = None) -> Tensor:
        """Phi of r + gamma z(s', a*; theta), [batch, atoms]; `chooser` as in `Expected`."""
        numbers = (next_outputs, batch.returns, batch.discounts)
        if chooser is None and self._fits(next_outputs) and are_compiled(numbers):
            return self._compiled_targets(batch, next_outputs)
        probabilities = next_outputs.softmax(dim=-1)
        if chooser is None:
            chooser = probabilities @ self.support
        best = of_action(probabilities, chooser.argmax(dim=1))
        return project(best, batch, self.support)

    def loss(self, outputs: Tensor, actions: Tensor, targets: Tensor) -> Loss:
        """The cross-entropy, whose gradient is softmax(logits) - targets."""
        if self._fits(outputs, targets) and are_compiled((outputs, targets), actions):
            return self._compiled_loss(outputs, actions, targets)
        log_probabilities = of_action(outputs, actions).log_softmax(dim=-1)
        losses = -(targets * log_probabilities).sum(dim=-1)
        probabilities = log_probabilities.exp()
        gradients = at_action((probabilities - targets) / len(losses), actions, outputs)
        return Loss(losses, gradients, probabilities @ self.support, losses)

    def _fits(self, *numbers: Tensor) -> bool:
        """Whether these and the support are as the compiled functions read them."""
        single = self.support.is_cpu and self.support.dtype == torch.float32
        return single and self.size > 1 and all(one.shape[-1] == self.size for one in numbers)

    def _compiled_targets(self, batch: Batch, next_logits: Tensor) -> Tensor:
        targets = next_logits.new_empty(next_logits.shape[0], self.size)
        scratch = next_logits.new_empty(2, self.size)
        read = (next_logits, batch.returns, batch.discounts, self.support)
        functions().categorical_targets(*next_logits.shape, *addresses(*read, scratch, targets))
        return targets

    def _compiled_loss(self, logits: Tensor, actions: Tensor, targets: Tensor) -> Loss:
        found, gradients = logits.new_empty(2, logits.shape[0]), torch.empty_like(logits)
        read = (logits, actions, targets, self.support)
        functions().categorical_loss(*logits.shape, *addresses(*read, found, gradients))
        losses, values = found.unbind()
        return Loss(losses, gradients, values, losses)


def _compiled_values(support: Array) -> ArrayFunction:
    """`Categorical.of_state`, compiled; for one thread."""
    calls: dict[tuple[int, ...], tuple[Array, Array, Call]] = {}

    def values(logits: Array) -> Array:
        if logits.shape[1:] != support.shape:
            raise ValueError(f"logits of {logits.shape[1:]} atoms, not {support.shape}")
        if logits.shape not in calls:
            rows, found = np.empty(logits.shape, np.float32), np.empty(len(logits), np.float32)
            scratch = np.empty(len(support), np.float32)
            arguments = (*logits.shape, rows, support, scratch, found)
            calls[logits.shape] = rows, found, Call(functions().categorical_values, *arguments)
        rows, found, call = calls[logits.shape]
        rows[:] = logits
        call()
        return found.copy()

    return values


def expected_values(logits: Tensor, support: Tensor) -> Tensor:
    """Q = sum_i z_i softmax(logits)_i, [...]; logits [..., atoms]."""
    return logits.softmax(dim=-1) @ support


def project(probabilities: Tensor, batch: Batch, support: Tensor) -> Tensor:
    """Phi of r + gamma z, [batch, atoms]: probabilities [batch, atoms] on the support."""
    gap = support[1] - support[0]
    positions = torch.addcmul(batch.returns[:, None], batch.discounts[:, None], support)
    positions = positions.clamp(support[0], support[-1])  # [batch, from]
    shares = positions[:, None, :].sub(support[:, None])  # [batch, to, from]
    shares = shares.abs_().div_(-gap).add_(1.0).clamp_(min=0.0)
    return shares.mul_(probabilities[:, None, :]).sum(dim=2)
