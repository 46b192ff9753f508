"""The log against a naive oracle that stores full states."""

import errno
import os
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxrl.errors import UserError
from proxrl.native import library
from proxrl.replay import Gather, ReplayLog, UniformReplay, log_nbytes
from proxrl.replay.gather import PAIRWISE, _in_c, _in_numpy
from proxrl.replay.log import FRAMES, NEW, STEPS, problem_of, ring_sizes
from proxrl.types import Array, Batch, End, ObservationSpec

FRAME = (2, 3)


def spec(stack: int = 3) -> ObservationSpec:
    return ObservationSpec(FRAME, "uint8", stack, high=255.0)


def frame(number: int) -> Array:
    """Frames that differ from one another and from zero."""
    return np.full(FRAME, number % 250 + 1, dtype=np.uint8)


class Oracle:
    """The specification of the replay: the newest `capacity` transitions with full states."""

    def __init__(self, stack: int, capacity: int, n: int, discount: float) -> None:
        self.stack, self.n, self.discount = stack, n, discount
        self.history: list[Array] = []
        self.episode: list[tuple[Array, int, float, End, Array]] = []
        self.episodes: deque[list[tuple[Array, int, float, End, Array]]] = deque()
        self.capacity = capacity

    def state(self) -> Array:
        padded = [np.zeros(FRAME, np.uint8)] * self.stack + self.history
        return np.stack(padded[-self.stack :])

    def begin(self, observation: Array) -> None:
        self.history = [observation]
        self.episodes.append([])

    def add(self, action: int, reward: float, end: End, observation: Array) -> None:
        before = self.state()
        self.history.append(observation)
        self.episodes[-1].append((before, action, reward, end, self.state()))

    def transitions(self) -> list[tuple[Array, int, float, float, Array]]:
        """Every complete n-step transition among the newest `capacity` steps, in order."""
        found = []
        for episode in self.episodes:
            for start in range(len(episode)):
                window = episode[start : start + self.n]
                complete = len(window) == self.n or window[-1][3] != End.NO
                span = len(window)
                total = sum(self.discount**j * step[2] for j, step in enumerate(window))
                bootstrap = 0.0 if window[-1][3] == End.TERMINATED else self.discount**span
                entry = (window[0][0], window[0][1], total, bootstrap, window[-1][4])
                found.append(entry if complete else None)
        return [entry for entry in found[-self.capacity :] if entry is not None]


def play(
    log: ReplayLog, oracle: Oracle | None, lengths: list[int], ends: list[End], start: int = 0
) -> None:
    """Episodes of these lengths; an end of NO leaves the last one running."""
    number = start
    for length, end in zip(lengths, ends, strict=True):
        log.begin(frame(number))
        if oracle:
            oracle.begin(frame(number))
        for step in range(length):
            number += 1
            last = end if step == length - 1 else End.NO
            log.add(number % 7, float(number % 5 - 2), last, frame(number))
            log.protect(log.state())
            if oracle:
                oracle.add(number % 7, float(number % 5 - 2), last, frame(number))
        number += 1


def replay_of(log: ReplayLog, n: int, discount: float, batch: int) -> UniformReplay:
    return UniformReplay(gather_of(log, n, discount, batch), np.random.default_rng(0))


def gather_of(log: ReplayLog, n: int, discount: float, batch: int) -> Gather:
    return Gather(log, batch, n, discount, torch.device("cpu"))


def rows(batch: Batch) -> list[tuple[Array, int, float, float, Array]]:
    return [
        (s.numpy().copy(), int(a), float(r), float(d), x.numpy().copy())
        for s, a, r, d, x in zip(
            batch.states,
            batch.actions,
            batch.returns,
            batch.discounts,
            batch.next_states,
            strict=True,
        )
    ]


@pytest.mark.skipif(library() is None, reason="proxrl was installed without a C compiler")
@pytest.mark.parametrize("stack", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 2, 3, PAIRWISE - 1])
def test_compiled_transitions_are_numpys(stack: int, n: int, tmp_path: Path) -> None:
    """All that are alive, in rings that have been written several times."""
    log = ReplayLog(tmp_path, spec(stack), capacity=20, checkpoint_steps=5)
    lengths = [7, 1, 2, 9, 30, 3, 1, 6]
    play(log, None, lengths, [End.TERMINATED, End.TRUNCATED] * 3 + [End.TERMINATED, End.NO])
    steps = np.arange(log.oldest, gather_of(log, n, 0.9, 1).complete)
    found = _in_c(log, len(steps), n, 0.9)(steps)
    for mine, its in zip(found, _in_numpy(log, n, 0.9)(steps), strict=True):
        assert mine.dtype == its.dtype
        assert np.array_equal(mine, its)


