"""Setup of every test process, before anything else is imported."""

import fcntl
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

# One torch thread per process: tests run in parallel, and small networks gain nothing from more.
# Child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell in the background ignores SIGINT, and children inherit that: restore it for tests that
# interrupt them.
signal.signal(signal.SIGINT, signal.default_int_handler)

Once = Callable[[str, Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """`once(name, make)`: the folder that `make` filled, once for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder, done = shared / name, shared / f"{name}.done"
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # left by a failed attempt
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made
