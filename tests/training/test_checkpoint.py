"""Background checkpoints: one at a time, the newest two kept, errors raised in the main thread."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from proxrl.runs import checkpoint
from proxrl.runs.checkpoint import checkpoint_steps
from proxrl.training.checkpoint import Checkpointer

STATE = {"step": 5, "learner": {"weights": np.zeros(3)}}


def save(to: Checkpointer, step: int) -> None:
    to.wait()
    to.save(step, {**STATE, "step": step}, first=lambda: None)


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    writer = Checkpointer(tmp_path)
    for step in (10, 20, 30, 40):
        save(writer, step)
    writer.wait()
    assert checkpoint_steps(tmp_path) == [30, 40]


def test_all_are_kept_if_asked_for(tmp_path: Path) -> None:
    writer = Checkpointer(tmp_path, keep_all=True)
    for step in (10, 20, 30):
        save(writer, step)
    writer.wait()
    assert checkpoint_steps(tmp_path) == [10, 20, 30]


def test_left_overs_of_a_killed_write_are_removed(tmp_path: Path) -> None:
    (tmp_path / "000000000010.writing").write_bytes(b"half")
    Checkpointer(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_goes_wrong_in_the_background_is_raised_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Checkpointer(tmp_path)

    def full(*_: object, **words: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "write", full)
    writer.save(10, STATE, first=lambda: None)
    with pytest.raises(OSError, match="No space left"):
        writer.wait()


def test_the_log_is_synced_before_the_checkpoint_appears(tmp_path: Path) -> None:
    writer = Checkpointer(tmp_path)
    seen: list[list[int]] = []
    writer.save(10, STATE, first=lambda: seen.append(checkpoint_steps(tmp_path)))
    writer.wait()
    assert seen == [[]]
    assert checkpoint_steps(tmp_path) == [10]
