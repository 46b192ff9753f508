"""The lock of a run folder: `flock` on a file in it and on the folder itself.

The system releases both when the process dies. A lock file can be deleted while it is held, and the
next process would lock a new one: the lock on the folder still keeps it out. Where a folder cannot
be locked (some network storage), the holder of a file that was deleted or replaced can tell by its
inode (`is_lost`).
"""

import fcntl
import os
from pathlib import Path

from proxrl.files import plain

LOCK = ".lock"


class FolderLock:
    """A lock that is not held yet."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / LOCK
        self._file: int | None = None
        self._directory: int | None = None

    def acquire(self) -> bool:
        """Whether the lock was free; now it is held. Raises `OSError` if it cannot be opened."""
        self._file = plain(self._path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock_directory()
        except BlockingIOError:
            self.release()
            return False
        if self.is_lost or _inode(self._file) != _inode(self._path):  # deleted since it was opened
            self.release()
            return False
        return True

    def _lock_directory(self) -> None:
        self._directory = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # not supported by this file system
            os.close(self._directory)
            self._directory = None

    def release(self) -> None:
        for descriptor in (self._file, self._directory):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._directory = None

    @property
    def is_lost(self) -> bool:
        """Whether another process may hold a newer lock: of a new folder of this name, or, where
        folders cannot be locked, of a new file."""
        assert self._file is not None
        if self._directory is not None:
            return _inode(self._directory) != _inode(self._folder)
        return _inode(self._file) != _inode(self._path)


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock."""
    for path, flags in ((folder / LOCK, os.O_NOFOLLOW | os.O_NONBLOCK), (folder, os.O_DIRECTORY)):
        try:
            descriptor = os.open(path, os.O_RDONLY | flags)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # not supported by this file system
            continue
        finally:
            os.close(descriptor)
    return False


def _inode(file: int | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
