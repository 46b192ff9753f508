"""The uninterrupted study, run once for all tests that compare with it."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Once
from tests.studies.small import execute


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
