"""Which code made a result: the version and, in a git checkout, its commit."""

import functools
import hashlib
import subprocess
from pathlib import Path

from proxrl import __version__

PACKAGE = Path(__file__).parent


@functools.cache
def source_version(package: Path = PACKAGE) -> str:
    """0.1.0; in a checkout 0.1.0+g1234abc; if the package was edited, 0.1.0+g1234abc.dirty.5678def,
    with a hash of its files."""
    if not (package.parents[1] / ".git").exists():  # installed, perhaps inside of another checkout
        return __version__
    try:
        commit = _git(package, "rev-parse", "--short=7", "HEAD")
        edited = _git(package, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):  # no git, or not its owner
        return __version__
    return f"{__version__}+g{commit}{f'.dirty.{_digest(package)}' if edited else ''}"


def _digest(package: Path) -> str:
    """Of the files that make results: seven digits."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".c", ".h", ".toml", ".csv"):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:7]


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
