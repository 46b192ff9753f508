"""n-step returns, computed when sampling, so that there is no n-step buffer to save.

A transition from step t spans k steps, k = n or fewer at the end of its episode:

    return   = sum_{j<k} gamma^j r_{t+j}
    discount = gamma^k, or 0 if step t+k-1 terminated (a truncated episode still bootstraps)
"""

import functools

import numpy as np

from proxrl.types import Array, End

NO, TERMINATED = int(End.NO), int(End.TERMINATED)  # comparing plain integers is much faster


def n_step(rewards: Array, ends: Array, discount: float) -> tuple[Array, Array, Array]:
    """(returns, discounts, spans) [batch] of windows [batch, n] that start at the sampled steps.

    Entries after the first end in a window belong to other episodes and are ignored.
    """
    batch, n = rewards.shape
    powers = powers_of(discount, n)
    if n == 1:  # equivalent and several times faster
        return rewards[:, 0], _discount_of_end(discount).take(ends[:, 0]), _ones(batch)
    counts = np.ones((batch, n), dtype=bool)  # whether no earlier step ended
    np.logical_and.accumulate(ends[:, :-1] == NO, axis=1, out=counts[:, 1:])
    spans = counts.sum(axis=1)  # k
    returns = np.where(counts, rewards * powers[:n], np.float32(0)).sum(axis=1)
    last = ends[np.arange(batch), spans - 1]
    discounts = np.where(last == TERMINATED, np.float32(0), powers[spans])
    return returns, discounts, spans


@functools.lru_cache
def powers_of(discount: float, n: int) -> Array:
    """gamma^0 ... gamma^n."""
    powers: Array = (discount ** np.arange(n + 1)).astype(np.float32)
    return powers


@functools.lru_cache
def _discount_of_end(discount: float) -> Array:
    """The discount of one step, by how it ended."""
    return np.array([0.0 if end == TERMINATED else discount for end in End], np.float32)


@functools.lru_cache
def _ones(batch: int) -> Array:
    ones: Array = np.ones(batch, np.int64)
    ones.flags.writeable = False
    return ones
