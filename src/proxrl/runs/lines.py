"""JSONL files: append lines, truncate to a recorded length, read."""

import json
import os
from pathlib import Path
from typing import Any

from proxrl.errors import UserError


class LineFile:
    """A JSONL file open for appending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115

    @property
    def length(self) -> int:
        """Length in bytes."""
        return self._file.tell()

    def append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:  # an unbuffered write may be partial; on a full disk the next call raises
            data = data[self._file.write(data) :]

    def cut(self, length: int) -> None:
        """Truncate to the length that a checkpoint recorded."""
        if self.length < length:
            raise UserError(
                f"{self._path} is shorter than when the checkpoint was saved: restore the missing "
                "lines, or start a new run"
            )
        self._file.truncate(length)
        self._file.seek(0, os.SEEK_END)

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file; an incomplete last line is ignored."""
    if not path.exists():
        return []
    complete = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in complete]
