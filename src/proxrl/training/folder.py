"""A run folder: who may write in it, what it was asked to do, where it can continue.

config.json  metrics.jsonl  episodes.jsonl  speed.jsonl  tensorboard/  checkpoints/  replay/
videos/  attempts/ (a file for each process that trained here)  failure.txt (after a failure)
log.txt, progress.json (as part of a study: what it said, where it is)

One process at a time, by two means. The lock (flock) is the guard: it keeps a second process out
and is freed by the system when its holder dies. The attempts' numbers are the way out: where a
process on another machine is out of reach and still holds the lock, a newer attempt enters its
number and waits; the older one finds it before its next evaluation or checkpoint and stops.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from proxrl.config import RunConfig, from_json, to_json
from proxrl.errors import RunFailed, UserError
from proxrl.training import checkpoint
from proxrl.types import Array

LOCK = ".lock"
RUN_LOG, PROGRESS, ATTEMPTS = "log.txt", "progress.json", "attempts"
UNFINISHED_CONFIG = "config.json.writing"
NOT_YET_A_RUN = {LOCK, RUN_LOG, PROGRESS, ATTEMPTS, UNFINISHED_CONFIG}


class Superseded(RunFailed):
    """A newer attempt at the same run has begun: this one must not write any more."""


class RunFolder:
    """Paths and promises of one run's folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.replay = self.path / "replay"
        self.videos = self.path / "videos"
        self.failure = self.path / "failure.txt"
        self.run_log = self.path / RUN_LOG
        self.progress = self.path / PROGRESS
        self.attempts = self.path / ATTEMPTS
        self.attempt = 0  # this process's own number; 0: it only looks

    def require_new(self) -> None:
        """A `UserError` if something is there already, or nothing can be."""
        above = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if above != self.path and not (above.is_dir() and os.access(above, os.W_OK)):
            raise UserError(f"cannot write in {self.path}: {above} is no folder that takes files")
        if self.path.exists() and (
            not self.path.is_dir() or set(os.listdir(self.path)) - NOT_YET_A_RUN
        ):
            hint = (
                f"continue it with `proxrl resume {self.path}`, or choose another --folder"
                if (self.path / "config.json").exists()
                else "it is not empty and not a run: choose another --folder"
            )
            raise UserError(f"{self.path} exists: {hint}")

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / LOCK).touch()
        except OSError as error:
            raise UserError(f"cannot write in {self.path}: {error.strerror}") from None

    def write_config(self, config: RunConfig) -> None:
        unfinished = self.path / UNFINISHED_CONFIG
        unfinished.write_text(json.dumps(to_json(config), indent=2) + "\n")
        os.replace(unfinished, self.path / "config.json")

    def config(self) -> RunConfig:
        try:
            return from_json(json.loads((self.path / "config.json").read_text()))
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{self.path} is not a run folder: it has no config.json") from None
        except OSError as error:
            raise UserError(f"{self.path}/config.json cannot be read: {error.strerror}") from None
        except (ValueError, TypeError) as error:  # no text, no JSON, no settings
            raise UserError(f"{self.path}/config.json cannot be read: {error}") from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone in this folder, as its newest attempt, or a `UserError`; the system frees the lock
        when the process dies."""
        with open(self.path / LOCK, "a") as file:
            for patience in (0.1, 0.4, None):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if patience is None:
                        raise self._in_use() from None
                    time.sleep(patience)  # perhaps somebody only looks whether it is locked
            self._enter_attempt()
            yield

    def take_over(self, patience_seconds: float) -> None:
        """Ask whoever trains here to stop, by a newer number, and wait until the lock is free.

        For a process that is out of reach: on a machine that the cluster has given up, say.
        """
        self._enter_attempt()
        self.wait_for_lock(patience_seconds)

    def wait_for_lock(self, patience_seconds: float) -> None:
        """Until nobody trains here, or a `UserError` if that takes too long."""
        end = time.monotonic() + patience_seconds
        while self.is_locked():
            self.require_newest()
            if time.monotonic() > end:
                raise self._in_use()
            time.sleep(0.2)

    def require_newest(self) -> None:
        """`Superseded` if a newer attempt than this process's own has begun."""
        newest = self.newest_attempt()
        if self.attempt and newest > self.attempt:
            raise Superseded(
                f"attempt {newest}{self._who()} has taken over {self.path}: "
                f"attempt {self.attempt} stops here"
            )

    def newest_attempt(self) -> int:
        """Number of the newest attempt, from 1; 0 if there was none."""
        return max((int(path.stem) for path in self.attempts.glob("[0-9]*.json")), default=0)

    def _enter_attempt(self) -> None:
        """Take the next number: exclusive creation, so that no two processes have the same."""
        about = {"host": socket.gethostname(), "pid": os.getpid(), "unix_time": time.time()}
        self.attempt = self.newest_attempt()
        try:
            self.attempts.mkdir(exist_ok=True)
            while True:
                self.attempt += 1
                with contextlib.suppress(FileExistsError):
                    with open(self.attempts / f"{self.attempt}.json", "x") as file:
                        file.write(json.dumps(about) + "\n")
                    return
        except OSError as error:
            raise UserError(f"cannot write in {self.path}: {error.strerror}") from None

    def _in_use(self) -> UserError:
        return UserError(
            f"{self.path} is in use by another process{self._who()}: wait for it, or stop it"
        )

    def _who(self) -> str:
        """(pid 123 on host-a), of the newest attempt; nothing if it cannot be read."""
        try:
            text = (self.attempts / f"{self.newest_attempt()}.json").read_text()
            about = json.loads(text)
            return f" (pid {about['pid']} on {about['host']})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def is_locked(self) -> bool:
        """Is a process training here now?"""
        try:
            with open(self.path / LOCK) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def newest_checkpoint(
        self, say: Callable[[str], None], repair: bool = False
    ) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """The newest good checkpoint; bad ones are named (and set aside if `repair`)."""
        damaged: dict[Path, checkpoint.CorruptCheckpoint] = {}
        for step in reversed(checkpoint.checkpoint_steps(self.checkpoints)):
            path = checkpoint.checkpoint_path(self.checkpoints, step)
            try:
                found = checkpoint.read(path)
            except checkpoint.CorruptCheckpoint as error:
                damaged[path] = error
                continue
            for bad, why in damaged.items():
                say(f"checkpoint {why}: using the one before it")
                if repair:
                    bad.rename(bad.with_suffix(".damaged"))
            return found
        if damaged:
            raise UserError(
                f"no checkpoint of {self.path} is good: {next(iter(damaged.values()))}; "
                "nothing was changed"
            )
        return None

    def log(self, start: int) -> Path:
        """Where the replay log that began at step `start` lives."""
        return self.replay / f"from-{start}"

    def newest_step(self) -> int | None:
        """Step of the newest checkpoint by name, without reading it."""
        steps = checkpoint.checkpoint_steps(self.checkpoints)
        return steps[-1] if steps else None

    def tidy(self, config: RunConfig) -> None:
        """A finished run keeps its last checkpoint, and its replay only if told to."""
        if not config.checkpoint.keep_replay:
            shutil.rmtree(self.replay, ignore_errors=True)
        if not config.checkpoint.keep_all:
            for step in checkpoint.checkpoint_steps(self.checkpoints)[:-1]:
                checkpoint.checkpoint_path(self.checkpoints, step).unlink()
