"""A run folder: files, locking and checkpoints.

| file                        | content                                                            |
|-----------------------------|--------------------------------------------------------------------|
| config.json                 | the complete configuration                                         |
| metrics.jsonl               | a line per evaluation interval, read by reports                    |
| episodes.jsonl              | a line per training episode                                        |
| speed.jsonl                 | steps per second and wall-clock time: not reproducible             |
| machine.jsonl               | a line per process that trained here: commit, CPU, libraries       |
| evaluations.jsonl           | a line per `proxrl eval`                                           |
| checkpoints/, replay/       | what `proxrl resume` continues from                                |
| tensorboard/, videos/       | TensorBoard events, videos of `proxrl play`, `evaluation.video`    |
| attempts/                   | a file for each process that has trained here                      |
| failure.txt                 | why the run failed, if it did                                      |
| log.txt, progress.json      | in a study: output and progress of the run                         |

Only one process trains in a folder. The lock (flock) keeps others out and is released by the system
when its holder dies. An attempt (runs/attempts.py) is for one that cannot be reached.
"""

import contextlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proxrl.config import RunConfig, from_json, to_json
from proxrl.config.validity import LARGEST
from proxrl.errors import RunFailed, UserError
from proxrl.files import plain, read_bytes, read_text, require_plain, write_text
from proxrl.runs import checkpoint
from proxrl.runs.attempts import ATTEMPTS, enter_attempt, newest_attempt, process_of
from proxrl.runs.lines import changed_since, last_step, read_lines
from proxrl.runs.lock import LOCK, FolderLock, is_locked
from proxrl.types import State

CONFIG, METRICS, EPISODES, SPEED = "config.json", "metrics.jsonl", "episodes.jsonl", "speed.jsonl"
EVALUATIONS, MACHINE = "evaluations.jsonl", "machine.jsonl"
CHECKPOINTS, REPLAY = "checkpoints", "replay"
RUN_LOG, PROGRESS, FAILURE = "log.txt", "progress.json", "failure.txt"
UNFINISHED_CONFIG = f"{CONFIG}.writing"
TENSORBOARD, WANDB = "tensorboard", "wandb"
NOT_YET_A_RUN = {LOCK, RUN_LOG, PROGRESS, ATTEMPTS, UNFINISHED_CONFIG}
REPORTED = (CONFIG, METRICS)  # the files that a report reads
EXPORTED = (CONFIG, MACHINE, METRICS)  # in this order: metrics say that a run is complete
LINES = (METRICS, EPISODES, SPEED, EVALUATIONS, MACHINE)
FILES = (CONFIG, UNFINISHED_CONFIG, *LINES, LOCK, RUN_LOG, PROGRESS, FAILURE)
UNWANTED_REPLAY = f"{REPLAY}.deleting"
FOLDERS = (CHECKPOINTS, REPLAY, UNWANTED_REPLAY, ATTEMPTS, "tensorboard", "videos")
DANGLING = (f"{CHECKPOINTS}/*.safetensors", f"{CHECKPOINTS}/*.damaged")  # passed over as damaged


class Superseded(RunFailed):
    """A newer attempt at the same run has started: this process must not write any more."""


class Progress(NamedTuple):
    """Progress of a running process."""

    step: int
    last_return: float | None


