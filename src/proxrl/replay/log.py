"""The append-only log of frames and steps, memory-mapped, each frame stored once.

Two ring buffers in two files. *Frames* holds every observation, including the last of an episode.
*Steps* holds one record per transition: the newest frame of its state, the action, the reward, how
it ended, and its age (steps since the episode began). Within an episode both advance in step: the
state k steps later ends at `frame + k`, and frames older than `age` belong to another episode.

Numbers are absolute and only increase; a slot is number % ring size. The newest `capacity` steps
are alive, fewer if their frames do not fit (very short episodes). A checkpoint of the log is a few
integers: the rings have room for RESERVE checkpoint intervals beyond what is alive, so that the
data of the newest two checkpoints is intact even while the next one is being written. What a killed
process wrote after its last checkpoint is rewritten identically.

The files are allocated in full before the first step: a sparse map on a full disk would raise
SIGBUS. A checkpoint holds checksums of what it refers to (checksums.py), which `problem_of`
verifies.
"""

import errno
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from proxrl.errors import UserError
from proxrl.files import plain, what_is
from proxrl.native import STEP
from proxrl.replay.checksums import RingChecksums, blocks
from proxrl.types import Array, End, ObservationSpec, State

RESERVE = 3  # checkpoint intervals: the newest two, and the one being written

FRAMES, STEPS = "frames.bin", "steps.bin"
ZEROS = 1 << 24  # bytes written at a time
MAX_STACK = 255  # an age is stored in one byte


class LogState(TypedDict):
    """What a checkpoint stores of the log."""

    frames: int  # written so far
    steps: int  # written so far
    oldest: int  # first step alive
    age: int  # of the newest frame
    ended: bool  # the newest frame is the last of its episode
    first_frame: int  # the earliest that is still needed


NEW = LogState(frames=0, steps=0, oldest=0, age=0, ended=True, first_frame=0)


