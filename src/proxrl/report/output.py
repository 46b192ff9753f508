"""Writing a report: only into files that an earlier report wrote, or that do not exist."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from proxrl.errors import UserError
from proxrl.files import plain, read_bytes

MANIFEST = ".proxrl-report.json"  # files of ours -> SHA-256
FILES = ("index.html", "scores.csv", "training_returns.csv")


def write_files(out: Path, files: dict[str, bytes]) -> None:
    """Write the files and the manifest, and remove files of an earlier report that this one does
    not have. Files that are not in the manifest are never overwritten or removed."""
    folders = sorted({parent for name in files for parent in (out / name).parents if parent != out})
    for folder in folders:
        if out in folder.parents and folder.is_symlink():
            raise UserError(f"{folder} is a symbolic link: choose another --out")
    ours = _manifest(out) or _before_manifests(out, files)
    for name in files:
        if name not in ours and os.path.lexists(out / name):
            raise UserError(
                f"{out / name} exists and was not made by `proxrl report`: "
                "choose another --out, or move it"
            )
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    try:
        for name in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
        _replace(out / MANIFEST, json.dumps({**ours, **digests}, indent=1).encode())  # before them
        for name, content in files.items():
            _replace(out / name, content)
        for name in sorted(ours.keys() - files.keys()):
            path = out / name
            # if modified since, it is no longer ours
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == ours[name]:
                path.unlink()
                _remove_empty(path.parent, out)
        _replace(out / MANIFEST, json.dumps(digests, indent=1).encode())
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from None


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.writing")
    with open(unfinished, "xb") as file:  # a new file, never through a link
        file.write(content)
    os.replace(unfinished, path)


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
        folders, known = folders[:-1], file not in ("", ".", "..")
    else:
        known = file in FILES
    return known and len(folders) <= 1 and all(re.fullmatch("[a-z0-9-]+", one) for one in folders)


def _remove_empty(folder: Path, out: Path) -> None:
    """Remove a folder of an earlier section, and the one above it, if nothing is left in it."""
    while folder != out and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _before_manifests(out: Path, files: Iterable[str]) -> dict[str, str]:
    """Reports of proxrl 0.1 have no manifest: recognised by the page, they may be overwritten."""
    try:
        with open(out / "index.html", "rb", opener=plain) as file:
            is_ours = b'<p class="kicker">proxrl report</p>' in file.read(2**16)
    except OSError:
        return {}
    return dict.fromkeys(files, "") if is_ours else {}


def require_writable(out: Path) -> None:
    """Check before the work starts."""
    existing = next(one for one in (out, *out.parents) if one.exists())
    if not existing.is_dir():
        raise UserError(f"cannot write to {out}: Not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {out}: Permission denied")