class RunFolder:
    """One run's folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.fspath(path):
            raise UserError("the name of a run folder is empty")
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS
        self.replay = self.path / REPLAY
        self.videos = self.path / "videos"
        self.failure = self.path / FAILURE
        self.run_log = self.path / RUN_LOG
        self.attempt = 0  # number of this process; 0: it only reads
        self._lock: FolderLock | None = None  # held by this process

    # --------------------------------------------------------------------------- config and files

    def require_new(self) -> None:
        """Raise a `UserError` if the folder is not empty or cannot be created."""
        above = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if above != self.path and not (above.is_dir() and os.access(above, os.W_OK)):
            raise UserError(f"cannot write to {self.path}: {above} is not a writable directory")
        if self.path.exists() and (
            not self.path.is_dir() or set(os.listdir(self.path)) - NOT_YET_A_RUN
        ):
            hint = (
                f"continue it with `proxrl resume {self.path}`, or choose another --folder"
                if self.has_config()
                else "it is neither empty nor a run: choose another --folder"
            )
            raise UserError(f"{self.path} exists: {hint}")

    def clear(self, keep: Collection[str] = ()) -> None:
        """Delete the run's files, config.json last; attempts and files of others stay. Raises a
        `UserError` before that if one of them is a symbolic link."""
        require_plain(self.path, FILES, FOLDERS, DANGLING)
        mine = [self.path / name for name in (*LINES, RUN_LOG, PROGRESS, TENSORBOARD, WANDB)]
        for path in (*mine, self.checkpoints, self.replay, self.videos, self.failure):
            if path.name in keep:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        (self.path / CONFIG).unlink(missing_ok=True)

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            os.close(plain(self.path / LOCK, os.O_WRONLY | os.O_CREAT))
        except OSError as error:
            raise UserError(f"cannot write to {self.path}: {error.strerror}") from None

    def discard(self, whole: bool) -> None:
        """Remove a new run that was refused before its first evaluation or checkpoint, so that the
        folder can be used again; `whole`: with the folder itself."""
        metrics = self.path / METRICS
        if self.newest_step() is not None or (metrics.exists() and metrics.stat().st_size):
            return
        if whole:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.clear(keep=NOT_YET_A_RUN)

    def has_config(self) -> bool:
        """Whether a run has been started here."""
        return (self.path / CONFIG).exists()

    def write_config(self, config: RunConfig) -> None:
        unfinished = self.path / UNFINISHED_CONFIG
        write_text(unfinished, json.dumps(to_json(config), indent=2) + "\n")
        os.replace(unfinished, self.path / CONFIG)

    def add_machine(self, step: int, machine: dict[str, str]) -> None:
        """Record what trains here from this step on."""
        with open(self.path / MACHINE, "a", encoding="utf-8", opener=plain) as file:
            file.write(json.dumps({"from_step": step, **machine}) + "\n")

    def config(self) -> RunConfig:
        """Read config.json; raises `UserError` if it cannot be read, or if the folder contains
        symbolic links or special files."""
        require_plain(self.path, FILES, FOLDERS, DANGLING)
        try:
            return from_json(json.loads(read_text(self.path / CONFIG)))
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{self.path} is not a run folder: {self._what_it_has()}") from None
        except OSError as error:
            raise UserError(f"{self.path}/{CONFIG} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, RecursionError) as error:  # not text, not JSON, not settings
            raise UserError(f"{self.path}/{CONFIG} cannot be read: {error}") from None

    def _what_it_has(self) -> str:
        """Of a folder without a config: runs below it, as those of several seeds, or nothing."""
        for pattern in (f"*/{CONFIG}", f"*/*/{CONFIG}", f"*/*/*/{CONFIG}"):
            for found in sorted(self.path.glob(pattern))[:1]:
                return f"it contains runs, the first is {found.parent} (see proxrl runs)"
        return f"it has no {CONFIG}"

    def speeds(self) -> list[dict[str, Any]]:
        """The lines of speed.jsonl."""
        return read_lines(self.path / SPEED)

    def write_failure(self, line: str) -> None:
        with contextlib.suppress(OSError):  # on a full disk it is only printed
            write_text(self.failure, line + "\n")

    def log_tail(self, number: int = 5) -> list[str]:
        """The last lines of log.txt."""
        try:
            lines = read_bytes(self.run_log).decode(errors="replace").splitlines()
        except OSError:
            return []
        return lines[-number:]

    # ----------------------------------------------------------------------------------- progress

    def write_progress(self, progress: Progress) -> None:
        with contextlib.suppress(OSError):  # only for display
            text = json.dumps({"step": progress.step, "return": progress.last_return})
            write_text(self.path / PROGRESS, text)

    def progress(self) -> Progress | None:
        """The progress; None if there is none yet or it is being written."""
        try:
            content = json.loads(read_text(self.path / PROGRESS))
            return Progress(int(content["step"]), content["return"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def clear_progress(self) -> None:
        (self.path / PROGRESS).unlink(missing_ok=True)

    # --------------------------------------------------------------------------- lock and attempts

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock as the newest attempt; raises `UserError` if another process holds it."""
        lock = FolderLock(self.path)
        try:
            for patience in (0.1, 0.4, None):
                if lock.acquire():
                    break
                if patience is None:
                    raise self._in_use()
                time.sleep(patience)  # another process may only be checking the lock
        except OSError as error:
            raise UserError(f"cannot lock {self.path}: {error.strerror}") from None
        self._lock = lock
        try:
            self._enter_attempt()
            yield
        finally:
            self._lock = None
            lock.release()

    def take_over(self, patience_seconds: float) -> None:
        """Make the process that trains here stop, by a newer attempt, and wait for the lock.

        For an unreachable process, for example on a node that the cluster has lost.
        """
        self._enter_attempt()
        self.wait_for_lock(patience_seconds)

    def wait_for_lock(self, patience_seconds: float) -> None:
        """Wait until no process trains here; raises `UserError` if that takes too long."""
        end = time.monotonic() + patience_seconds
        while self.is_locked():
            self.require_newest()
            if time.monotonic() > end:
                raise self._in_use()
            time.sleep(0.2)

    def require_newest(self) -> None:
        """Raise `Superseded` if a newer attempt than this process has started, or may have."""
        if self._lock is not None and self._lock.is_lost:
            raise Superseded(
                f"{self.path} or its {LOCK} was deleted or replaced: attempt {self.attempt} stops"
            )
        newest = newest_attempt(self.path)
        if self.attempt and newest > self.attempt:
            raise Superseded(
                f"attempt {newest}{process_of(self.path)} has taken over {self.path}: "
                f"attempt {self.attempt} stops"
            )

    def _enter_attempt(self) -> None:
        try:
            self.attempt = enter_attempt(self.path)
        except OSError as error:
            raise UserError(f"cannot write to {self.path}: {error.strerror}") from None

    def _in_use(self) -> UserError:
        who = process_of(self.path)
        return UserError(f"{self.path} is in use by another process{who}: wait for it, or stop it")

    def is_locked(self) -> bool:
        """Whether a process is training here now."""
        return is_locked(self.path)

    # ------------------------------------------------------------------------------- checkpoints

    def newest_checkpoint(
        self,
        say: Callable[[str], None],
        repair: bool = False,
        check: Callable[[State], None] = lambda state: None,
    ) -> State | None:
        """The newest intact checkpoint; `say` reports damaged ones (renamed if `repair`).

        `check` may raise `CorruptCheckpoint` if other files do not agree with a checkpoint.
        """
        damaged: dict[Path, checkpoint.CorruptCheckpoint] = {}
        for step in reversed(checkpoint.checkpoint_steps(self.checkpoints)):
            path = checkpoint.checkpoint_path(self.checkpoints, step)
            try:
                found = self._checkpoint(step)
                check(found)
            except checkpoint.CorruptCheckpoint as error:
                damaged[path] = error
                continue
            except UserError:
                raise
            except checkpoint.MALFORMED:
                damaged[path] = checkpoint.CorruptCheckpoint(
                    f"{path.name} does not hold the state of a run"
                )
                continue
            for bad, why in damaged.items():
                say(f"checkpoint {why}: using the previous one")
                if repair:
                    bad.rename(_free(bad.with_suffix(".damaged")))
            return found
        if damaged:
            raise UserError(
                f"no checkpoint of {self.path} is intact: {next(iter(damaged.values()))}; "
                "nothing was changed"
            )
        return None

    def _checkpoint(self, step: int) -> State:
        path = checkpoint.checkpoint_path(self.checkpoints, step)
        state = checkpoint.read(path)
        checkpoint.require_step(state, step, path.name)
        return state

    def log(self, start: int) -> Path:
        """Folder of the replay log that was started at step `start`; raises `CorruptCheckpoint` if
        that is not a step, because a checkpoint may come from someone else."""
        if type(start) is not int or not 0 <= start <= LARGEST:
            raise checkpoint.CorruptCheckpoint(
                f"log_start is {start!r:.40}, not a non-negative integer"
            )
        return self.replay / f"from-{start}"

    def newest_step(self) -> int | None:
        """Step of the newest checkpoint, from its name."""
        steps = checkpoint.checkpoint_steps(self.checkpoints)
        return steps[-1] if steps else None

    def require_none_lost(self, config: RunConfig) -> None:
        """Raise a `UserError` if a run that has no checkpoint must have had one: to start it again
        would delete its lines and its replay.

        The folder of checkpoints is made before the first line, and the second checkpoint waits for
        the first: a run that was killed before it had one has no line after two periods.
        """
        step = max(last_step(self.path / name) for name in (METRICS, EPISODES))
        killed_early = self.checkpoints.is_dir() and step <= 2 * config.checkpoint.period_steps
        if step and not killed_early:
            raise UserError(
                f"{self.path} has lines up to step {step:,} but no checkpoint: restore "
                f"{self.checkpoints}, or train it again (--if-exists overwrite, or another "
                "--folder); nothing was changed"
            )

    def is_complete(self, config: RunConfig) -> bool:
        """Whether the run is finished and undamaged: its final checkpoint is intact, the other
        files agree with it, and the run has cleaned up."""
        step = self.newest_step() or 0
        if step < config.steps or not self.is_tidy(config):
            return False
        try:
            state = self._checkpoint(step)
            checkpoint.require_same_settings(state, self.config(), self.path / CONFIG)
            self.check_lines(state, exactly=True)
        except (UserError, checkpoint.CorruptCheckpoint):
            return False
        return bool(state["step"] >= config.steps)

    def check_lines(self, state: State, exactly: bool = False) -> None:
        """Raise `CorruptCheckpoint` if metrics and episodes are not what the checkpoint recorded.

        `exactly`: nothing follows, as in a finished run.
        """
        for part, name in (("metrics", METRICS), ("episodes", EPISODES)):
            path, length = self.path / name, state["logger"][part]
            wrong = changed_since(path, length, state["logger"].get(f"{part}_sha256"))
            if exactly and not wrong and path.exists() and path.stat().st_size != length:
                wrong = f"{name} is longer than when the checkpoint was saved"
            if wrong:
                raise checkpoint.CorruptCheckpoint(f"at step {state['step']:,}: {wrong}")

    def is_tidy(self, config: RunConfig) -> bool:
        """Whether no unwanted replay is left."""
        unwanted = () if config.checkpoint.keep_replay else (self.replay,)
        return not any(path.exists() for path in (self.path / UNWANTED_REPLAY, *unwanted))

    def tidy(self, config: RunConfig) -> None:
        """Delete the replay and all but the last checkpoint, unless configured to keep them."""
        if not config.checkpoint.keep_replay:
            self.remove_replay()
        if not config.checkpoint.keep_all:
            for step in checkpoint.checkpoint_steps(self.checkpoints)[:-1]:
                checkpoint.remove(self.checkpoints, step)

    def remove_replay(self) -> None:
        """Delete the replay; if killed meanwhile, no part of it is left under its name."""
        unwanted = self.path / UNWANTED_REPLAY
        shutil.rmtree(unwanted, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.replay.rename(unwanted)
        shutil.rmtree(unwanted, ignore_errors=True)


def _free(path: Path) -> Path:
    """The path, with a number if there is something of this name."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], others) if not os.path.lexists(one))
