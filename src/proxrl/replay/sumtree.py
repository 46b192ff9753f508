"""A sum tree of float64 weights with batched sampling and updates.

Each inner node is the sum of FANOUT children, so that a million leaves are three levels deep and a
level costs one NumPy operation on [batch, FANOUT], with no Python loop over the batch. Sums are
always recomputed from the children, never adjusted by differences: equal leaves give an equal tree,
and only leaves need to be saved. The compiled functions (`native/replay.c`) have the same bits.
"""

import numpy as np

from proxrl.native import FANOUT, Call, functions, library
from proxrl.types import Array


class SumTree:
    """A tree of `leaves` weights, initially zero."""

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
        """All weights, [leaves]: a view."""
        leaves: Array = self._levels[0].reshape(-1)[: self._size]
        return leaves

    def _tree(self) -> tuple[int, Array]:
        """The levels' number and addresses, for compiled functions."""
        return len(self._levels), np.array([level.ctypes.data for level in self._levels], np.uintp)

    @property
    def total(self) -> float:
        return float(_sums(self._levels[-1])[0])

    def set(self, leaves: Array, weights: Array) -> None:
        """Set the weights of these leaves (the last value wins for duplicates)."""
        if len(leaves) and not 0 <= leaves.min() <= leaves.max() < self._size:
            raise IndexError(f"leaves must be in [0, {self._size})")
        if library() is not None:
            leaves = np.ascontiguousarray(leaves.astype(np.int64, casting="same_kind"))
            weights = np.ascontiguousarray(np.broadcast_to(weights, leaves.shape), np.float64)
            Call(functions().tree_set, *self._tree(), len(leaves), leaves, weights)()
            return
        self._levels[0].reshape(-1)[leaves] = weights
        nodes = leaves
        for children, parents in zip(self._levels, self._levels[1:], strict=False):
            nodes = nodes // FANOUT  # duplicates are cheaper to sum again than to remove
            parents.reshape(-1)[nodes] = _sums(children[nodes])

    def load(self, weights: Array) -> None:
        """Set all leaves."""
        self.leaves[:] = weights
        for children, parents in zip(self._levels, self._levels[1:], strict=False):
            parents.reshape(-1)[: len(children)] = _sums(children)

    def draw(self, count: int, generator: np.random.Generator) -> Array:
        """`count` leaves in proportion to their weights, one from each of `count` equal strata."""
        total = self.total
        left = (np.arange(count) + generator.random(count)) * (total / count)
        if library() is not None and total > 0.0:
            found = np.empty(count, np.int64)
            Call(functions().tree_draw, *self._tree(), count, left, found)()
            return found
        nodes = np.zeros(count, dtype=np.int64)
        rows = np.arange(count)
        for children in reversed(self._levels):
            sums = children[nodes].cumsum(axis=1)  # [count, FANOUT]
            # Rounding may raise `left` to the sum of the node: keep it below, so that the first
            # child whose running sum is larger always has a positive weight.
            left = np.minimum(left, np.nextafter(sums[:, -1], 0.0))
            chosen = np.count_nonzero(sums <= left[:, None], axis=1)
            before = np.where(chosen > 0, sums[rows, chosen - 1], 0.0)
            left = left - before
            nodes = nodes * FANOUT + chosen
        return nodes


def _sums(nodes: Array) -> Array:
    """Sums of children, in the same summation order as in `draw`."""
    sums: Array = nodes.cumsum(axis=1)[:, -1]
    return sums
