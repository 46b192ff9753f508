"""Checkpoints that are whole or absent.

A checkpoint is one safetensors file: arrays, and a JSON document in its header with a SHA-256 of
everything. It is written beside its final name, synced, and renamed last; the newest two are kept.
Nothing in it can execute code.

Training pauses only while it copies its state in memory; a background thread syncs the replay log,
then writes. The next checkpoint waits for it, so that at most one is in flight.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from proxrl.errors import UserError
from proxrl.types import Array

FORMAT = 1
SUFFIX = ".safetensors"


class CorruptCheckpoint(ValueError):
    """A checkpoint that is not what was written."""


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"{step:012d}{SUFFIX}"


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps of the finished checkpoints in a folder, oldest first."""
    return sorted(int(path.stem) for path in folder.glob(f"[0-9]*{SUFFIX}"))


def write(
    path: Path,
    arrays: dict[str, Array],
    state: dict[str, Any],
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Write one checkpoint durably: complete under its name, or not there at all.

    `before_rename` may raise, and nothing appears.
    """
    document = json.dumps(state, sort_keys=True)
    metadata = {
        "format": str(FORMAT),
        "state": document,
        "sha256": _digest(arrays, f"{FORMAT} {document}"),
    }
    unfinished = path.with_suffix(".writing")
    with open(unfinished, "wb") as file:
        file.write(save(arrays, metadata=metadata))
        file.flush()
        os.fsync(file.fileno())
    before_rename()
    os.replace(unfinished, path)
    sync_folder(path.parent)


def read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """(arrays, state), or `CorruptCheckpoint`."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, UnicodeDecodeError) as error:
        raise CorruptCheckpoint(f"{path.name} cannot be read ({error})") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    document = f"{metadata.get('format')} {metadata.get('state')}"
    if metadata.get("sha256") != _digest(arrays, document):
        raise CorruptCheckpoint(f"{path.name} does not match its checksum")
    if metadata.get("format") != str(FORMAT):
        raise UserError(
            f"{path} has format {metadata.get('format')}, this proxrl reads {FORMAT}: use the "
            "version that wrote it"
        )
    return arrays, json.loads(metadata["state"])


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


class Checkpointer:
    """Writes checkpoints into a folder in the background, one at a time.

    `require_right` raises when this process has lost its right to write there: then nothing is.
    """

    def __init__(
        self,
        folder: Path,
        keep_all: bool = False,
        require_right: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._keep_all = keep_all
        self._require_right = require_right
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.writing"):  # of a process that was killed
            left.unlink()

    def save(
        self, step: int, arrays: dict[str, Array], state: dict[str, Any], first: Callable[[], None]
    ) -> None:
        """Begin to write; call `wait` before. `first` runs before the file appears."""
        assert self._thread is None, "wait for the checkpoint before"

        def work() -> None:
            try:
                self._require_right()
                first()
                path = checkpoint_path(self._folder, step)
                write(path, arrays, state, before_rename=self._require_right)
                self._remove_old()
            except BaseException as error:  # handed to the thread that trains
                self._error = error

        self._thread = threading.Thread(target=work, name=f"checkpoint-{step}")
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is in flight; raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def check(self) -> None:
        """Raise what went wrong in the background, if anything did."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _remove_old(self) -> None:
        if not self._keep_all:
            for step in checkpoint_steps(self._folder)[:-2]:
                checkpoint_path(self._folder, step).unlink()
