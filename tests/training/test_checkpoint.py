"""Checkpoints are whole or absent, and nothing in them can run."""

import ast
import errno
import os
from pathlib import Path

import numpy as np
import pytest

import proxrl
from proxrl.training import checkpoint
from proxrl.training.checkpoint import (
    Checkpointer,
    CorruptCheckpoint,
    checkpoint_steps,
    read,
    write,
)

ARRAYS = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "none": np.zeros(0, np.int16)}
STATE = {"step": 5, "generator": {"state": 2**127 - 1}, "loss": 0.1}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "1.safetensors", ARRAYS, STATE)
    arrays, state = read(tmp_path / "1.safetensors")
    assert state == STATE
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "1.safetensors"
    write(path, ARRAYS, STATE)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        try:
            arrays, state = read(path)
        except CorruptCheckpoint:
            continue
        # A bit that changes nothing that is read (the header's own spelling) is no damage.
        assert state == STATE
        assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


@pytest.mark.parametrize("length", [0, 1, 50, -1])
def test_a_cut_file_is_noticed(tmp_path: Path, length: int) -> None:
    path = tmp_path / "1.safetensors"
    write(path, ARRAYS, STATE)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptCheckpoint):
        read(path)


def save(to: Checkpointer, step: int) -> None:
    to.wait()
    to.save(step, ARRAYS, {"step": step}, first=lambda: None)


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
    writer.save(10, ARRAYS, STATE, first=lambda: None)
    with pytest.raises(OSError, match="No space left"):
        writer.wait()


def test_the_log_is_synced_before_the_checkpoint_appears(tmp_path: Path) -> None:
    writer = Checkpointer(tmp_path)
    seen: list[list[int]] = []
    writer.save(10, ARRAYS, STATE, first=lambda: seen.append(checkpoint_steps(tmp_path)))
    writer.wait()
    assert seen == [[]]
    assert checkpoint_steps(tmp_path) == [10]


def test_no_module_of_the_package_loads_pickle() -> None:
    """Neither by name nor through torch.load, numpy's allow_pickle, joblib or shelve."""
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
    for path in Path(proxrl.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not forbidden & {name.name.split(".")[0] for name in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in forbidden, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                called = f"{owner.id}.{node.func.attr}" if isinstance(owner, ast.Name) else ""
                assert called != "torch.load", path
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert ast.unparse(node.value) == "False", path
