"""Checkpoints in the background: training pauses only while the state is copied in memory.

A thread then syncs the replay log and the metrics and writes the file (runs/checkpoint.py). The
next checkpoint waits for it, so that at most one is being written; the newest two are kept.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from proxrl.runs import checkpoint
from proxrl.types import State


class Checkpointer:
    """Writes checkpoints into a folder in the background, one at a time.

    `require_right` raises if this process may no longer write there; then nothing is written.
    """

    def __init__(
        self,
        folder: Path,
        keep_all: bool = False,
        require_right: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._keep_all = keep_all
        self._require_right = require_right
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.writing"):  # left by a killed process
            left.unlink()

    def save(self, step: int, state: State, first: Callable[[], None]) -> None:
        """Start writing, after `wait`; `first` is called before the file is written."""
        assert self._thread is None, "wait for the previous checkpoint"

        def work() -> None:
            try:
                self._require_right()
                first()
                path = checkpoint.checkpoint_path(self._folder, step)
                checkpoint.write(path, state, before_rename=self._require_right)
                self._remove_old()
            except BaseException as error:  # re-raised in the training thread
                self._error = error

        self._thread = threading.Thread(target=work, name=f"checkpoint-{step}")
        self._thread.start()

    def wait(self) -> None:
        """Wait for the checkpoint being written; raises its error, if any."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def check(self) -> None:
        """Raise the error of the background thread, if any."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _remove_old(self) -> None:
        if not self._keep_all:
            for step in checkpoint.checkpoint_steps(self._folder)[:-2]:
                checkpoint.remove(self._folder, step)
