"""The moments of a `torch.optim` Adam or AdamW, for kappa of the drop-in (proximal/kappa.py).

amsgrad, AdamW's weight decay and `maximize` do not change what the moments are; Adam's weight decay
is part of its gradient, and so of the signal. Parameters may have taken different numbers of steps;
those without a gradient now do not count.
"""

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from proxrl.proximal.kappa import shares_of


def signal_share(optimizer: Optimizer, betas: tuple[float, float]) -> Tensor | None:
    """rho over all parameters, [1]; None before the first step."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    moving = [weight for weight in weights if weight.grad is not None]
    states = [optimizer.state[weight] for weight in moving if weight in optimizer.state]
    states = [state for state in states if "exp_avg" in state]
    if not states:
        return None
    mean, square = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
    device = mean[0].device
    steps = torch.stack([state["step"].to(device) for state in states])
    return shares_of(mean, square, steps, betas, together=True)


def betas_of(optimizer: Optimizer) -> tuple[float, float]:
    """Adam's betas; raises unless its moments tell signal from noise."""
    if not isinstance(optimizer, Adam | AdamW):
        kind = type(optimizer).__name__
        raise ValueError(f"c = 'adaptive' needs torch.optim.Adam or AdamW, not {kind}")
    first, *others = [group["betas"] for group in optimizer.param_groups]
    if any(other != first for other in others):
        raise ValueError("c = 'adaptive' needs the same betas in all parameter groups")
    beta_1, beta_2 = map(float, first)
    if not 0.0 < beta_1 < 1.0:
        raise ValueError(f"c = 'adaptive' needs Adam's beta1 in (0, 1), got {beta_1:g}")
    return beta_1, beta_2
