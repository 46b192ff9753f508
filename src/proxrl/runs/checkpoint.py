"""Checkpoint files: written atomically, and loading them cannot execute code.

A checkpoint is one safetensors file. Its state is a tree of dictionaries whose leaves are arrays or
JSON values. Arrays are tensors of the file, named by their path (`replay.priorities`; those of the
learner without its name: `online.*`, `target.*`, `adam.*`, `rule.*`); the rest is a JSON document
in the header, which refers to them as {"$array": name}, with a SHA-256 of everything. A file is
written under a temporary name, synced, and renamed.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from proxrl.config import RunConfig, differences, from_json
from proxrl.errors import UserError, printable
from proxrl.files import plain, what_is
from proxrl.types import Array, State

FORMAT = 3
READABLE = ("1", "2", "3")  # before 3: without config and digests of the other files
SUFFIX = ".safetensors"
ARRAY = "$array"
UNNAMED = "learner."  # the prefix that array names omit
MAY_CHANGE = ("steps", "evaluation.", "logging.")  # settings that may change when resuming


# What reading a state raises whose parts are missing or of other types than this version saves.
MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError)


class CorruptCheckpoint(ValueError):
    """The checkpoint is damaged."""


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"{step:012d}{SUFFIX}"


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps of the complete checkpoints in a folder, oldest first."""
    named = (path for path in folder.glob(f"[0-9]*{SUFFIX}") if path.stem.isdecimal())
    # Not copies that other programs made: 000000000700 (copy).safetensors
    return sorted(
        int(path.stem) for path in named if checkpoint_path(folder, int(path.stem)) == path
    )


def remove(folder: Path, step: int) -> None:
    """Delete a checkpoint; a directory under its name is not one, and is left."""
    path = checkpoint_path(folder, step)
    if what_is(path) == "file":
        path.unlink()


def write(path: Path, state: State, before_rename: Callable[[], None] = lambda: None) -> None:
    """Write one checkpoint durably and atomically.

    `before_rename` may raise; then no checkpoint is created.
    """
    arrays, values = split(state)
    document = json.dumps(values, sort_keys=True)
    metadata = {
        "format": str(FORMAT),
        "state": document,
        "sha256": _digest(arrays, f"{FORMAT} {document}"),
    }
    unfinished = path.with_suffix(".writing")
    with open(unfinished, "wb", opener=plain) as file:
        file.write(save(arrays, metadata=metadata))
        file.flush()
        os.fsync(file.fileno())
    before_rename()
    os.replace(unfinished, path)
    sync_folder(path.parent)


def read(path: Path) -> State:
    """Read the state; raises `CorruptCheckpoint`."""
    kind = what_is(path)
    if kind not in ("file", ""):
        raise CorruptCheckpoint(f"{path.name} is a {kind}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, UnicodeDecodeError, TypeError, AttributeError) as error:
        # The last two: of a dtype that NumPy does not have, such as bfloat16.
        raise CorruptCheckpoint(f"{path.name} cannot be read ({printable(str(error))})") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    version, document = metadata.get("format"), metadata.get("state")
    if metadata.get("sha256") != _digest(arrays, f"{version} {document}"):
        raise CorruptCheckpoint(f"{path.name} does not match its checksum")
    if version not in READABLE:
        raise UserError(
            f"{path} has format {version}, this version of proxrl reads 1, 2 and 3: "
            "use the version that wrote it"
        )
    try:
        values = json.loads(metadata["state"])
        state = _from_format_1(arrays, values) if version == "1" else joined(arrays, values)
    except (KeyError, TypeError, AttributeError):
        raise CorruptCheckpoint(f"{path.name} has a part missing") from None
    except (ValueError, RecursionError):
        raise CorruptCheckpoint(f"{path.name} does not hold valid JSON") from None
    if not isinstance(state, dict):
        raise CorruptCheckpoint(f"{path.name} does not hold a state")
    return state


def require_step(state: State, step: int, name: str) -> None:
    """Raise `CorruptCheckpoint` unless the state is of this step and records the lengths of metrics
    and episodes. A matching checksum does not tell: anyone can compute one."""
    if not _is_count(state.get("step")):
        raise CorruptCheckpoint(f"{name} does not say its step")
    if state["step"] != step:
        raise CorruptCheckpoint(f"{name} holds step {state['step']}")
    lines = state.get("logger")
    for part in ("metrics", "episodes"):
        if not isinstance(lines, dict) or not _is_count(lines.get(part)):
            raise CorruptCheckpoint(f"{name} does not say the length of {part}")
        if not isinstance(lines.get(f"{part}_sha256"), str | None):
            raise CorruptCheckpoint(f"{name} has an invalid SHA-256 of {part}")


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def changed_settings(state: State, config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Settings in which a config differs from the checkpoint's; empty if it has none (format 2)."""
    if "config" not in state:
        return {}
    try:
        return differences(from_json(state["config"]), config)
    except UserError:
        raise
    except (ValueError, TypeError) as error:  # an array in place of a value
        raise CorruptCheckpoint(f"has a config that cannot be read: {error}") from None


def require_same_settings(state: State, config: RunConfig, where: Path) -> None:
    """Raise a `UserError` if the file `where` has other settings than the checkpoint."""
    changed = changed_settings(state, config).items()
    fixed = [f"{path} was {a}, is {b}" for path, (a, b) in changed if not is_free(path)]
    if fixed:
        raise UserError(
            f"{where} was changed since the checkpoint at step {state['step']:,}: "
            f"{', '.join(fixed)}; restore it, or start a new run"
        )


def is_free(path: str) -> bool:
    """Whether a setting may change when a run is resumed."""
    return path.startswith(MAY_CHANGE)


def split(state: State) -> tuple[dict[str, Array], dict[str, Any]]:
    """(arrays by name, JSON document) of a state; CPU tensors of torch count as arrays."""
    arrays: dict[str, Array] = {}

    def plain(node: Any, path: str) -> Any:
        if isinstance(node, dict):
            return {
                key: plain(value, f"{path}.{key}" if path else key) for key, value in node.items()
            }
        if not hasattr(node, "__array__"):
            return node
        name = path.removeprefix(UNNAMED)
        assert name not in arrays, f"two arrays of a checkpoint are named {name}"
        arrays[name] = np.asarray(node, order="C")
        return {ARRAY: name}

    return arrays, plain(state, "")


def joined(arrays: dict[str, Array], document: Any) -> Any:
    """The inverse of `split`."""
    if not isinstance(document, dict):
        return document
    if document.keys() == {ARRAY}:
        return arrays[document[ARRAY]]
    return {key: joined(arrays, value) for key, value in document.items()}


def _from_format_1(arrays: dict[str, Array], values: dict[str, Any]) -> State:
    """In format 1, the values of all parts were in one dictionary; array names are the same."""
    learner = ("online.", "target.", "adam.", "rule.")
    moved = ("updates", "episode", "lengths")
    return {
        **{name: value for name, value in values.items() if name not in moved},
        "learner": {
            "updates": values["updates"],
            **{name: array for name, array in arrays.items() if name.startswith(learner)},
        },
        "replay": {
            name.removeprefix("replay."): array
            for name, array in arrays.items()
            if name.startswith("replay.")
        },
        "proximal_replay": {},
        "episodes": {"number": values["episode"], "actions": arrays["journal.actions"]},
        "logger": values["lengths"],
        "training_returns": {"period": 0, "completed": []},  # not recorded in format 1
    }


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(arrays: dict[str, Array], document: str) -> str:
    digest = hashlib.sha256(document.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
