"""The categorical distribution of returns (C51, Bellemare et al. 2017), as pure functions.

A return is one of `atoms` equally spaced values z_0 < ... < z_{N-1}, the *support*; a network
gives the logits of their probabilities. r + gamma z falls between atoms, so its probability is
shared by the two neighbours, in proportion to nearness:

    (Phi p)_i = sum_j max(0, 1 - |clip(r + gamma z_j, z_0, z_{N-1}) - z_i| / dz) p_j
"""

import torch
from torch import Tensor

from proxrl.types import Batch


def expected_values(logits: Tensor, support: Tensor) -> Tensor:
    """Q = sum_i z_i softmax(logits)_i, [...]; logits [..., atoms]."""
    return logits.softmax(dim=-1) @ support


def project(probabilities: Tensor, batch: Batch, support: Tensor) -> Tensor:
    """Phi of r + gamma z, [batch, atoms]: probabilities [batch, atoms] back on the support."""
    gap = support[1] - support[0]
    positions = torch.addcmul(batch.returns[:, None], batch.discounts[:, None], support)
    positions = positions.clamp(support[0], support[-1])  # [batch, from]
    shares = positions[:, None, :].sub(support[:, None])  # [batch, to, from]
    shares = shares.abs_().div_(-gap).add_(1.0).clamp_(min=0.0)
    return shares.mul_(probabilities[:, None, :]).sum(dim=2)


def cross_entropy(targets: Tensor, logits: Tensor) -> Tensor:
    """-sum_i targets_i log softmax(logits)_i, [batch]."""
    return -(targets * logits.log_softmax(dim=-1)).sum(dim=-1)
