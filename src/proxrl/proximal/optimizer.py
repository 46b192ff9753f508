"""The pull around any `torch.optim` optimizer.

    optimizer = Proximal(torch.optim.Adam(online.parameters(), 1e-4), target, c=0.2)

`step()` uses the existing gradients (taken at w), pulls w towards the anchor, then calls the inner
optimizer. With c = inf it is bit-identical to the inner optimizer. Each parameter group is pulled
with its own *current* learning rate over c, so schedulers act on the pull as well.

The pull skips whatever the inner optimizer skips: parameters without a gradient, and steps skipped
by a `GradScaler`. Clipped or sparse gradients do not affect the pull, which moves the whole weight
towards its anchor.
"""

import copy
import math
import numbers
from collections.abc import Callable
from itertools import compress
from types import FunctionType
from typing import Any, Self, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from proxrl.proximal import anchor as anchors
from proxrl.proximal.anchor import Anchor
from proxrl.proximal.pull import distance, pull_, pull_strength


class Proximal(Optimizer):
    """An `Optimizer` without parameter groups or state of its own: it uses the inner optimizer's.

    `anchor` is the target network, or its parameters in the order of the optimizer's, or a callable
    that returns either and is called at each step (for a target network created or replaced later).
    """

    inner: Optimizer
    c: float
    _anchor: anchors.Source
    _checked: tuple[list[Tensor], list[Tensor], list[Any]]  # last checked: see _anchor_weights

    def __init__(self, inner: Optimizer, anchor: Anchor, c: float) -> None:
        if not isinstance(inner, Optimizer):
            kind = type(inner).__name__
            raise TypeError(f"{kind} is not an optimizer: pass for example torch.optim.Adam(...)")
        if not isinstance(c, numbers.Real):
            raise TypeError(f"c must be a number, got {c!r}")
        if isinstance(inner, torch.optim.LBFGS):
            raise ValueError("LBFGS is not supported: it evaluates the loss several times per step")
        if isinstance(inner, Proximal):
            raise ValueError("the optimizer is already a Proximal: it would pull twice")
        self.__setstate__({"inner": inner, "c": c, "_anchor": anchors.source(anchor)})
        self._strengths()
        if isinstance(anchor, nn.Module) or not callable(anchor):
            self._anchor_weights(self._weights())

    # Looked up, not copied: the inner optimizer's `load_state_dict` replaces them.

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.inner.state

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Gradient at w, then w <- w + (lr/c)(anchor - w), then the inner step."""
        loss = None
        if closure is not None:  # evaluated once, before the pull: the gradient is taken at w
            with torch.enable_grad():
                loss = closure()
        self._pull()
        self.inner.step()
        return loss

    # Otherwise torch would wrap this step as well as the inner one, and hooks would run twice.
    step.hooked = True  # type: ignore[attr-defined]

    def register_step_pre_hook(self, hook: Any) -> RemovableHandle:
        """Registered on the inner optimizer: runs between the pull and the step."""
        return self.inner.register_step_pre_hook(hook)

    def register_step_post_hook(self, hook: Any) -> RemovableHandle:
        """Registered on the inner optimizer: runs after the step."""
        return self.inner.register_step_post_hook(hook)

    def register_state_dict_pre_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        return self.inner.register_state_dict_pre_hook(*args, **kwargs)

    def register_state_dict_post_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        return self.inner.register_state_dict_post_hook(*args, **kwargs)

    def register_load_state_dict_pre_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        return self.inner.register_load_state_dict_pre_hook(*args, **kwargs)

    def register_load_state_dict_post_hook(self, *args: Any, **kwargs: Any) -> RemovableHandle:
        return self.inner.register_load_state_dict_post_hook(*args, **kwargs)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none)

    def distance(self) -> float:
        """Current ||w - anchor||_2 over trained parameters; frozen ones do not count."""
        weights = self._weights()
        anchor = self._anchor_weights(weights)
        trained = [number for number, weight in enumerate(weights) if weight.requires_grad]
        return distance([weights[n] for n in trained], [anchor[n] for n in trained])

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's, which can load it, plus c."""
        return {**self.inner.state_dict(), "proximal_c": self.c}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Also accepts the inner optimizer's, which leaves c unchanged."""
        state = dict(state_dict)
        c = state.pop("proximal_c", self.c)
        pull_strength(0.0, c)  # c > 0
        self.inner.load_state_dict(state)
        self.c = c

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.inner.add_param_group(param_group)

    # ------------------------------------------------------------------------------- the pull

    def _pull(self) -> None:
        strengths = self._strengths()
        if not any(strengths):
            return
        weights = self._weights()
        anchor = self._anchor_weights(weights)
        start = 0
        for group, strength in zip(self.param_groups, strengths, strict=True):
            own = group["params"]
            fixed = anchor[start : start + len(own)]
            start += len(own)
            moving = [weight.grad is not None for weight in own]
            if all(moving):
                pull_(own, fixed, strength)
            elif any(moving):
                pull_(list(compress(own, moving)), list(compress(fixed, moving)), strength)

    def _strengths(self) -> list[float]:
        """Current lr/c of each group; raises before any weight changes if one exceeds 1."""
        try:
            return [pull_strength(float(group["lr"]), self.c) for group in self.param_groups]
        except KeyError:
            kind = type(self.inner).__name__
            raise ValueError(f"{kind} has no learning rate 'lr', which lr/c needs") from None

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]

    def _anchor_weights(self, weights: list[Tensor]) -> list[Tensor]:
        """The current anchor, checked again if tensors were replaced, changed dtype, were frozen or
        unfrozen, or c became finite."""
        anchor = anchors.read(self._anchor)
        pulls = [math.isfinite(self.c), *((w.requires_grad, w.dtype) for w in weights)]
        pulls += [getattr(fixed, "dtype", None) for fixed in anchor]
        seen_weights, seen_anchor, seen_pulls = self._checked
        same = anchors.same(anchor, seen_anchor) and anchors.same(weights, seen_weights)
        if not (same and pulls == seen_pulls):
            anchors.check(weights, anchor)
            if math.isfinite(self.c):
                anchors.check_precision(weights)
            self._checked = (weights, anchor, pulls)
        return anchor

    # ------------------------------------------------------------------------- copies, pickles

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner, "c": self.c, "_anchor": self._anchor}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also used as constructor: torch's `__init__` would create groups and state."""
        super().__setstate__(
            {**state, "defaults": state["inner"].defaults, "_checked": ([], [], [])}
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Deep copy whose anchor is the copied anchor, when both are copied together."""
        if isinstance(self._anchor, FunctionType):
            raise TypeError(
                "cannot copy a Proximal whose anchor is a function: the copy would be pulled to "
                "the original target; pass the module, or a method of the copied object"
            )
        duplicate = type(self).__new__(type(self))
        memo[id(self)] = duplicate  # first: the owner of the anchor method may hold this optimizer
        duplicate.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return duplicate
