"""Checksums of the log in blocks: computed once, complete, and damage is called what it is."""

import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxrl.replay import ReplayLog
from proxrl.replay import checksums as module
from proxrl.replay.checksums import RingChecksums, blocks
from proxrl.replay.log import FRAMES, STEPS, problem_of
from proxrl.types import Array, End, ObservationSpec, State

SPEC = ObservationSpec((2, 3), "uint8", 3, high=255.0)
RINGS: tuple[Any, ...] = (SPEC, 40, 20)  # frames alive 83, frame ring 152, step ring 109


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 8)


def test_blocks_begin_at_multiples() -> None:
    assert list(blocks(5, 20)) == [(5, 8), (8, 16), (16, 20)]
    assert list(blocks(8, 16)) == [(8, 16)]
    assert list(blocks(3, 3)) == []


def naive(ring: Array, first: int, end: int) -> list[int]:
    """Row by row."""
    found = []
    for start, stop in blocks(first, end):
        found.append(
            zlib.crc32(b"".join(ring[row % len(ring)].tobytes() for row in range(start, stop)))
        )
    return found


@pytest.mark.parametrize("dtype", ["u1", "<f4", [("a", "<i8"), ("b", "u1")]])
def test_checksums_are_those_of_the_rows_also_where_the_ring_wraps(dtype: Any) -> None:
    ring = np.zeros(29, np.dtype(dtype))
    checksums = RingChecksums(ring)
    generator, end = np.random.default_rng(0), 0
    for _ in range(40):
        for _ in range(int(generator.integers(1, 9))):
            ring.view(np.uint8).reshape(29, -1)[end % 29] = generator.integers(0, 255)
            end += 1
        first = max(0, end - 20)
        assert checksums.of(first, end).tolist() == naive(ring, first, end)
    assert len(checksums._whole) <= 4, "blocks that are gone are forgotten"


def test_a_whole_block_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = np.arange(64, dtype=np.uint8)
    checksums = RingChecksums(ring)
    checksums.of(0, 40)
    counted: list[int] = []
    real = zlib.crc32

    def counting(data: Any, value: int = 0) -> int:
        counted.append(len(data))
        return real(data, value)

    monkeypatch.setattr(module.zlib, "crc32", counting)
    assert checksums.of(3, 50).tolist() == naive(ring, 3, 50)
    assert counted[:3] == [5, 8, 2], "the first part, the new block, the last part"
    checksums.forget(12)
    ring[12] = 99
    assert checksums.of(3, 50).tolist() == naive(ring, 3, 50)


def played(folder: Path, steps: int) -> tuple[ReplayLog, State, State]:
    """A log with episodes of 17 steps; its state and its checksums."""
    log = ReplayLog(folder, *RINGS)
    for step in range(steps):
        if step % 17 == 0:
            log.begin(np.full((2, 3), step % 250 + 1, np.uint8))
        end = End.TERMINATED if step % 17 == 16 else End.NO
        log.add(step % 5, float(step), end, np.full((2, 3), step % 250 + 1, np.uint8))
        log.protect(log.state())
    state = log.state()
    return log, state, log.checksums(state)


@pytest.mark.parametrize("steps", [0, 1, 17, 18, 60, 400])
def test_an_intact_log_has_no_problem(steps: int, tmp_path: Path) -> None:
    _, state, checksums = played(tmp_path, steps)
    assert problem_of(tmp_path, *RINGS, state, checksums) == ""


@pytest.mark.parametrize("steps", [60, 400])
@pytest.mark.parametrize("name", [FRAMES, STEPS])
def test_every_byte_that_is_used_is_covered_and_no_other(
    name: str, steps: int, tmp_path: Path
) -> None:
    log, state, checksums = played(tmp_path, steps)
    row = 6 if name == FRAMES else 16
    first, end = ("first_frame", "frames") if name == FRAMES else ("oldest", "steps")
    ring = log._ring[0 if name == FRAMES else 1]
    used = {number % ring for number in range(state[first], state[end])}
    if name == FRAMES:
        used.add(ring)  # the padding
    content = np.memmap(tmp_path / name, np.uint8, "r+")
    for byte in range(0, len(content), 5):
        content[byte] ^= 4
        wrong = problem_of(tmp_path, *RINGS, state, checksums)
        assert bool(wrong) == (byte // row in used), byte
        assert not wrong or "is damaged" in wrong or "is older" in wrong
        content[byte] ^= 4


@pytest.mark.parametrize("name", [FRAMES, STEPS])
def test_a_zeroed_file_is_called_zeroed(name: str, tmp_path: Path) -> None:
    _, state, checksums = played(tmp_path, 400)
    np.memmap(tmp_path / name, np.uint8, "r+")[:] = 0
    assert problem_of(tmp_path, *RINGS, state, checksums).endswith(" is zeroed")


def test_a_stale_log_is_called_older(tmp_path: Path) -> None:
    played(tmp_path / "then", 380)
    _, state, checksums = played(tmp_path / "now", 400)
    shutil.copytree(tmp_path / "then", tmp_path / "now", dirs_exist_ok=True)
    wrong = problem_of(tmp_path / "now", *RINGS, state, checksums)
    assert wrong == f"{tmp_path / 'now'} is older than the checkpoint (step 400 differs)"


def test_damage_names_the_rows(tmp_path: Path) -> None:
    _, state, checksums = played(tmp_path, 60)
    np.memmap(tmp_path / FRAMES, np.uint8, "r+")[6 * 50] ^= 1
    wrong = problem_of(tmp_path, *RINGS, state, checksums)
    assert wrong == f"{tmp_path / FRAMES}, frames 48 to 55, is damaged"


def test_an_episode_that_is_cut_changes_its_checksum(tmp_path: Path) -> None:
    """A log continued from its checksums, whose last, whole block is then changed."""
    log, state, checksums = played(tmp_path, 24)
    log.close()
    again = ReplayLog(tmp_path, *RINGS, reopen=True)
    again.load(state)
    again.remember(state, checksums)
    again.cut()
    after = again.state()
    assert problem_of(tmp_path, *RINGS, after, again.checksums(after)) == ""
    assert problem_of(tmp_path, *RINGS, state, checksums).endswith("is damaged")
