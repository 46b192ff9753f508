"""A run folder: who may write in it, what it was asked to do, where it can continue.

config.json  metrics.jsonl  episodes.jsonl  speed.jsonl  tensorboard/  checkpoints/  replay/
videos/  failure.txt (only after a failure)
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from proxrl.config import RunConfig, from_json, to_json
from proxrl.errors import UserError
from proxrl.training import checkpoint
from proxrl.types import Array

LOCK = ".lock"


class RunFolder:
    """Paths and promises of one run's folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.replay = self.path / "replay"
        self.videos = self.path / "videos"
        self.failure = self.path / "failure.txt"

    def require_new(self) -> None:
        """A `UserError` if something is there already, or nothing can be."""
        above = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if above != self.path and not (above.is_dir() and os.access(above, os.W_OK)):
            raise UserError(f"cannot write in {self.path}: {above} is no folder that takes files")
        if self.path.exists() and (not self.path.is_dir() or set(os.listdir(self.path)) - {LOCK}):
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
        unfinished = self.path / "config.json.writing"
        unfinished.write_text(json.dumps(to_json(config), indent=2) + "\n")
        os.replace(unfinished, self.path / "config.json")

    def config(self) -> RunConfig:
        try:
            return from_json(json.loads((self.path / "config.json").read_text()))
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{self.path} is not a run folder: it has no config.json") from None
        except (json.JSONDecodeError, TypeError) as error:
            raise UserError(f"{self.path}/config.json cannot be read: {error}") from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone in this folder, or a `UserError`; the system frees it when the process dies."""
        with open(self.path / LOCK, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{self.path} is in use by another process: wait for it, or stop it"
                ) from None
            yield

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
        """The newest good checkpoint; a bad one is named (and set aside if `repair`)."""
        steps = checkpoint.checkpoint_steps(self.checkpoints)
        for step in reversed(steps):
            path = checkpoint.checkpoint_path(self.checkpoints, step)
            try:
                return checkpoint.read(path)
            except checkpoint.CorruptCheckpoint as error:
                if step == steps[0]:
                    raise UserError(
                        f"no checkpoint of {self.path} is good: {error}; nothing was changed"
                    ) from None
                say(f"checkpoint {error}: using the one before it")
                if repair:
                    path.rename(path.with_suffix(".damaged"))
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
