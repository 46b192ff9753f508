"""The paper's update, on its own.

    w  <-  (1 - alpha/c) w + (alpha/c) theta  -  alpha * grad h(w)        (Section 4; Algorithm 1)
           `-------------- pull_ ----------'     `-- any optimizer --'

`w` are the online weights, `theta` the target's (the *anchor*), alpha the learning rate and c the
paper's c-tilde, the one new hyper-parameter. c = inf is no pull at all: plain DQN. The gradient is
taken at `w` *before* the pull; the pull is decoupled from the optimizer and its state.

Because c has no intuitive unit, it can also be given as the *pull per sync*

    kappa = (alpha/c) * (updates between two target syncs)

By the pull alone, the distance to the anchor shrinks to about exp(-kappa) between two syncs, so a
good kappa carries over between domains with other rates and periods.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def pull_(weights: Sequence[Tensor], anchor: Sequence[Tensor], strength: float) -> None:
    """w <- w + strength (theta - w), in place; strength = alpha/c lies in [0, 1]."""
    if strength > 0.0:
        torch._foreach_lerp_(list(weights), list(anchor), strength)


@torch.no_grad()
def distance(weights: Sequence[Tensor], anchor: Sequence[Tensor]) -> float:
    """||w - theta||_2 over all parameters together."""
    if not weights:
        return 0.0
    differences = torch._foreach_sub(list(weights), list(anchor))
    norms = torch._foreach_norm(differences)
    device = norms[0].device
    return float(torch.linalg.vector_norm(torch.stack([norm.to(device) for norm in norms])))


def pull_strength(learning_rate: float, c: float) -> float:
    """alpha/c, the fraction of the distance to the anchor covered by one update."""
    if not c > 0.0:
        raise ValueError(f"c must be positive (inf switches the pull off), got {c}")
    strength = learning_rate / c
    if not strength >= 0.0:
        raise ValueError(f"the learning rate must be non-negative, got {learning_rate}")
    if strength > 1.0:
        raise ValueError(
            f"lr/c = {learning_rate:g}/{c:g} = {strength:g} would overshoot the anchor: "
            f"choose c >= {learning_rate:g}"
        )
    return strength


def c_from_pull_per_sync(
    pull_per_sync: float, learning_rate: float, updates_per_sync: float
) -> float:
    """The c that gives this kappa; kappa = 0 gives c = inf."""
    if not (pull_per_sync >= 0.0 and math.isfinite(pull_per_sync)):
        raise ValueError(f"the pull per sync must be finite and non-negative, got {pull_per_sync}")
    if not learning_rate * updates_per_sync > 0.0:
        raise ValueError(
            f"c is undefined for a learning rate of {learning_rate:g} and {updates_per_sync:g} "
            "updates per sync: pass c instead of pull_per_sync"
        )
    if pull_per_sync == 0.0:
        return math.inf
    return learning_rate * updates_per_sync / pull_per_sync


def not_both(c: float | str | None, pull_per_sync: float | None) -> None:
    """Raise if both are given."""
    if c is not None and pull_per_sync is not None:
        raise ValueError(f"pass c = {c} or pull_per_sync = {pull_per_sync}, not both")


def pull_per_sync(c: float, learning_rate: float, updates_per_sync: float) -> float:
    """kappa of this c: 1.0 for the paper's DQN Pro (1e-4 / 0.2 x 2000 updates)."""
    return learning_rate / c * updates_per_sync
