"""The undisturbed study, run once for all that compare with it."""

from pathlib import Path

import pytest

from tests.studies.small import carry_out


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small study was run to its end, by `local`, in one go."""
    home = tmp_path_factory.mktemp("whole")
    done = carry_out(home)
    assert done.returncode == 0, done.stdout + done.stderr
    (home / "said.txt").write_text(done.stdout + done.stderr)
    return home
