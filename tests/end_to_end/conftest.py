"""Uninterrupted runs, each trained once for all tests that compare with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Once
from tests.end_to_end.runs import begin

WholeRun = Callable[[str], Path]


@pytest.fixture(scope="session")
def whole_run(once: Once) -> WholeRun:
    """An uninterrupted run by name, trained once by a new interpreter."""

    def train_whole(folder: Path) -> None:
        finished = begin(folder.name.removeprefix("undisturbed-"), folder / "run", "finish")
        _, stderr = finished.communicate()
        assert finished.returncode == 0, stderr

    return lambda name: once(f"undisturbed-{name}", train_whole) / "run"
