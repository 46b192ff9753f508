"""Runs side by side on this machine, one process each, watched by the one that started them."""

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from proxrl.config import RunConfig
from proxrl.errors import RunFailed, UserError
from proxrl.training.folder import RunFolder
from proxrl.training.loop import Run
from proxrl.training.run import Stopped, resume, train


class Glimpse(NamedTuple):
    """Where a run is now."""

    job: int
    step: int
    last_return: float | None
    message: str | None = None


def run_side_by_side(
    jobs: list[tuple[RunConfig, Path]],
    watch: Callable[[Glimpse], None],
    done: Callable[[int], None],
) -> None:
    """Train every job in a process of its own, continuing what is there already.

    On an interrupt every run makes a checkpoint; a failed run raises `RunFailed` in the end.
    """
    spawn = multiprocessing.get_context("spawn")
    glimpses = spawn.Queue()
    processes = [
        spawn.Process(target=_work, args=(job, config, folder, glimpses))
        for job, (config, folder) in enumerate(jobs)
    ]
    with _ctrl_c_ignored():  # by the new processes, from their first moment
        for process in processes:
            process.start()
    failures: list[str] = []
    try:
        left = len(processes)
        while left:
            try:
                kind, content = glimpses.get(timeout=2.0)
            except queue.Empty:
                if any(process.exitcode not in (None, 0) for process in processes):
                    raise RunFailed("a run was killed; the same command continues it") from None
                continue
            if kind == "glimpse":
                watch(content)
                continue
            left -= 1
            job, failure = content
            done(job)
            if failure is not None:
                failures.append(failure)
    except (KeyboardInterrupt, RunFailed) as stopped:
        for process in processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGTERM)
        if isinstance(stopped, KeyboardInterrupt):
            raise KeyboardInterrupt("stopped; the same command continues it") from None
        raise
    finally:
        for process in processes:
            process.join()
    if failures:
        raise RunFailed("; ".join(failures))


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Reporter:
    """A display that sends what it would show to the watching process, and ends with it."""

    def __init__(self, job: int, glimpses: "multiprocessing.Queue[object]") -> None:
        self._job, self._glimpses, self._next_step = job, glimpses, 0
        self._watcher = os.getppid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        self._glimpses.put(("glimpse", Glimpse(self._job, 0, None, line)))

    def update(self, run: Run) -> None:
        if run.step >= self._next_step or run.step >= run.config.steps:
            self._next_step = run.step + max(1, run.config.steps // 200)
            if os.getppid() != self._watcher:  # killed: make a checkpoint and stop
                os.kill(os.getpid(), signal.SIGTERM)
            score = run.last_evaluation.mean if run.last_evaluation else None
            self._glimpses.put(("glimpse", Glimpse(self._job, run.step, score)))


def _work(
    job: int, config: RunConfig, folder: Path, glimpses: "multiprocessing.Queue[object]"
) -> None:
    os.setsid()  # a terminal's Ctrl-C goes to the watching process, which passes it on
    failure: str | None = None
    reporter = _Reporter(job, glimpses)
    try:
        if (folder / "config.json").exists():
            before = RunFolder(folder).config()
            if before.override({"threads": config.threads}) != config:
                raise UserError(
                    f"{folder} holds another run: remove it, or choose another --folder"
                )
            resume(folder, display=reporter)
        else:
            train(config, folder, display=reporter)
    except (UserError, RunFailed) as error:
        failure = str(error)
    except Stopped:
        failure = f"{folder.name} was stopped"
    finally:
        glimpses.put(("done", (job, failure)))
