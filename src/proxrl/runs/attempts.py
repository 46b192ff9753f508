"""Attempts at a run: each process that trains in a folder takes the next number and leaves a file.

Numbers are for an unreachable process on another machine that still holds the folder's lock: a
newer attempt enters and waits; the older process sees it before its next evaluation or checkpoint,
and stops.
"""

import contextlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from proxrl.files import read_text

ATTEMPTS = "attempts"
NODE = "PROXRL_NODE"  # environment variable: the cluster node of this process


def newest_attempt(folder: Path) -> int:
    """Number of the newest attempt, from 1; 0 if there was none."""
    names = [path.stem for path in (folder / ATTEMPTS).glob("[0-9]*.json")]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def enter_attempt(folder: Path) -> int:
    """Take the next number, unique by exclusive file creation."""
    about: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid()}
    about |= {"unix_time": time.time(), "node": os.environ.get(NODE, "")}
    number = newest_attempt(folder)
    (folder / ATTEMPTS).mkdir(exist_ok=True)
    while True:
        number += 1
        with contextlib.suppress(FileExistsError):
            with open(folder / ATTEMPTS / f"{number}.json", "x") as file:
                file.write(json.dumps(about) + "\n")
            return number


def node_of(folder: Path) -> str:
    """The cluster node of the newest attempt; empty if there is none."""
    return str(_about(folder).get("node", ""))


def process_of(folder: Path) -> str:
    """The newest attempt as (pid 123 on host-a); empty if it cannot be read."""
    about = _about(folder)
    return f" (pid {about['pid']} on {about['host']})" if {"pid", "host"} <= about.keys() else ""


def _about(folder: Path) -> dict[str, Any]:
    """What the newest attempt wrote; empty if it cannot be read."""
    try:
        about = json.loads(read_text(folder / ATTEMPTS / f"{newest_attempt(folder)}.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}