def ring_sizes(spec: ObservationSpec, capacity: int, checkpoint_steps: int) -> tuple[int, int, int]:
    """(frames alive, frame ring, step ring).

    Last observations need extra room besides one frame per step: 1%, or 16 MB if that is more, so
    that only image environments with episodes under 100 steps keep fewer than `capacity`.
    """
    spare = min(capacity, max(capacity // 100, (1 << 24) // spec.nbytes))
    alive = capacity + spare + spec.stack
    beyond = RESERVE * (checkpoint_steps + checkpoint_steps // 16 + 2)  # incl. last observations
    return alive, alive + beyond, capacity + beyond


def log_nbytes(spec: ObservationSpec, capacity: int, checkpoint_steps: int) -> int:
    """Bytes on disk, and in memory when fully used."""
    _, frames, steps = ring_sizes(spec, capacity, checkpoint_steps)
    return (frames + 1) * spec.nbytes + steps * STEP.itemsize


def problem_of(
    folder: Path,
    spec: ObservationSpec,
    capacity: int,
    checkpoint_steps: int,
    state: Mapping[str, Any],
    checksums: Mapping[str, Any] | None,
) -> str:
    """What is wrong with the files that a checkpoint's `state` refers to; empty if intact.

    `checksums`: None if the checkpoint has none (formats 1 and 2), then only the sizes are checked.
    """
    _, frames, steps = ring_sizes(spec, capacity, checkpoint_steps)
    sizes = {FRAMES: (frames + 1) * spec.nbytes, STEPS: steps * STEP.itemsize}
    for name, size in sizes.items():
        path = folder / name
        kind = what_is(path)
        if kind != "file":
            return f"{path} is {f'a {kind}' if kind else 'missing'}"
        if path.stat().st_size != size:
            return f"{path} has {path.stat().st_size:,} bytes instead of {size:,}"
    if checksums is None:
        return ""
    log = ReplayLog(folder, spec, capacity, checkpoint_steps, reopen=True)
    try:
        return log.damage(state, checksums)
    finally:
        log.close()


class ReplayLog:
    """The log in a folder: a new one, or with `reopen` the existing one, to be loaded."""

    def __init__(
        self,
        folder: Path,
        spec: ObservationSpec,
        capacity: int,
        checkpoint_steps: int,
        reopen: bool = False,
    ) -> None:
        self.spec = spec
        self.capacity = capacity
        self._alive_frames, frames, steps = ring_sizes(spec, capacity, checkpoint_steps)
        self.zero_slot = frames  # an extra frame of zeros, for padding at episode start
        folder.mkdir(parents=True, exist_ok=True)
        make = not reopen
        frames_shape = (frames + 1, *spec.shape)
        self._files = [
            _allocate(folder / FRAMES, frames_shape, np.dtype(spec.dtype), make),
            _allocate(folder / STEPS, (steps,), STEP, make),
        ]
        self._folder = folder
        self.frames: Array = _map(self._files[0], frames_shape, np.dtype(spec.dtype))
        self._records = records = _map(self._files[1], (steps,), STEP)
        self._checksums = (RingChecksums(self.frames[:-1]), RingChecksums(records))
        self._ring = (frames, steps)
        self._frame, self._age = records["frame"], records["age"]
        self._action, self._reward, self._end = records["action"], records["reward"], records["end"]
        self._protected = 0  # first frame that a checkpoint still refers to
        self._state = NEW.copy()

    # ------------------------------------------------------------------------------------ writing

    def begin(self, observation: Array) -> None:
        """Start an episode with its first observation."""
        assert self._state["ended"], "the last episode has not ended"
        self._state["age"], self._state["ended"] = 0, False
        self._append_frame(observation)

    def add(self, action: int, reward: float, end: End, observation: Array) -> None:
        """Append a step: the action taken at the newest frame, and its result."""
        state = self._state
        assert not state["ended"], "begin an episode first"
        slot = state["steps"] % self._ring[1]
        self._frame[slot] = state["frames"] - 1
        self._action[slot] = action
        self._reward[slot] = reward
        self._age[slot] = state["age"]
        self._end[slot] = end
        state["steps"] += 1
        state["age"] = min(state["age"] + 1, MAX_STACK)
        state["ended"] = end != End.NO
        self._append_frame(observation)
        self._forget()

    def _append_frame(self, observation: Array) -> None:
        number = self._state["frames"]
        assert number - self._ring[0] < self._protected, "a checkpoint's frame would be overwritten"
        self.frames[number % self._ring[0]] = observation
        self._state["frames"] = number + 1

    def _forget(self) -> None:
        """Advance `oldest` past the steps that no longer fit."""
        state = self._state
        oldest = max(state["oldest"], state["steps"] - self.capacity)
        while self._first_frame_of(oldest) < state["frames"] - self._alive_frames:
            oldest += 1
        state["oldest"] = oldest
        state["first_frame"] = self._first_frame_of(oldest)

    def _first_frame_of(self, step: int) -> int:
        """The earliest frame that the step's state may need."""
        return max(0, int(self._frame[step % self._ring[1]]) - (self.spec.stack - 1))

    def cut(self) -> None:
        """End the running episode: its newest step becomes a truncation."""
        state = self._state
        if not state["ended"] and state["age"] > 0:
            self._end[(state["steps"] - 1) % self._ring[1]] = End.TRUNCATED
            self._checksums[1].forget(state["steps"] - 1)
        state["ended"] = True

    # ------------------------------------------------------------------------------------ reading

    @property
    def steps(self) -> int:
        """Steps written so far, and the number of the next one."""
        return self._state["steps"]

    @property
    def oldest(self) -> int:
        """Number of the oldest step alive."""
        return self._state["oldest"]

    @property
    def running(self) -> int:
        """Steps of the running episode (counted up to 255)."""
        return 0 if self._state["ended"] else self._state["age"]

    @property
    def rings(self) -> tuple[Array, int]:
        """All records, and the number of slots for frames: for compiled functions."""
        return self._records, self._ring[0]

    def records(self, steps: Array) -> tuple[Array, Array, Array, Array, Array]:
        """(frame, action, reward, age, end) of these steps, of any shape."""
        found = self._records[steps % self._ring[1]]
        return found["frame"], found["action"], found["reward"], found["age"], found["end"]

    def stack_slots(self, frames: Array, ages: Array) -> Array:
        """Slots of the states ending at these frames, [stack, states], oldest first."""
        if self.spec.stack == 1:
            single: Array = (frames % self._ring[0])[None]
            return single
        back = np.arange(self.spec.stack - 1, -1, -1)[:, None]
        slots = (frames - back) % self._ring[0]
        return np.where(back <= ages, slots, self.zero_slot)

    def newest_frame(self, back: int = 0) -> Array:
        """The frame written `back` frames before the newest one."""
        frame: Array = self.frames[(self._state["frames"] - 1 - back) % self._ring[0]]
        return frame

    def newest_step(self, back: int = 0) -> tuple[int, float, int]:
        """(action, reward, end) written `back` steps before the newest one."""
        slot = (self._state["steps"] - 1 - back) % self._ring[1]
        return int(self._action[slot]), float(self._reward[slot]), int(self._end[slot])

    # -------------------------------------------------------------------------------- checkpoints

    def state(self) -> State:
        return {**self._state}

    def load(self, state: State) -> None:
        self._state = cast(LogState, {**state})
        self.protect(state)

    def protect(self, state: Mapping[str, Any]) -> None:
        """Do not overwrite frames that this checkpoint or a later one needs."""
        self._protected = state["first_frame"]

    @property
    def full(self) -> bool:
        """Whether the next step might overwrite a protected frame, so that a checkpoint is due."""
        return self._state["frames"] + 2 > self._protected + self._ring[0]

    def checksums(self, state: Mapping[str, Any]) -> State:
        """Checksums of everything that `state` refers to; may be called from another thread."""
        frames, steps = self._checksums
        return {
            FRAMES: frames.of(state["first_frame"], state["frames"]),
            STEPS: steps.of(state["oldest"], state["steps"]),
        }

    def remember(self, state: Mapping[str, Any], checksums: Mapping[str, Any]) -> None:
        """Keep the verified checksums of a checkpoint."""
        frames, steps = self._checksums
        frames.remember(state["first_frame"], state["frames"], checksums[FRAMES])
        steps.remember(state["oldest"], state["steps"], checksums[STEPS])

    def damage(self, state: Mapping[str, Any], checksums: Mapping[str, Any]) -> str:
        """What differs from the checksums of a checkpoint; empty if nothing does."""
        found = self.checksums(state)
        last = state["steps"] - 1  # at the newest frame but one, or but two: a new episode began
        newest = int(self._frame[last % self._ring[1]]) if last >= 0 else -1
        stale = last >= 0 and newest not in (state["frames"] - 2, state["frames"] - 3)
        rows = {FRAMES: ("first_frame", "frames"), STEPS: ("oldest", "steps")}
        for (name, (first, end)), ring in zip(rows.items(), self._checksums, strict=True):
            spans = list(blocks(state[first], state[end]))
            if len(checksums[name]) != len(spans):
                return f"the checksums of {self._folder / name} are incomplete"
            bad = [spans[block] for block in np.flatnonzero(found[name] != checksums[name])]
            if not bad:
                continue
            start, stop = bad[0][0], bad[-1][1]
            where = f"{self._folder / name}, {end} {start:,} to {stop - 1:,},"
            if all(ring.are_zero(*span) for span in bad):
                return f"{where} is zeroed"
            if stale:
                return f"{self._folder} is older than the checkpoint (step {last + 1:,} differs)"
            return f"{where} is damaged"
        if self.frames[self.zero_slot].any():
            return f"{self._folder / FRAMES}, padding, is damaged"
        return ""

    def sync(self) -> None:
        """Flush to disk; safe to call from another thread, without blocking this one."""
        for file in self._files:
            os.fsync(file)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def _allocate(path: Path, shape: tuple[int, ...], dtype: "np.dtype[Any]", make: bool) -> int:
    """Open the file with its full size reserved on disk; the file descriptor."""
    size = int(np.prod(shape)) * dtype.itemsize
    if not make and (what_is(path) != "file" or path.stat().st_size != size):
        raise UserError(f"{path} is missing or has the wrong size: cannot resume from this replay")
    descriptor = plain(path, os.O_RDWR | os.O_CREAT)
    if make:
        os.ftruncate(descriptor, 0)
        _reserve(descriptor, size)
    return descriptor


def _reserve(descriptor: int, size: int) -> None:
    """Reserve the bytes on disk; where the system or its file system cannot (macOS), write them."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    zeros = memoryview(bytes(min(size, ZEROS)))
    for start in range(0, size, ZEROS):
        rest = zeros[: size - start]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _map(file: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
    """The file as a plain ndarray (indexing is faster than with memmap)."""
    size = int(np.prod(shape)) * dtype.itemsize
    array: Array = np.frombuffer(mmap.mmap(file, size), dtype).reshape(shape)
    return array
