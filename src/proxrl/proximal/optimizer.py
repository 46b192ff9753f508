"""The pull around any `torch.optim` optimizer.

    optimizer = Proximal(torch.optim.Adam(online.parameters(), 1e-4), target, c=0.2)

`step()` uses the existing gradients (taken at w), pulls w towards the anchor, then calls the inner
optimizer. With c = inf it is bit-identical to the inner optimizer. Each parameter group is pulled
with its own *current* learning rate over c, so schedulers act on the pull as well.

The pull skips whatever the inner optimizer skips: parameters without a gradient, and steps skipped
by a `GradScaler`. Clipped or sparse gradients do not affect the pull, which moves the whole weight
towards its anchor.

c = "adaptive" sets the pull itself, from the moments of Adam or AdamW (proximal/kappa.py):

    optimizer = Proximal(adam, target, c="adaptive", updates_per_sync=250)

Each update then pulls by kappa/N, whatever the learning rate; N = `updates_per_sync`.
"""

import copy
import dataclasses
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

from proxrl.config import AdaptiveOptions
from proxrl.config.options import check_options
from proxrl.errors import UserError
from proxrl.proximal import anchor as anchors
from proxrl.proximal.anchor import Anchor
from proxrl.proximal.kappa import KappaEstimate
from proxrl.proximal.moments import betas_of, signal_share
from proxrl.proximal.pull import distance, pull_, pull_per_sync, pull_strength

ADAPTIVE = "adaptive"


def only_if_adaptive(adaptive: AdaptiveOptions | None, c: float | str | None) -> None:
    """Raise if options are given that c does not use."""
    if adaptive is not None and not isinstance(adaptive, AdaptiveOptions):
        raise TypeError(f"adaptive must be AdaptiveOptions(...), got {adaptive!r}")
    if adaptive is not None and c != ADAPTIVE:
        raise ValueError(f"adaptive is only for c = {ADAPTIVE!r}, and c is {c}")


