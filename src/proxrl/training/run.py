"""`train` and `resume`: a config and a folder in, a trained agent out.

On SIGINT and SIGTERM the run saves a checkpoint and prints how to continue. A loss that is not
finite and a full disk end the run with a diagnosis; the last checkpoint stays intact. Errors that
can be found without torch are raised before it is imported, which takes seconds.
"""

import errno
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxrl.config import RunConfig, differences, validated
from proxrl.envs.checks import staying
from proxrl.errors import EnvironmentFault, RunFailed, UserError
from proxrl.runs.folder import RunFolder, Superseded
from proxrl.suites.presets import describe
from proxrl.training.environments import training_environment
from proxrl.training.metrics import require_wandb
from proxrl.training.progress import Display, Quiet
from proxrl.training.resources import available_cores, require_room

if TYPE_CHECKING:
    from proxrl.training.agent import Agent
    from proxrl.training.loop import Trainer
    from proxrl.training.preflight import Setup

MAY_CHANGE = ("steps", "evaluation.", "logging.")


class Stopped(KeyboardInterrupt):
    """Stopped by a signal after a checkpoint; `resume` continues from there."""

    def __init__(self, folder: RunFolder, step: int, signal_number: int) -> None:
        super().__init__(f"stopped at step {step:,}; continue with: proxrl resume {folder.path}")
        self.signal_number = signal_number


@staying()  # an environment may change the working directory
def train(
    config: RunConfig, folder: str | os.PathLike[str], display: Display | None = None
) -> "Agent":
    """Train a new run in a new folder.

    `display`: `proxrl.display_for_terminal()` shows requirements and progress; by default, only
    warnings are printed.
    """
    config = validated(resolved(config))
    require_wandb(config.logging)
    RunFolder(folder).require_new()
    place = RunFolder(os.path.abspath(folder))
    display = display or Quiet()
    setup = _set_up(config)
    _check_resources(config, setup, place, display)
    if not isinstance(display, Quiet) and (line := describe(config)):
        display.say(line)
    place.make()
    with place.locked():
        place.require_new()  # again: another process may have started here in the meantime
        place.write_config(config)
        return _train(config, setup, place, display)


@staying()
def resume(
    folder: str | os.PathLike[str],
    changed: RunConfig | dict[str, Any] | None = None,
    display: Display | None = None,
) -> "Agent":
    """Continue a run, bit-identical to one that was never stopped, or extend a finished one.

    `changed`: a config, or dotted settings; only total steps, evaluation and logging may change.
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
        if place.replay.exists():  # perhaps killed after its last checkpoint
            with place.locked():
                place.tidy(config)
        from proxrl.training.agent import Agent

        return Agent.load(place.path)
    place = RunFolder(os.path.abspath(folder))
    with place.locked():
        setup = _set_up(config)
        _check_resources(config, setup, place, display)
        if config != before:
            place.write_config(config)
        return _train(config, setup, place, display)


def _is_finished(place: RunFolder, steps: int) -> bool:
    """Whether an intact checkpoint has all the steps; its name alone is not enough."""
    if steps > (place.newest_step() or 0):
        return False
    state = place.newest_checkpoint(say=lambda line: None)
    return state is not None and steps <= state["step"]


def _set_up(config: RunConfig) -> "Setup":
    """Build the run's setup; an unknown environment is found before torch is imported."""
    environment = training_environment(config)
    from proxrl.training.preflight import set_up

    return set_up(config, environment)


def _check_resources(config: RunConfig, setup: "Setup", place: RunFolder, display: Display) -> None:
    """Raise `NotEnough` if the run does not fit; show its requirements if there is a display."""
    from proxrl.training.preflight import requirements, seconds_of

    needs = requirements(config, setup)
    require_room(needs, place)
    if not isinstance(display, Quiet):
        steps = config.steps - (place.newest_step() or 0)
        needs = needs._replace(seconds=seconds_of(config, setup, steps))
        display.say(f"{config.agent} on {config.env} {needs}")


def resolved(config: RunConfig) -> RunConfig:
    """Replace 0 threads by this machine's core count, so that the folder records it."""
    return replace(config, threads=config.threads or available_cores())


def _require_resumable(before: RunConfig, after: RunConfig) -> None:
    fixed = [path for path in differences(before, after) if not path.startswith(MAY_CHANGE)]
    if fixed:
        raise UserError(
            f"{', '.join(fixed)} cannot change when resuming: only steps, evaluation.* and "
            "logging.* can; start a new run for the rest"
        )


def _train(config: RunConfig, setup: "Setup", place: RunFolder, display: Display) -> "Agent":
    from proxrl.training.loop import Trainer

    with display, _signals() as caught:
        try:
            place.failure.unlink(missing_ok=True)
            state = place.newest_checkpoint(display.say, repair=True)
            run = Trainer(config, place, state, display.say, setup)
            try:
                _drive(run, display, caught)
                agent = run.agent()
            finally:
                run.close()
        except (RunFailed, OSError, MemoryError) as error:
            raise _diagnosed(error, place) from error
        except EnvironmentFault as fault:
            place.write_failure(str(fault))
            raise
        except UserError:
            raise
        except Exception as error:  # unexpected: in the environment, the network or here
            place.write_failure(f"{type(error).__name__}: {error}")
            raise
    place.tidy(config)
    return agent


def _drive(run: "Trainer", display: Display, caught: list[int]) -> None:
    """Train, evaluate and save until the end or a signal."""
    from proxrl.training.evaluate import Interrupted

    while True:
        try:
            if run.evaluation_is_due:
                run.folder.require_newest()
                run.evaluate(stop=lambda: bool(caught))
        except Interrupted:
            pass  # resuming repeats it: the checkpoint below is from before it
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
    """Record signals instead of acting on them; a second Ctrl-C interrupts."""
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
    """One line on what happened and how to continue, also written to the folder."""
    if isinstance(error, Superseded):
        return error
    what = str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = f"the disk is full ({error.filename or place.path}): free some space"
    last = place.newest_step()
    then = f"the checkpoint at step {last:,} is intact" if last else "there is no checkpoint yet"
    line = f"{what}; {then}"
    if not isinstance(error, RunFailed):  # deterministic: it would diverge again
        line += f"; continue with: proxrl resume {place.path}"
    place.write_failure(line)
    return RunFailed(line)
