"""Checkpoint files: written atomically, and loading them cannot execute code."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save
from safetensors.torch import save as torch_save

import proxrl
from proxrl.errors import UserError
from proxrl.runs.checkpoint import CorruptCheckpoint, _digest, joined, read, split, write

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
STATE = {
    "step": 5,
    "learner": {"online.body.0.weight": WEIGHTS, "adam.step": np.array(2.0), "updates": 3},
    "replay": {},
    "generators": {"acting": {"state": 2**127 - 1}},
    "journal": {"deep": {"er": np.zeros(0, np.int16)}, "losses": [0.1, None]},
}


def assert_same(one: object, other: object) -> None:
    if isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "1.safetensors", STATE)
    assert_same(read(tmp_path / "1.safetensors"), STATE)


def test_arrays_are_named_by_their_path_and_the_learners_without_its_name(tmp_path: Path) -> None:
    write(tmp_path / "1.safetensors", STATE)
    with safe_open(tmp_path / "1.safetensors", framework="numpy") as file:
        names = set(file.keys())
    assert names == {"online.body.0.weight", "adam.step", "journal.deep.er"}


def test_a_state_is_split_and_joined_again() -> None:
    arrays, document = split(STATE)
    assert document["learner"]["updates"] == 3
    assert document["learner"]["online.body.0.weight"] == {"$array": "online.body.0.weight"}
    assert_same(joined(arrays, json.loads(json.dumps(document))), STATE)


def test_tensors_are_written_as_arrays(tmp_path: Path) -> None:
    """Including one with another memory layout, such as channels-last weights."""
    turned = torch.arange(6.0).reshape(2, 3).T
    write(tmp_path / "1.safetensors", {"part": {"turned": turned, "scalar": torch.tensor(1.5)}})
    part = read(tmp_path / "1.safetensors")["part"]
    np.testing.assert_array_equal(part["turned"], turned.numpy())
    assert part["scalar"].shape == ()


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "1.safetensors"
    write(path, STATE)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        try:
            found = read(path)
        except CorruptCheckpoint:
            continue
        # A flipped bit that changes nothing that is read (header formatting) is harmless.
        assert_same(found, STATE)


@pytest.mark.parametrize("length", [0, 1, 50, -1])
def test_a_cut_file_is_noticed(tmp_path: Path, length: int) -> None:
    path = tmp_path / "1.safetensors"
    write(path, STATE)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptCheckpoint):
        read(path)


def written_as(path: Path, version: str, arrays: dict[str, np.ndarray], values: object) -> None:
    """A file of another format, as written by that version."""
    document = json.dumps(values, sort_keys=True)
    digest = _digest(arrays, f"{version} {document}")
    metadata = {"format": version, "state": document, "sha256": digest}
    path.write_bytes(save(arrays, metadata=metadata))


def test_format_1_is_translated(tmp_path: Path) -> None:
    arrays = {
        "online.layer.weight": WEIGHTS,
        "adam.layer.weight.mean": WEIGHTS,
        "replay.priorities": np.ones(4),
        "replay.largest_priority": np.array(2.0),
        "journal.actions": np.array([1, 0], np.int16),
    }
    values = {
        "step": 10,
        "updates": 4,
        "evaluated_step": 5,
        "episode": 7,
        "episode_return": 1.5,
        "generators": {"acting": {"state": 3}},
        "log": {"frames": 12},
        "log_start": 0,
        "previous_log": {"frames": 8},
        "interval": {"loss": [0.5, 1]},
        "lengths": {"metrics": 100, "episodes": 50},
        "machine": {"cpu": "x"},
    }
    written_as(tmp_path / "1.safetensors", "1", arrays, values)
    unchanged = ("step", "evaluated_step", "episode_return", "generators", "log", "log_start")
    unchanged += ("previous_log", "interval", "machine")
    assert_same(
        read(tmp_path / "1.safetensors"),
        {
            **{name: values[name] for name in unchanged},
            "learner": {
                "updates": 4,
                "online.layer.weight": WEIGHTS,
                "adam.layer.weight.mean": WEIGHTS,
            },
            "replay": {"priorities": np.ones(4), "largest_priority": np.array(2.0)},
            "proximal_replay": {},
            "episodes": {"number": 7, "actions": np.array([1, 0], np.int16)},
            "logger": {"metrics": 100, "episodes": 50},
            "training_returns": {"period": 0, "completed": []},
        },
    )


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize(
    "document",
    ["", "{", "[1]", "5", "null", "[" * 100_000, '{"$array": "no"}', '{"$array": [1]}', "9" * 5000],
)
def test_a_forged_document_is_a_damaged_checkpoint(
    document: str, version: str, tmp_path: Path
) -> None:
    """With the right checksum."""
    metadata = {"format": version, "state": document}
    metadata["sha256"] = _digest({}, f"{version} {document}")
    (tmp_path / "1.safetensors").write_bytes(save({}, metadata=metadata))
    with pytest.raises(CorruptCheckpoint, match=r"1\.safetensors (has a part|does not hold)"):
        read(tmp_path / "1.safetensors")


def test_a_file_without_a_document_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    metadata = {"format": "3", "sha256": _digest({}, "3 None")}
    (tmp_path / "1.safetensors").write_bytes(save({}, metadata=metadata))
    with pytest.raises(CorruptCheckpoint, match="has a part missing"):
        read(tmp_path / "1.safetensors")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_a_tensor_that_numpy_cannot_hold_is_a_damaged_checkpoint(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    content = torch_save({"a": torch.zeros(2).to(dtype)}, metadata={"format": "3", "state": "{}"})
    (tmp_path / "1.safetensors").write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match="cannot be read"):
        read(tmp_path / "1.safetensors")


def test_control_characters_in_a_header_are_escaped(tmp_path: Path) -> None:
    """They would reach the terminal."""
    path = tmp_path / "5.safetensors"
    tensor = {"dtype": "\x1b]0;owned\x07\x1b[31mF32", "shape": [1], "data_offsets": [0, 4]}
    header = json.dumps({"x": tensor}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(CorruptCheckpoint, match="cannot be read") as caught:
        read(path)
    assert "owned" in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_format_of_the_future_is_named(tmp_path: Path) -> None:
    written_as(tmp_path / "1.safetensors", "4", {}, {})
    with pytest.raises(UserError, match="has format 4, this version of proxrl reads 1, 2 and 3"):
        read(tmp_path / "1.safetensors")


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
