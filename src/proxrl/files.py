"""Opening files in a run folder, which may come from someone else: regular files only.

Symbolic links are not followed, so that nothing outside the folder is read or written through one,
and a FIFO does not block.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from proxrl.errors import UserError


def plain(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file; raises `OSError` if it is anything else. `open(..., opener=plain)`."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise OSError(errno.ELOOP, "is a symbolic link", str(path)) from None
        raise
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        what = "is a directory" if stat.S_ISDIR(kind) else "is not a regular file"
        raise OSError(errno.EINVAL, what, str(path))
    return descriptor


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    with open(path, "rb", opener=plain) as file:
        return file.read()


def read_text(path: Path) -> str:
    return read_bytes(path).decode()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8; surrogates, the bytes of a path that is not UTF-8, are escaped."""
    with open(path, "w", encoding="utf-8", errors="backslashreplace", opener=plain) as file:
        file.write(text)


def what_is(path: Path) -> str:
    """ "file", "folder", "symbolic link", "special file", or "" if there is nothing."""
    try:
        kind = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if stat.S_ISLNK(kind):
        return "symbolic link"
    return "file" if stat.S_ISREG(kind) else "folder" if stat.S_ISDIR(kind) else "special file"


def require_plain(
    folder: Path, files: Iterable[str], folders: Iterable[str], dangling: Sequence[str] = ()
) -> None:
    """Raise a `UserError` if one of these names in a folder is a link, a special file or of the
    wrong kind, or if one of its folders contains a link or a special file.

    `dangling`: patterns of names that may be links to nothing.
    """
    kinds = {folder / name: "file" for name in files}
    kinds |= {folder / name: "folder" for name in folders}
    for path, right in kinds.items():
        kind = what_is(path)
        if kind not in ("", right):
            raise UserError(f"{path} is a {kind}, not a {right}: refused")
        if kind == "folder":
            for above, below, names in os.walk(path):
                for one in (Path(above, name) for name in (*below, *names)):
                    kind = what_is(one)
                    if kind in ("", "file", "folder"):
                        continue
                    if not one.exists() and any(map(one.relative_to(folder).match, dangling)):
                        continue
                    raise UserError(f"{one} is a {kind}: refused")
