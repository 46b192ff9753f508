"""CRC-32 of a ring's rows in blocks, computed once per block.

A block is BLOCK rows with consecutive absolute numbers, from a multiple of BLOCK on. Rows do not
change once they are written, so the checksum of a whole block is computed at the first checkpoint
that contains it and kept; only the first and the last block of a checkpoint, which may be parts of
one, are computed each time. CRC-32 detects accidents, not forgery.
"""

import zlib
from collections.abc import Iterator

import numpy as np

from proxrl.types import Array

BLOCK = 256  # rows


class RingChecksums:
    """Checksums of the rows of one ring, [slots, ...]."""

    def __init__(self, ring: Array) -> None:
        self._rows = ring.view(np.uint8).reshape(len(ring), -1)
        self._whole: dict[int, int] = {}  # block number -> checksum

    def of(self, first: int, end: int) -> Array:
        """The checksum of each block of the rows from `first` to `end` (exclusive), uint32."""
        found = [self._checksum(start, stop) for start, stop in blocks(first, end)]
        oldest = first // BLOCK
        self._whole = {block: one for block, one in self._whole.items() if block >= oldest}
        return np.array(found, np.uint32)

    def remember(self, first: int, end: int, checksums: Array) -> None:
        """Do not compute again what a checkpoint holds."""
        for (start, stop), checksum in zip(blocks(first, end), checksums, strict=True):
            if stop - start == BLOCK:
                self._whole[start // BLOCK] = int(checksum)

    def forget(self, row: int) -> None:
        """The row was changed."""
        self._whole.pop(row // BLOCK, None)

    def are_zero(self, start: int, stop: int) -> bool:
        """Whether these rows are all zeros."""
        return not any(part.any() for part in self._parts(start, stop))

    def _checksum(self, start: int, stop: int) -> int:
        known = self._whole.get(start // BLOCK) if stop - start == BLOCK else None
        if known is not None:
            return known
        checksum = 0
        for part in self._parts(start, stop):
            checksum = zlib.crc32(part.data, checksum)
        if stop - start == BLOCK:
            self._whole[start // BLOCK] = checksum
        return checksum

    def _parts(self, start: int, stop: int) -> Iterator[Array]:
        """The rows in the ring, in one or two contiguous parts."""
        slots = len(self._rows)
        first, count = start % slots, stop - start
        yield self._rows[first : first + count]
        if first + count > slots:
            yield self._rows[: first + count - slots]


def blocks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """First row and end of each block of the rows from `first` to `end` (exclusive)."""
    while first < end:
        stop = min((first // BLOCK + 1) * BLOCK, end)
        yield first, stop
        first = stop
