"""The pull around any `torch.optim` optimizer.

    optimizer = Proximal(torch.optim.Adam(online.parameters(), 1e-4), target.parameters(), c=0.2)

`step()` reads the gradients that are there (taken at w), pulls w towards the anchor, then lets the
inner optimizer step. With c = inf it is the inner optimizer, bit for bit. Each parameter group is
pulled by its own *current* learning rate over c, so schedulers act on the pull as well.
"""

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

from proxrl.proximal.pull import distance, pull_, pull_strength

Anchor = Iterable[Tensor] | Callable[[], Iterable[Tensor]]


class Proximal(Optimizer):
    """An `Optimizer` that shares the inner one's `param_groups` and state.

    `anchor` is the target network's parameters in the order of the optimizer's own, or a callable
    that returns them, read at each step (for a target network that is made or replaced later).
    """

    def __init__(self, inner: Optimizer, anchor: Anchor, c: float) -> None:
        if isinstance(inner, torch.optim.LBFGS):
            raise ValueError("LBFGS evaluates the loss many times per step: it has no single pull")
        pull_strength(0.0, c)  # c > 0, whatever the learning rate
        self.inner = inner
        self.c = c
        self._anchor = anchor if callable(anchor) else list(anchor)
        self._checked: tuple[int, ...] | None = None
        super().__init__(inner.param_groups, inner.defaults)
        self._share_with_inner()
        if not callable(anchor):
            self._anchor_weights()

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Gradient at w, then w <- w + (lr/c)(anchor - w), then the inner step."""
        loss = None
        if closure is not None:  # evaluated once, before the pull: the gradient belongs to w
            with torch.enable_grad():
                loss = closure()
        self._pull()
        self.inner.step()
        return loss

    def distance(self) -> float:
        """||w - anchor||_2 now."""
        return distance(self._weights(), self._anchor_weights())

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's, with c beside it."""
        return {**self.inner.state_dict(), "proximal_c": self.c}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        self.c = state.pop("proximal_c", self.c)
        self.inner.load_state_dict(state)
        self._share_with_inner()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)  # the list is the inner optimizer's own
        self._checked = None

    def _share_with_inner(self) -> None:
        """One `param_groups` and one state for both: a scheduler on either moves both."""
        self.param_groups = self.inner.param_groups
        self.state = self.inner.state

    def _pull(self) -> None:
        strengths = [pull_strength(float(group["lr"]), self.c) for group in self.param_groups]
        if not any(strengths):
            return
        anchor = self._anchor_weights()
        start = 0
        for group, strength in zip(self.param_groups, strengths, strict=True):
            # What the inner optimizer leaves alone (no gradient), the pull leaves alone.
            pairs = [
                (weight, anchor[start + offset])
                for offset, weight in enumerate(group["params"])
                if weight.grad is not None
            ]
            start += len(group["params"])
            if pairs:
                pull_([weight for weight, _ in pairs], [fixed for _, fixed in pairs], strength)

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]

    def _anchor_weights(self) -> list[Tensor]:
        """The anchor as a list, checked against the weights whenever its identity changes."""
        anchor = list(self._anchor()) if callable(self._anchor) else self._anchor
        identity = tuple(map(id, anchor))
        if identity != self._checked:
            _check_anchor(self._weights(), anchor)
            self._checked = identity
        return anchor


def _check_anchor(weights: list[Tensor], anchor: list[Tensor]) -> None:
    if len(weights) != len(anchor):
        raise ValueError(f"the optimizer has {len(weights)} parameters, the anchor {len(anchor)}")
    for number, (weight, fixed) in enumerate(zip(weights, anchor, strict=True)):
        if weight.shape != fixed.shape:
            raise ValueError(
                f"parameter {number} has shape {tuple(weight.shape)}, "
                f"its anchor {tuple(fixed.shape)}"
            )
        if weight.data_ptr() == fixed.data_ptr() and weight.numel() > 0:
            raise ValueError(f"parameter {number} is its own anchor: copy the target network")
        if fixed.requires_grad:
            raise ValueError(
                f"anchor {number} requires grad: call requires_grad_(False) on the target network"
            )
