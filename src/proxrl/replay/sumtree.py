"""A sum tree of float64 weights, drawn from and changed a whole batch at a time.

Each inner node is the sum of FANOUT children, so that a million leaves are three levels deep and a
level costs one NumPy operation on [batch, FANOUT], with no Python loop over the batch. Sums are
always taken anew from the children, never adjusted by differences: equal leaves give an equal tree,
and only leaves need saving.
"""

import numpy as np

from proxrl.types import Array

FANOUT = 100


class SumTree:
    """`leaves` weights, all zero at first."""

    def __init__(self, leaves: int) -> None:
        self._size = leaves
        self._levels: list[Array] = []  # leaves first, the root's children last; [nodes, FANOUT]
        nodes = leaves
        while True:
            nodes = -(-nodes // FANOUT)
            self._levels.append(np.zeros((nodes, FANOUT)))
            if nodes == 1:
                break

    @property
    def leaves(self) -> Array:
        """Every weight, [leaves]: a view."""
        leaves: Array = self._levels[0].reshape(-1)[: self._size]
        return leaves

    @property
    def total(self) -> float:
        return float(_sums(self._levels[-1])[0])

    def set(self, leaves: Array, weights: Array) -> None:
        """Give these leaves these weights (the last one counts where a leaf is named twice)."""
        self._levels[0].reshape(-1)[leaves] = weights
        nodes = leaves
        for children, parents in zip(self._levels, self._levels[1:], strict=False):
            nodes = nodes // FANOUT  # some twice: summing again costs less than finding out
            parents.reshape(-1)[nodes] = _sums(children[nodes])

    def load(self, weights: Array) -> None:
        """All leaves at once."""
        self.leaves[:] = weights
        for children, parents in zip(self._levels, self._levels[1:], strict=False):
            parents.reshape(-1)[: len(children)] = _sums(children)

    def draw(self, count: int, generator: np.random.Generator) -> Array:
        """`count` leaves in proportion to their weights, one from each of `count` equal strata."""
        left = (np.arange(count) + generator.random(count)) * (self.total / count)
        nodes = np.zeros(count, dtype=np.int64)
        rows = np.arange(count)
        for children in reversed(self._levels):
            sums = children[nodes].cumsum(axis=1)  # [count, FANOUT]
            # Rounding may carry what is left up to the node's own sum: stay below it, where the
            # first child whose running sum is larger always has a weight above zero.
            left = np.minimum(left, np.nextafter(sums[:, -1], 0.0))
            chosen = np.count_nonzero(sums <= left[:, None], axis=1)
            before = np.where(chosen > 0, sums[rows, chosen - 1], 0.0)
            left = left - before
            nodes = nodes * FANOUT + chosen
        return nodes


def _sums(nodes: Array) -> Array:
    """Sums of children, added in the order in which `draw` adds them."""
    sums: Array = nodes.cumsum(axis=1)[:, -1]
    return sums
