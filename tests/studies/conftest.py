"""The uninterrupted study, run once for all tests that compare with it."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Once
from tests.studies.small import LONG_STEPS, execute, run_study


@pytest.fixture(scope="session")
def whole(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small study, run by `local` without interruption, in new interpreters."""

    def run(home: Path) -> None:
        done = execute(home)
        assert done.returncode == 0, done.stdout + done.stderr
        (home / "said.txt").write_text(done.stdout + done.stderr)

    mine = tmp_path_factory.mktemp("studies") / "whole"  # tests work in it
    shutil.copytree(once("whole-study", run), mine)
    return mine


@pytest.fixture(scope="session")
def long_whole(once: Once) -> Path:
    """As `whole`, of `LONG_STEPS` steps; to compare with, not to work in."""

    def run(home: Path) -> None:
        done = run_study(home, steps=LONG_STEPS)
        assert done.returncode == 0, done.stdout + done.stderr

    return once("long-whole-study", run)