def test_steps_that_are_no_batch_are_refused(tmp_path: Path) -> None:
    log = ReplayLog(tmp_path, spec(1), capacity=20, checkpoint_steps=5)
    play(log, None, [15], [End.NO])
    gather = gather_of(log, 1, 0.9, 4)
    for steps in (np.arange(1), np.arange(5), np.arange(4.0)):
        with pytest.raises((ValueError, TypeError, IndexError, RuntimeError)):
            gather(steps)


@pytest.mark.parametrize("stack", [1, 3])
def test_a_batch_survives_the_next_one(stack: int, tmp_path: Path) -> None:
    """There are two buffers: a device may still be copying a batch when the next is sampled."""
    log = ReplayLog(tmp_path, spec(stack), capacity=20, checkpoint_steps=5)
    play(log, None, [15], [End.NO])
    gather = gather_of(log, 1, 0.9, 4)
    first = gather(np.arange(0, 4))
    before = first.states.clone(), first.next_states.clone()
    gather(np.arange(4, 8))
    assert torch.equal(first.states, before[0])
    assert torch.equal(first.next_states, before[1])
    third = gather(np.arange(8, 12))
    assert third.states.data_ptr() == first.states.data_ptr(), "and only two"


class Event:
    """As on CUDA: what happened to the copy of a buffer."""

    def __init__(self, name: int, happened: list[str]) -> None:
        self._name, self._happened = name, happened

    def synchronize(self) -> None:
        self._happened.append(f"wait {self._name}")

    def record(self) -> None:
        self._happened.append(f"copy {self._name}")


