"""The version that results carry: with the commit in a checkout, without it elsewhere."""

import subprocess
from pathlib import Path

from proxrl import __version__
from proxrl.source import source_version


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_checkout_has_its_commit_and_says_if_the_package_was_edited(tmp_path: Path) -> None:
    def version() -> str:
        source_version.cache_clear()
        return source_version(package)

    package = tmp_path / "src" / "proxrl"
    package.mkdir(parents=True)
    (package / "a.py").touch()
    assert version() == __version__, "not a checkout"
    git(tmp_path, "init")
    assert version() == __version__, "without a commit"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "first")
    commit = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    assert version() == f"{__version__}+g{commit}"
    (tmp_path / "notes.txt").touch()
    assert version() == f"{__version__}+g{commit}", "only the package matters"
    (package / "a.py").write_text("x = 1\n")
    edited = version()
    assert edited.startswith(f"{__version__}+g{commit}.dirty.")
    assert version() == edited
    (package / "a.py").write_text("x = 2\n")
    assert version() != edited, "another edit is another version"
    source_version.cache_clear()