def _is_in(value: object, low: float, high: float) -> bool:
    """Whether this is a finite number in [low, high]."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    return low <= float(value) <= high and math.isfinite(value)


class Proximal(Optimizer):
    """An `Optimizer` without parameter groups or state of its own: it uses the inner optimizer's.

    `anchor` is the target network, or its parameters in the order of the optimizer's, or a callable
    that returns either and is called at each step (for a target network created or replaced later).

    `updates_per_sync`, the steps between two target syncs, is needed for c = "adaptive" and for
    `kappa`. For Polyak targets, which move by a share `tau` of the way, pass `tau` and as updates
    per sync the steps between two moves divided by it. `adaptive` are the bounds, smoothing and
    warm-up of kappa.
    """

    inner: Optimizer
    updates_per_sync: float | None
    tau: float
    adaptive: AdaptiveOptions
    _anchor: anchors.Source
    _c: float | str
    _estimate: KappaEstimate | None  # None: c is a number
    _checked: tuple[list[Tensor], list[Tensor], list[Any]]  # last checked: see _anchor_weights

    def __init__(
        self,
        inner: Optimizer,
        anchor: Anchor,
        c: float | str,
        *,
        updates_per_sync: float | None = None,
        tau: float = 1.0,
        adaptive: AdaptiveOptions | None = None,
    ) -> None:
        if not isinstance(inner, Optimizer):
            kind = type(inner).__name__
            raise TypeError(f"{kind} is not an optimizer: pass for example torch.optim.Adam(...)")
        if updates_per_sync is not None and not _is_in(updates_per_sync, 1.0, math.inf):
            raise ValueError(f"updates_per_sync must be at least 1, got {updates_per_sync!r}")
        if not _is_in(tau, 0.0, 1.0) or tau == 0.0:
            raise ValueError(f"tau must be in (0, 1], got {tau!r}")
        only_if_adaptive(adaptive, c)
        if isinstance(inner, torch.optim.LBFGS):
            raise ValueError("LBFGS is not supported: it evaluates the loss several times per step")
        if isinstance(inner, Proximal):
            raise ValueError("the optimizer is already a Proximal: it would pull twice")
        adaptive = adaptive or AdaptiveOptions()
        try:
            check_options(adaptive, "")
        except UserError as error:
            raise ValueError(str(error)) from None
        self.__setstate__(
            {
                "inner": inner,
                "updates_per_sync": updates_per_sync,
                "tau": float(tau),
                "adaptive": adaptive,
                "_anchor": anchors.source(anchor),
            }
        )
        self.c = c
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

    @property
    def c(self) -> float | str:
        """c-tilde, or "adaptive"; may be changed during training."""
        return self._c

    @c.setter
    def c(self, value: float | str) -> None:
        if not isinstance(value, numbers.Real) and value != ADAPTIVE:
            raise TypeError(f"c must be a number or {ADAPTIVE!r}, got {value!r}")
        if value != ADAPTIVE:
            pull_strength(0.0, float(value))  # c > 0
            self._estimate = None
        elif self._estimate is None:
            if self.updates_per_sync is None:
                raise ValueError(
                    f"c = {ADAPTIVE!r} needs updates_per_sync, the steps between syncs"
                )
            betas_of(self.inner)  # raises if it is not Adam
            self._estimate = KappaEstimate(self.adaptive, self.updates_per_sync, self.tau)
        self._c = value

    @property
    def kappa(self) -> float | None:
        """The current pull per sync, of the first parameter group if c is a number; None if
        `updates_per_sync` was not given."""
        if self._estimate is not None:
            return self._estimate.kappas[0] if self._estimate.kappas else 0.0
        if self.updates_per_sync is None:
            return None
        return pull_per_sync(
            float(self._c), float(self.param_groups[0]["lr"]), self.updates_per_sync
        )

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
        if self._estimate is not None:
            betas = betas_of(self.inner)
            self._estimate.advance(lambda: signal_share(self.inner, betas))
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
        """The inner optimizer's, which can load it, plus c and what "adaptive" has measured."""
        state = {**self.inner.state_dict(), "proximal_c": self.c}
        if self._estimate is not None:
            state["proximal_adaptive"] = {
                "updates_per_sync": self.updates_per_sync,
                "tau": self.tau,
                "options": dataclasses.asdict(self.adaptive),
                "state": self._estimate.state(),
            }
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Also accepts the inner optimizer's, which leaves c unchanged. An adaptive optimizer keeps
        its own options and updates per sync."""
        state = dict(state_dict)
        c, saved = state.pop("proximal_c", self.c), state.pop("proximal_adaptive", None)
        if c != ADAPTIVE:
            pull_strength(0.0, c)  # c > 0
        self.inner.load_state_dict(state)
        if saved is not None and self._estimate is None:
            self.updates_per_sync = saved["updates_per_sync"]
            self.tau = saved.get("tau", 1.0)
            self.adaptive = AdaptiveOptions(**saved["options"])
        self.c = c
        if saved is not None and self._estimate is not None:
            self._estimate.load(saved["state"])

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
            rates = [float(group["lr"]) for group in self.param_groups]
        except KeyError:
            kind = type(self.inner).__name__
            raise ValueError(f"{kind} has no learning rate 'lr', which lr/c needs") from None
        if self._estimate is None:
            return [pull_strength(rate, float(self._c)) for rate in rates]
        strength = next(iter(self._estimate.strengths), 0.0)
        return [strength if rate else 0.0 for rate in rates]

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]

    def _anchor_weights(self, weights: list[Tensor]) -> list[Tensor]:
        """The current anchor, checked again if tensors were replaced, changed dtype, were frozen or
        unfrozen, or c became finite."""
        anchor = anchors.read(self._anchor)
        pulls = [self._pulls, *((w.requires_grad, w.dtype) for w in weights)]
        pulls += [getattr(fixed, "dtype", None) for fixed in anchor]
        seen_weights, seen_anchor, seen_pulls = self._checked
        same = anchors.same(anchor, seen_anchor) and anchors.same(weights, seen_weights)
        if not (same and pulls == seen_pulls):
            anchors.check(weights, anchor)
            if self._pulls:
                anchors.check_precision(weights)
            self._checked = (weights, anchor, pulls)
        return anchor

    @property
    def _pulls(self) -> bool:
        return self._estimate is not None or math.isfinite(float(self._c))

    # ------------------------------------------------------------------------- copies, pickles

    def __getstate__(self) -> dict[str, Any]:
        names = ("inner", "updates_per_sync", "tau", "adaptive", "_anchor", "_c", "_estimate")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also used as constructor: torch's `__init__` would create groups and state."""
        state = {
            "updates_per_sync": None,
            "tau": 1.0,
            "adaptive": AdaptiveOptions(),
            "_c": state.get("c", math.inf),  # as proxrl 0.1 pickled it
            "_estimate": None,
            **{name: value for name, value in state.items() if name != "c"},
        }
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
