"""Checks the shared storage of a cluster before anything is written to it.

Every node must see the study's folder under the same path, see what the driver has just written,
rename atomically onto an existing name, and respect a `flock` that another node holds. NFS version
4, Lustre (mounted with -o flock), CephFS and GPFS do; object stores mounted as folders do not.
"""

import contextlib
import fcntl
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class StorageProbe(NamedTuple):
    """The files that the driver writes for a node to find."""

    folder: str
    token: str

    @property
    def locked(self) -> Path:
        return Path(self.folder) / f".probe-{self.token}-locked"

    def answer(self, node: str) -> Path:
        return Path(self.folder) / f".probe-{self.token}-{node}"


@contextlib.contextmanager
def probing(folder: Path) -> Iterator[StorageProbe]:
    """Write a file with a token and lock it; all probe files are removed afterwards."""
    probe = StorageProbe(str(folder), uuid.uuid4().hex)
    try:
        with open(probe.locked, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(probe.token)
            file.flush()
            os.fsync(file.fileno())
            yield probe
    finally:
        for path in folder.glob(f".probe-{probe.token}*"):
            path.unlink(missing_ok=True)


def check_storage(probe: StorageProbe, node: str) -> str | None:
    """The problem with the folder on this node; None if there is none."""
    where = f"{probe.folder} on {socket.gethostname()}"
    try:
        with open(probe.locked) as file:
            if file.read() != probe.token:
                return f"{where} does not show what the driver wrote"
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return f"{where} does not honour flock between processes: mount it with locks"
        trial = Path(f"{probe.answer(node)}.{uuid.uuid4().hex}")  # a node may be asked twice
        unfinished = Path(f"{trial}.writing")
        for text in ("first", probe.token):  # twice: the second rename is onto an existing name
            unfinished.write_text(text)
            os.replace(unfinished, trial)
        if trial.read_text() != probe.token:
            return f"{where} does not rename onto an existing name"
        os.replace(trial, probe.answer(node))
    except FileNotFoundError:
        return f"{where} is not the driver's folder: it must be on storage that all nodes share"
    except OSError as error:
        return f"{where} cannot be used: {error.strerror}"
    return None


def answered(probe: StorageProbe, node: str) -> bool:
    """Whether the driver sees what a node wrote."""
    try:
        return probe.answer(node).read_text() == probe.token
    except OSError:
        return False