def test_a_buffer_is_refilled_only_after_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of events on a device with asynchronous copies, `meta` in place of CUDA."""
    log = ReplayLog(tmp_path, spec(1), capacity=20, checkpoint_steps=5)
    play(log, None, [15], [End.NO])
    gather = gather_of(log, 1, 0.9, 4)
    happened: list[str] = []
    index_select = torch.index_select

    def filled(*arguments: Any, **words: Any) -> torch.Tensor:
        happened.append("fill")
        return index_select(*arguments, **words)

    monkeypatch.setattr("proxrl.replay.gather.torch.index_select", filled)
    for number in (0, 1):
        buffer = next(gather._buffers)
        buffer._device, buffer._copied = torch.device("meta"), Event(number, happened)
    for first in (0, 4, 8):
        gather(np.arange(first, first + 4))
    turns = [["wait 0", "fill", "copy 0"], ["wait 1", "fill", "copy 1"]]
    assert happened == [*turns[0], *turns[1], *turns[0]]


layouts = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from([End.TERMINATED, End.TRUNCATED])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(
    layout=layouts,
    running=st.integers(0, 6),
    stack=st.integers(1, 4),
    n=st.integers(1, 4),
    capacity=st.integers(8, 40),
)
def test_every_transition_is_the_oracles(
    layout: list[tuple[int, End]], running: int, stack: int, n: int, capacity: int
) -> None:
    lengths = [length for length, _ in layout]
    ends = [end for _, end in layout]
    if running:
        lengths, ends = [*lengths, running], [*ends, End.NO]
    oracle = Oracle(stack, capacity, n, discount=0.9)
    with TemporaryDirectory() as folder:
        log = ReplayLog(Path(folder), spec(stack), capacity, checkpoint_steps=5)
        play(log, oracle, lengths, ends)
        expected = oracle.transitions()
        replay = replay_of(log, n, 0.9, batch=max(1, len(expected)))
        assert len(replay) == len(expected)
        if not expected:
            return
        got = rows(
            gather_of(log, n, 0.9, len(expected))(np.arange(log.oldest, log.oldest + len(expected)))
        )
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[0])
            assert mine[1] == theirs[1]
            assert mine[2] == pytest.approx(theirs[2], abs=1e-6)
            assert mine[3] == pytest.approx(theirs[3], abs=1e-6)
            if theirs[3]:  # where it bootstraps, the next state matters
                np.testing.assert_array_equal(mine[4], theirs[4])
        log.close()


def test_one_episode_by_hand(tmp_path: Path) -> None:
    """stack 2, two steps, truncated: zeros before the start, the true last observation at the end.

    frames 1 2 3;  states [0 1] -> [1 2] -> [2 3]
    """
    log = ReplayLog(tmp_path, spec(stack=2), capacity=10, checkpoint_steps=5)
    log.begin(frame(0))
    log.add(4, 0.5, End.NO, frame(1))
    log.add(5, -1.0, End.TRUNCATED, frame(2))
    batch = gather_of(log, n=1, discount=0.99, batch=2)(np.array([0, 1]))
    tops = batch.states[:, :, 0, 0].tolist(), batch.next_states[:, :, 0, 0].tolist()
    assert tops == ([[0, 1], [1, 2]], [[1, 2], [2, 3]])
    assert batch.actions.tolist() == [4, 5]
    assert batch.returns.tolist() == [0.5, -1.0]
    assert batch.discounts.tolist() == pytest.approx([0.99, 0.99])


def test_only_complete_transitions_are_drawn_and_all_of_them(tmp_path: Path) -> None:
    log = ReplayLog(tmp_path, spec(), capacity=20, checkpoint_steps=5)
    play(log, None, [6, 5], [End.TERMINATED, End.NO])
    replay = replay_of(log, n=3, discount=0.9, batch=400)
    drawn = set(replay.sample().indices.tolist())
    assert drawn == set(range(9))  # steps 9 and 10 of the running episode still lack a third reward


def test_draws_are_uniform(tmp_path: Path) -> None:
    """Chi-square over 20 transitions, 20,000 draws: below the 99.9% point of 19 degrees, 43.8."""
    log = ReplayLog(tmp_path, spec(), capacity=20, checkpoint_steps=5)
    play(log, None, [9, 9, 9], [End.TERMINATED] * 3)
    counts = np.bincount(
        replay_of(log, n=1, discount=0.9, batch=20_000).sample().indices - log.oldest, minlength=20
    )
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 43.8


def test_a_reopened_log_is_the_same_and_continues(tmp_path: Path) -> None:
    whole = ReplayLog(tmp_path / "whole", spec(), 10, 5)
    play(whole, None, [7, 7], [End.TERMINATED, End.TRUNCATED])
    play(whole, None, [4], [End.TERMINATED], start=100)

    first = ReplayLog(tmp_path / "part", spec(), 10, 5)
    play(first, None, [7, 7], [End.TERMINATED, End.TRUNCATED])
    state = first.state()
    play(first, None, [3], [End.TERMINATED], start=200)  # written after the checkpoint: forgotten
    first.close()
    second = ReplayLog(tmp_path / "part", spec(), 10, 5, reopen=True)
    second.load(state)
    play(second, None, [4], [End.TERMINATED], start=100)

    assert second.state() == whole.state()
    steps = np.arange(whole.oldest, whole.steps)
    one, other = (rows(gather_of(log, 1, 0.9, len(steps))(steps)) for log in (whole, second))
    for mine, theirs in zip(one, other, strict=True):
        for left, right in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(left, right)


def test_it_is_full_before_a_protected_frame_would_be_overwritten(tmp_path: Path) -> None:
    """Episodes of one step write two frames per step, so the ring fills up early."""
    log = ReplayLog(tmp_path, ObservationSpec((84, 84), "uint8", 4), 50, 10)
    picture = np.zeros((84, 84), np.uint8)

    def episode() -> None:
        log.begin(picture)
        log.add(0, 0.0, End.TERMINATED, picture)

    for _ in range(10_000):
        if log.full:
            break
        episode()
    assert log.full
    with pytest.raises(AssertionError, match="overwritten"):
        episode()
    log.protect(log.state())  # a newer checkpoint: the oldest frames are free again
    assert not log.full


def test_the_last_frame_before_a_protected_one_can_be_written(tmp_path: Path) -> None:
    """A step writes one frame, two if an episode begins after it: `full` leaves room for two."""
    log = ReplayLog(tmp_path, spec(), 10, 5)
    frames = ring_sizes(spec(), 10, 5)[1]
    log.begin(frame(0))
    while not log.full:
        log.add(0, 0.0, End.NO, frame(1))
    assert log.state()["frames"] == frames - 1
    log.add(0, 0.0, End.NO, frame(1))
    with pytest.raises(AssertionError, match="overwritten"):
        log.add(0, 0.0, End.NO, frame(1))


def test_short_episodes_keep_fewer_transitions_rather_than_broken_ones(tmp_path: Path) -> None:
    big = ObservationSpec((4200, 4200), "uint8", 1)  # above 16 MB per frame: 1% spare, here none
    log = ReplayLog(tmp_path, big, capacity=4, checkpoint_steps=1)
    picture = np.zeros(big.shape, np.uint8)

    def episode(steps: int) -> None:
        log.begin(picture)
        for step in range(1, steps + 1):
            log.add(0, 0.0, End.TERMINATED if step == steps else End.NO, picture)
            log.protect(log.state())

    episode(2)
    episode(1)
    assert log.oldest == 0, "three frames and two are just the five that fit"
    for _ in range(12):
        episode(1)
        assert log.steps - log.oldest == 2, "two episodes of two frames"


def test_a_checkpoint_refers_to_the_first_frame_of_the_oldest_state(tmp_path: Path) -> None:
    """A stack of 3, ten steps alive: frame 0 until the state of step 3 is the oldest."""
    log = ReplayLog(tmp_path, spec(stack=3), capacity=10, checkpoint_steps=50)
    log.begin(frame(0))
    for number in range(1, 20):
        log.add(0, 0.0, End.NO, frame(number))
        assert log.state()["oldest"] == max(0, number - 10)
        assert log.state()["first_frame"] == max(0, number - 10 - 2)


def test_disk_is_reserved_in_full_before_the_first_step(tmp_path: Path) -> None:
    capacity, period = 1000, 50
    ReplayLog(tmp_path, spec(), capacity, period)
    reserved = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
    assert reserved >= log_nbytes(spec(), capacity, period)


def test_a_million_atari_transitions_fit_in_7_3_gigabytes() -> None:
    atari = ObservationSpec((84, 84), "uint8", 4, high=255.0)
    assert log_nbytes(atari, capacity=1_000_000, checkpoint_steps=5_000) <= 7.3e9


def test_a_log_of_the_wrong_size_is_rejected(tmp_path: Path) -> None:
    ReplayLog(tmp_path, spec(), 10, 5)
    with pytest.raises(UserError, match="wrong size"):
        ReplayLog(tmp_path, spec(), 11, 5, reopen=True)


@pytest.mark.parametrize("steps", [1, 3])
def test_an_abandoned_episode_becomes_a_truncation(tmp_path: Path, steps: int) -> None:
    log = ReplayLog(tmp_path, spec(), 10, 5)
    play(log, None, [steps], [End.NO])
    log.cut()
    log.begin(frame(50))
    assert log.newest_step()[2] == End.TRUNCATED


def test_cutting_what_has_no_step_yet_changes_no_earlier_episode(tmp_path: Path) -> None:
    log = ReplayLog(tmp_path, spec(), 10, 5)
    play(log, None, [3], [End.TERMINATED])
    log.cut()  # nothing is running
    log.begin(frame(50))
    log.cut()  # an episode without a step
    assert log.newest_step()[2] == End.TERMINATED
    assert log.running == 0
    log.begin(frame(51))  # and the next one can begin


def test_an_episode_begins_once_and_before_its_steps(tmp_path: Path) -> None:
    log = ReplayLog(tmp_path, spec(), 10, 5)
    with pytest.raises(AssertionError, match="begin an episode first"):
        log.add(0, 0.0, End.NO, frame(1))
    log.begin(frame(0))
    with pytest.raises(AssertionError, match="has not ended"):
        log.begin(frame(1))


@pytest.mark.parametrize(
    ("observations", "capacity", "checkpoint_steps", "sizes"),
    [
        # 6 bytes a frame: 16 MB hold more than one spare frame per step. 3 x (50 + 3 + 2) = 165.
        (spec(), 1000, 50, (1000 + 1000 + 3, 2003 + 165, 1000 + 165)),
        # 84 x 84 bytes: 16 MB hold 2,377 frames, more than 1% of 100,000, less than of 1,000,000.
        (ObservationSpec((84, 84), "uint8", 4), 100_000, 1600, (102_381, 107_487, 105_106)),
        (ObservationSpec((84, 84), "uint8", 4), 1_000_000, 1600, (1_010_004, 1_015_110, 1_005_106)),
    ],
)
def test_ring_sizes_by_hand(
    observations: ObservationSpec,
    capacity: int,
    checkpoint_steps: int,
    sizes: tuple[int, int, int],
) -> None:
    assert ring_sizes(observations, capacity, checkpoint_steps) == sizes


def test_its_bytes_are_known_beforehand_and_files_of_another_size_are_named(
    tmp_path: Path,
) -> None:
    folder, rings = tmp_path / "run" / "replay", (spec(), 20, 5)

    def problem(*of: Any) -> str:
        return problem_of(folder, *of, NEW, None)

    assert problem(*rings) == f"{folder / FRAMES} is missing"
    ReplayLog(folder, *rings).close()
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    frames, steps = ring_sizes(*rings)[1:]
    assert sizes == {FRAMES: (frames + 1) * 6, STEPS: steps * 16}  # one more frame, of zeros
    assert log_nbytes(*rings) == sum(sizes.values())
    assert not problem(*rings)
    assert "bytes instead of" in problem(spec(), 21, 5)
    for name in (FRAMES, STEPS):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-1])
        assert problem(*rings) == (
            f"{folder / name} has {len(whole) - 1} bytes instead of {len(whole)}"
        )
        (folder / name).unlink()
        with pytest.raises(UserError, match="is missing"):
            ReplayLog(folder, *rings, reopen=True)
        (folder / name).mkdir()
        assert problem(*rings) == f"{folder / name} is a folder"
        (folder / name).rmdir()
        (folder / name).write_bytes(whole)
    assert not problem(*rings)


def test_the_newest_frames_and_steps_counted_back_also_where_the_rings_wrap(
    tmp_path: Path,
) -> None:
    """Frames 0 to 99 of one episode, several times around rings of 41 frames and 28 steps."""
    log = ReplayLog(tmp_path, spec(), capacity=10, checkpoint_steps=4)
    log.begin(frame(0))
    for number in range(1, 100):
        log.add(number % 7, float(number), End.NO, frame(number))
        log.protect(log.state())
        for back in range(min(number, 5)):
            assert np.array_equal(log.newest_frame(back), frame(number - back))
            assert log.newest_step(back) == ((number - back) % 7, number - back, End.NO)
        assert log.running == number
    again = ReplayLog(tmp_path, spec(), 10, 4, reopen=True)
    again.load(log.state())
    for each in (log, again):
        assert np.array_equal(each.newest_frame(), frame(99))
        assert each.newest_step() == (99 % 7, 99.0, End.NO)
        assert not each.full


def test_episodes_longer_than_an_age_can_count(tmp_path: Path) -> None:
    """An age is one byte: from 255 on it stays, and states are whole."""
    oracle = Oracle(stack=3, capacity=400, n=2, discount=0.9)
    log = ReplayLog(tmp_path, spec(stack=3), capacity=400, checkpoint_steps=50)
    play(log, oracle, [300], [End.TERMINATED])
    expected = oracle.transitions()
    got = rows(gather_of(log, 2, 0.9, len(expected))(np.arange(len(expected))))
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
        np.testing.assert_array_equal(mine[4], theirs[4])


@pytest.mark.parametrize("missing", [True, False], ids=["no such function", "not supported"])
def test_without_posix_fallocate_the_files_are_written_in_full(
    missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, or on a file system that cannot reserve space."""

    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    if missing:
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
    monkeypatch.setattr("proxrl.replay.log.ZEROS", 1000)
    log = ReplayLog(tmp_path, spec(), 2000, 100)
    log.close()
    assert not problem_of(tmp_path, spec(), 2000, 100, NEW, None)
    for name in (FRAMES, STEPS):
        file = (tmp_path / name).stat()
        assert file.st_blocks * 512 >= file.st_size, "reserved, not sparse"
    assert not np.fromfile(tmp_path / FRAMES, np.uint8).any()


def test_a_full_disk_is_an_error_when_space_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="full"):
        ReplayLog(tmp_path, spec(), 2000, 100)
