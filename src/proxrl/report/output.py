"""Writing a report: only over files that an earlier report wrote and nobody has edited since.

The manifest has a SHA-256 of each file. While a report is being written it has two, because a
process that is killed leaves some files of the earlier report and some of the new one.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from proxrl.errors import UserError
from proxrl.files import read_bytes

MANIFEST = ".proxrl-report.json"  # files of ours -> SHA-256, or two of them
FILES = ("index.html", "scores.csv", "comparisons.csv", "training_returns.csv", "trials.csv")
EDITED = ".edited"  # suffix of the copy of a file that someone has edited


def write_files(
    out: Path, files: dict[str, bytes], say: Callable[[str], None] = lambda line: None
) -> None:
    """Write the files and the manifest, and remove files of an earlier report that this one does
    not have. Files that are not in the manifest are never overwritten or removed; those that were
    edited since are renamed, and `say` names them."""
    ours = _manifest(out)
    names = {*files, *ours}  # to write, and to remove
    for folder in sorted({parent for name in names for parent in (out / name).parents}):
        if out in folder.parents and folder.is_symlink():
            raise UserError(f"{folder} is a symbolic link: choose another --out")
    for name in files:
        if name not in ours and os.path.lexists(out / name):
            raise UserError(
                f"{out / name} exists and was not made by `proxrl report`: "
                "move it, or choose another folder"
            )
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    either = {name: f"{ours.get(name, '')} {digest}".strip() for name, digest in digests.items()}
    try:
        for name in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
        edited = [name for name in files if os.path.lexists(out / name)]
        edited = [name for name in edited if not _is_one_of(out / name, either[name])]
        kept = [_keep(out / name) for name in edited]
        if kept:
            say(f"{', '.join(edited)} edited since the last report: kept as {', '.join(kept)}")
        _replace(out / MANIFEST, json.dumps({**ours, **either}, indent=1).encode())  # before them
        for name, content in files.items():
            _replace(out / name, content)
        for name in sorted(ours.keys() - files.keys()):
            path = out / name
            if _is_one_of(path, ours[name]):  # else it was edited, and is no longer ours
                path.unlink()
                _remove_empty(path.parent, out)
        _replace(out / MANIFEST, json.dumps(digests, indent=1).encode())
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from None


def _is_one_of(path: Path, digests: str) -> bool:
    """Whether a regular file has one of these digests."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest() in digests.split()
    except OSError:
        return False


def _keep(path: Path) -> str:
    """Rename an edited file; returns its new name."""
    number, kept = 1, path.with_name(path.name + EDITED)
    while os.path.lexists(kept):
        number += 1
        kept = path.with_name(f"{path.name}{EDITED}-{number}")
    path.rename(kept)
    return kept.name


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        with open(unfinished, "xb") as file:  # a new file, never through a link
            file.write(content)
        os.replace(unfinished, path)
    except OSError:  # the disk is full
        unfinished.unlink(missing_ok=True)
        raise


def _manifest(out: Path) -> dict[str, str]:
    """Files that an earlier report wrote here; names outside the folder are ignored."""
    try:
        found = json.loads(read_bytes(out / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: str(digest) for name, digest in found.items() if _could_be_ours(name)}


def _could_be_ours(name: str) -> bool:
    """Whether a report can have a file of this name: FILE, SECTION/FILE, where FILE may be in
    figures/. A name never leads out of the folder."""
    *folders, file = name.split("/")
    if folders[-1:] == ["figures"]:
        folders, known = folders[:-1], file not in ("", ".", "..") and file.isprintable()
    else:
        known = file in FILES
    return known and len(folders) <= 1 and all(re.fullmatch("[a-z0-9-]+", one) for one in folders)


def _remove_empty(folder: Path, out: Path) -> None:
    """Remove a folder of an earlier section, and the one above it, if nothing is left in it."""
    while folder != out and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def require_writable(out: Path) -> None:
    """Check before the work starts."""
    existing = next(one for one in (out, *out.parents) if one.exists())
    if not existing.is_dir():
        raise UserError(f"cannot write to {out}: Not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {out}: Permission denied")
