"""Which code made a result: the version and, in a git checkout, its commit."""

import functools
import subprocess
from pathlib import Path

from proxrl import __version__

PACKAGE = Path(__file__).parent


@functools.cache
def source_version(package: Path = PACKAGE) -> str:
    """0.1.0; in a checkout 0.1.0+g1234abc, or 0.1.0+g1234abc.dirty if the package was edited."""
    if not (package.parents[1] / ".git").exists():  # installed, perhaps inside of another checkout
        return __version__
    try:
        commit = _git(package, "rev-parse", "--short=7", "HEAD")
        edited = _git(package, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):  # no git, or not its owner
        return __version__
    return f"{__version__}+g{commit}{'.dirty' if edited else ''}"


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
