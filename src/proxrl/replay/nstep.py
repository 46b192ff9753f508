"""n-step returns, computed when sampling, so that there is no window to save.

A transition from step t spans k steps, k = n or fewer where its episode ends:

    return   = sum_{j<k} gamma^j r_{t+j}
    discount = gamma^k, or 0 if step t+k-1 terminated (a truncated episode still bootstraps)
"""

import numpy as np

from proxrl.types import Array, End


def n_step(rewards: Array, ends: Array, discount: float) -> tuple[Array, Array, Array]:
    """(returns, discounts, spans) [batch] of windows [batch, n] that start at the sampled steps.

    What stands in a window after its first end belongs to other episodes and is ignored.
    """
    n = rewards.shape[1]
    ended = np.cumsum(ends != End.NO, axis=1)  # [batch, n]
    counts = np.ones_like(ended, dtype=bool)
    counts[:, 1:] = ended[:, :-1] == 0  # a step counts if no step before it ended
    spans = counts.sum(axis=1)  # k
    powers = (discount ** np.arange(n)).astype(np.float32)
    returns = np.where(counts, rewards * powers, np.float32(0)).sum(axis=1, dtype=np.float32)
    last = ends[np.arange(len(ends)), spans - 1]
    discounts = np.where(last == End.TERMINATED, 0.0, discount**spans).astype(np.float32)
    return returns, discounts, spans
