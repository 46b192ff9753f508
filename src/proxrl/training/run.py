"""`train` and `resume`: a config and a folder in, a trained agent out.

SIGINT and SIGTERM are answered by a checkpoint and a line that says how to go on. A loss that is
not finite and a full disk end the run with a diagnosis; the last good checkpoint stays.
"""

import errno
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from proxrl.config import RunConfig, differences, validated
from proxrl.errors import RunFailed, UserError
from proxrl.suites.presets import describe
from proxrl.training.agent import Agent
from proxrl.training.evaluate import Interrupted
from proxrl.training.folder import RunFolder, Superseded
from proxrl.training.loop import Run
from proxrl.training.machine import available_cores
from proxrl.training.metrics import require_wandb
from proxrl.training.preflight import preflight
from proxrl.training.progress import Display, Quiet

MAY_CHANGE = ("steps", "evaluation.", "logging.")


class Stopped(KeyboardInterrupt):
    """Stopped by a signal after a checkpoint; `resume` goes on from there."""

    def __init__(self, folder: RunFolder, step: int, signal_number: int) -> None:
        super().__init__(f"stopped at step {step:,}; continue with: proxrl resume {folder.path}")
        self.signal_number = signal_number


def train(
    config: RunConfig, folder: str | os.PathLike[str], display: Display | None = None
) -> Agent:
    """Train a new run in a folder that must not hold one yet.

    `display`: `proxrl.display_for_terminal()` shows needs and progress; by default only warnings
    are printed.
    """
    config = validated(resolved(config))
    require_wandb(config.logging)
    place = RunFolder(folder)
    place.require_new()
    display = display or Quiet()
    _take_off(config, place, display)
    if not isinstance(display, Quiet) and (line := describe(config)):
        display.say(line)
    place.make()
    with place.locked():
        place.require_new()  # still: another process may have begun here meanwhile
        place.write_config(config)
        return _train(config, place, display)


def resume(
    folder: str | os.PathLike[str],
    changed: RunConfig | dict[str, Any] | None = None,
    display: Display | None = None,
) -> Agent:
    """Continue a run to the same bits, or extend a finished one.

    `changed`: a config, or dotted settings; total steps, evaluation and logging may differ.
    """
    place = RunFolder(folder)
    before = place.config()
    if isinstance(changed, dict):
        changed = before.override(changed)
    config = resolved(changed or before)
    _require_resumable(before, config)
    validated(config)
    require_wandb(config.logging)
    display = display or Quiet()
    if _is_finished(place, config.steps):
        display.say(f"{place.path} is finished: extend it with --steps")
        if place.replay.exists():  # killed after its last checkpoint, perhaps
            with place.locked():
                place.tidy(config)
        return Agent.load(place.path)
    with place.locked():
        _take_off(config, place, display)
        if config != before:
            place.write_config(config)
        return _train(config, place, display)


def _is_finished(place: RunFolder, steps: int) -> bool:
    """Does a checkpoint that is good have all the steps? Its name alone is not enough."""
    if steps > (place.newest_step() or 0):
        return False
    checkpoint = place.newest_checkpoint(say=lambda line: None)
    return checkpoint is not None and steps <= checkpoint[1]["step"]


def _take_off(config: RunConfig, place: RunFolder, display: Display) -> None:
    """Refuse what cannot fit; tell a person who watches what the run will need."""
    watched = not isinstance(display, Quiet)
    needs = preflight(config, place, calibrate=watched)
    if watched:
        display.say(f"{config.agent} on {config.env} {needs}")


def resolved(config: RunConfig) -> RunConfig:
    """With the thread count that this machine gives, so that the folder records it."""
    return replace(config, threads=config.threads or available_cores())


def _require_resumable(before: RunConfig, after: RunConfig) -> None:
    fixed = [path for path in differences(before, after) if not path.startswith(MAY_CHANGE)]
    if fixed:
        raise UserError(
            f"{', '.join(fixed)} cannot change when resuming: only steps, evaluation.* and "
            "logging.* can; start a new run for the rest"
        )


def _train(config: RunConfig, place: RunFolder, display: Display) -> Agent:
    with display, _signals() as caught:
        try:
            place.failure.unlink(missing_ok=True)
            checkpoint = place.newest_checkpoint(display.say, repair=True)
            run = Run(config, place, checkpoint, display.say)
            try:
                _drive(run, display, caught)
            finally:
                run.close()
        except (RunFailed, OSError, MemoryError) as error:
            raise _diagnosed(error, place) from error
        except UserError:
            raise
        except Exception as error:  # of the environment's, the network's or ours: not foreseen
            _leave_note(place, f"{type(error).__name__}: {error}")
            raise
    place.tidy(config)
    return Agent.load(place.path)


def _drive(run: Run, display: Display, caught: list[int]) -> None:
    """Steps, evaluations and checkpoints until the end, or until a signal."""
    while True:
        try:
            if run.evaluation_is_due:
                run.folder.require_newest()
                run.evaluate(stop=lambda: bool(caught))
        except Interrupted:
            pass  # the checkpoint below is from before it; resuming begins with it
        if run.checkpoint_is_due or (caught and run.saved_step < run.step):
            run.save()
        if caught:
            run.checkpointer.wait()
            raise Stopped(run.folder, run.step, caught[0])
        display.update(run)
        if run.step >= run.config.steps:
            return
        run.checkpointer.check()
        run.advance()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Signals received, instead of what they would do; a second Ctrl-C is not held back."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    def catch(number: int, _: object) -> None:
        if number == signal.SIGINT and number in caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _diagnosed(error: Exception, place: RunFolder) -> Exception:
    """One line that says what happened and how to go on, also left in the folder."""
    if isinstance(error, Superseded):
        return error
    what = str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = f"the disk is full ({error.filename or place.path}): free some space"
    last = place.newest_step()
    then = f"the checkpoint at step {last:,} is intact" if last else "there is no checkpoint yet"
    line = f"{what}; {then}"
    if not isinstance(error, RunFailed):  # what diverged once diverges again: same bits
        line += f"; continue with: proxrl resume {place.path}"
    _leave_note(place, line)
    return RunFailed(line)


def _leave_note(place: RunFolder, line: str) -> None:
    with suppress(OSError):  # on a full disk the line on the terminal has to do
        place.failure.write_text(line + "\n")
