"""JSONL files: append lines, truncate to a recorded length, verify, read."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from proxrl.errors import UserError
from proxrl.files import plain, read_bytes

SHORTER = "is shorter than when the checkpoint was saved"


class LineFile:
    """A JSONL file open for appending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0, opener=plain)  # noqa: SIM115
        self._digest = hashlib.sha256()  # of all lines, after `cut`

    @property
    def length(self) -> int:
        """Length in bytes."""
        return self._file.tell()

    @property
    def sha256(self) -> str:
        """Digest of the content."""
        return self._digest.hexdigest()

    def append(self, line: dict[str, Any]) -> None:
        left = data = json.dumps(line).encode() + b"\n"
        before = self.length
        try:
            while left:  # an unbuffered write may be partial; on a full disk the next call raises
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(before)  # no part of a line
            self._file.seek(before)
            raise
        self._digest.update(data)

    def cut(self, length: int) -> None:
        """Truncate to the length that a checkpoint recorded."""
        if self.length < length:
            raise UserError(f"{self._path} {SHORTER}: restore the missing lines")
        self._file.truncate(length)
        self._file.seek(0, os.SEEK_END)
        self._digest = hashlib.sha256(read_bytes(self._path))

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def changed_since(path: Path, length: int, sha256: str | None) -> str:
    """What is wrong with the lines that a checkpoint recorded; empty if they are intact.

    `sha256`: None if the checkpoint has only their length (formats 1 and 2).
    """
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        return f"{path.name} {error.strerror}"
    if len(content) < length:
        return f"{path.name} {SHORTER}"
    if sha256 is not None and hashlib.sha256(content[:length]).hexdigest() != sha256:
        return f"{path.name} was changed since the checkpoint was saved"
    return ""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file; an incomplete last line is ignored."""
    try:
        complete = read_bytes(path).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in complete]


def last_step(path: Path) -> int:
    """The largest step of the lines of a JSONL file; 0 if no line can be read."""
    try:
        lines = read_bytes(path).splitlines()
    except OSError:
        return 0
    return max(map(_step, lines), default=0)


def _step(line: bytes) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return 0
