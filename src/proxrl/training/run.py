"""`train` and `resume`: a config and a folder in, a trained agent out.

On SIGINT and SIGTERM the run saves a checkpoint and prints how to continue. A loss that is not
finite and a full disk end the run with a diagnosis; the last checkpoint stays intact. Errors that
can be found without torch are raised before it is imported, which takes seconds.
"""

import errno
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from proxrl.config import RunConfig, differences, validated
from proxrl.envs.checks import staying
from proxrl.errors import EnvironmentFault, RunFailed, UserError
from proxrl.plugins import named_code, require_known, require_trust, trust_option
from proxrl.runs.checkpoint import (
    CorruptCheckpoint,
    changed_settings,
    is_free,
    require_same_settings,
)
from proxrl.runs.folder import CONFIG, RunFolder, Superseded
from proxrl.source import source_version
from proxrl.suites.presets import describe
from proxrl.training.callbacks import Callback, Callbacks
from proxrl.training.environments import training_environment
from proxrl.training.metrics import require_wandb
from proxrl.training.progress import Display, Quiet, chosen
from proxrl.training.resources import available_cores, require_room
from proxrl.types import State

if TYPE_CHECKING:
    from proxrl.training.agent import Agent
    from proxrl.training.loop import Trainer
    from proxrl.training.preflight import Setup

MOST_NAMED = 5  # settings that differ
IfExists = Literal["error", "resume", "overwrite"]


class Stopped(KeyboardInterrupt):
    """Stopped by a signal after a checkpoint; `resume` continues from there."""

    def __init__(self, run: "Trainer", signal_number: int) -> None:
        again = f"proxrl resume {run.folder.path}" + trust_option(run.config)
        super().__init__(f"stopped at step {run.step:,}; continue with: {again}")
        self.signal_number = signal_number


class RunExists(UserError):
    """The folder has a run already; `what` says which, `changed` the settings that differ."""

    def __init__(self, place: RunFolder, config: RunConfig) -> None:
        before = place.config()
        self.changed = differences(before, config)
        self.can_resume = all(map(is_free, self.changed))
        self.done = done = place.newest_step() or 0
        self.finished = done >= before.steps
        step = f"at step {done:,} of {before.steps:,}"
        others = [f"{path} {a}, not {b}" for path, (a, b) in self.changed.items()]
        if len(others) > MOST_NAMED:
            others = [*others[:MOST_NAMED], f"and {len(others) - MOST_NAMED} more"]
        self.what = f"{place.path} has a run {step}{' with ' * bool(others)}{', '.join(others)}"
        what = "load" if self.finished and config.steps <= done else "continue"
        ways = [f'if_exists="resume" to {what} it'] * self.can_resume
        ways += ['if_exists="overwrite" to delete it', "another folder"]
        super().__init__(f"{self.what}: pass {', or '.join(ways)}")


@staying()  # an environment may change the working directory
def train(
    config: RunConfig,
    folder: str | os.PathLike[str],
    display: Display | Literal["auto"] | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    if_exists: IfExists = "error",
) -> "Agent":
    """Train a run in a folder; returns the agent.

    `display`: "auto" shows requirements and progress in a terminal or a notebook; by default, only
    warnings are printed. `callbacks`: see `proxrl.Callback`; one that stops the run leaves a
    checkpoint, and the agent of that step is returned. `if_exists`: what to do if the folder has a
    run: raise an error, continue it (only total steps, evaluation and logging may differ), or
    delete it and start again.
    """
    _require_arguments(config, callbacks)
    config = validated(resolved(config))
    if if_exists not in ("error", "resume", "overwrite"):
        raise UserError(f"invalid if_exists {if_exists!r}: choose error, resume or overwrite")
    require_wandb(config.logging)
    place = RunFolder(folder)
    if place.has_config():
        if if_exists == "resume":
            named = named_code(place.config()) == named_code(config)  # by the caller, too
            return resume(folder, config, display, named, callbacks=callbacks)
        if if_exists == "error":
            raise RunExists(place, config)
    else:
        place.require_new()
    display = chosen(display)
    place = RunFolder(os.path.abspath(folder))
    with _set_up(config) as setup:
        _check_resources(config, setup, place, display)
        if not isinstance(display, Quiet) and (line := describe(config)):
            display.say(line)
        is_new = not place.path.exists()
        place.make()
        with place.locked():
            if if_exists == "overwrite":
                place.clear()
            else:
                place.require_new()  # again: another process may have started here in the meantime
            place.write_config(config)
            try:
                return _train(config, setup, place, display, callbacks)
            except UserError:  # found only now, by the first steps
                place.discard(whole=is_new)
                raise


@staying()
def resume(
    folder: str | os.PathLike[str],
    changed: RunConfig | dict[str, Any] | None = None,
    display: Display | Literal["auto"] | None = None,
    trust: bool = False,
    *,
    callbacks: Sequence[Callback] = (),
) -> "Agent":
    """Continue a run, bit-identical to one that was never stopped, or extend a finished one.

    `changed`: a config, or dotted settings; only total steps, evaluation and logging may change.
    `trust`: import the modules that its config names, if any, as in `Agent.load`.
    `display` and `callbacks`: as for `train`.
    """
    _require_arguments(changed, callbacks)
    place = RunFolder(folder)
    before = place.config()
    require_trust(before, place.path, trust)
    if isinstance(changed, dict):
        changed = before.override(changed)
    config = resolved(changed or before)
    validated(config)
    require_wandb(config.logging)
    display = chosen(display)
    if is_finished(place, config, display):
        from proxrl.training.agent import Agent

        return Agent.load(place.path, trust=trust)
    place = RunFolder(os.path.abspath(folder))
    with place.locked(), _set_up(config) as setup:
        _check_resources(config, setup, place, display)
        state = _newest_state(place, before, setup, display)
        return _train(config, setup, place, display, callbacks, state)


def _require_arguments(config: Any, callbacks: Sequence[Callback]) -> None:
    """Raise a `UserError` for what Python does not check."""
    if not isinstance(config, RunConfig | dict | None):
        raise UserError(
            f"invalid config {config!r:.60}: must be a RunConfig, e.g. "
            'presets.make("dqn-pro", "CartPole-v1")'
        )
    for one in callbacks:
        if not isinstance(one, Callback):
            raise UserError(f"invalid callback {one!r:.60}: must be a proxrl.Callback")


def is_finished(place: RunFolder, config: RunConfig, display: Display) -> bool:
    """Whether an intact checkpoint has all the steps (its name alone is not enough); then says so
    and cleans up. Raises `UserError` if it cannot be resumed with this config, also if that has no
    more steps than an unfinished run has done. Does not import torch."""
    before = place.config()
    _require_resumable(before, resolved(config))
    if (place.newest_step() or 0) < config.steps:
        return False

    def check(state: State) -> None:
        require_same_settings(state, before, place.path / CONFIG)
        place.check_lines(state)

    state = place.newest_checkpoint(say=lambda line: None, check=check)
    if state is None or state["step"] < config.steps:
        return False
    done, planned = state["step"], state.get("config", {}).get("steps", before.steps)
    if done < planned:
        raise UserError(
            f"{place.path} is at step {done:,} of {planned:,}, and steps is {config.steps:,}: set "
            f"more than {done:,} (--steps), for example {planned:,} to continue it; nothing was "
            "changed"
        )
    display.say(f"{place.path} is finished at step {done:,}: set more steps (--steps) to extend it")
    if not place.is_tidy(config):  # perhaps killed after its last checkpoint
        with place.locked():
            place.tidy(config)
    return True


def _newest_state(
    place: RunFolder, config: RunConfig, setup: "Setup", display: Display
) -> State | None:
    """The newest checkpoint that config.json, metrics and replay agree with; None if the run was
    killed before its first. If none agrees or all are lost, raises `UserError` and changes nothing.
    """
    from proxrl.replay.log import problem_of

    spec = setup.environment.observation
    rings = (spec, config.replay.capacity, config.checkpoint.period_steps)

    def check(state: State) -> None:
        require_same_settings(state, config, place.path / CONFIG)
        place.check_lines(state)
        log = place.log(state["log_start"])
        if log.exists() and (
            wrong := problem_of(log, *rings, state["log"], state.get("checksums"))
        ):
            raise CorruptCheckpoint(
                f"at step {state['step']:,}: {wrong} (restore it from a copy, or delete "
                f"{place.replay} to refill it, which is not bit-identical)"
            )

    state = place.newest_checkpoint(display.say, repair=True, check=check)
    if state is None:
        place.require_none_lost(config)
    elif "config" not in state:
        display.say(
            "the checkpoint is of an earlier version: its replay and metrics are unverified"
        )
    for path, (then, now) in (changed_settings(state, config) if state else {}).items():
        display.say(f"{place.path / CONFIG}: {path} was {then} at the checkpoint, is {now}")
    return state


@contextmanager
def _set_up(config: RunConfig) -> "Iterator[Setup]":
    """Build the run's setup; an unknown environment is found before torch is imported. At the end,
    the thread counts of the process are as they were before."""
    environment = training_environment(config)
    require_known(config)
    from proxrl.training.machine import keeping_threads
    from proxrl.training.preflight import set_up

    with keeping_threads():
        yield set_up(config, environment)


def _check_resources(config: RunConfig, setup: "Setup", place: RunFolder, display: Display) -> None:
    """Raise `NotEnough` if the run does not fit; show its requirements if there is a display."""
    from proxrl.training.evaluate import no_time_limit
    from proxrl.training.preflight import requirements, seconds_of

    needs = requirements(config, setup)
    require_room(needs, place)
    if not isinstance(display, Quiet):
        steps = max(0, config.steps - (place.newest_step() or 0))
        needs = needs._replace(seconds=seconds_of(config, setup, steps))
        display.say(f"{config.agent} on {config.env} {needs}")
    if line := no_time_limit(setup.environment, config):
        display.say(line)


def resolved(config: RunConfig) -> RunConfig:
    """Replace 0 threads by this machine's core count, so that the folder records it."""
    return replace(config, threads=config.threads or available_cores())


def _require_resumable(before: RunConfig, after: RunConfig) -> None:
    fixed = [path for path in differences(before, after) if not is_free(path)]
    if fixed:
        raise UserError(
            f"{', '.join(fixed)} cannot change when resuming: only steps, evaluation.* and "
            "logging.* can; start a new run for the rest"
        )
    rules = after.learner
    whole = rules.rate_schedule != "constant" and rules.rate_schedule_steps is None
    if whole and before.steps != after.steps:
        raise UserError(
            f"steps cannot change when resuming: the {rules.rate_schedule} learning-rate schedule "
            f"spans all {before.steps:,}; start a new run with learner.rate_schedule_steps"
        )


def _train(
    config: RunConfig,
    setup: "Setup",
    place: RunFolder,
    display: Display,
    callbacks: Sequence[Callback],
    state: State | None = None,
) -> "Agent":
    from proxrl.training.loop import Trainer

    with display, _signals() as caught:
        try:
            place.failure.unlink(missing_ok=True)
            run = Trainer(config, place, state, display.say, setup)
            if place.config() != config:  # now that it can be continued with these settings
                place.write_config(config)
            try:
                place.add_machine(run.step, {**run.machine, "proxrl": source_version()})
                _drive(run, display, Callbacks([display, *callbacks]), caught)
                agent = run.agent()
            finally:
                run.close()
        except (RunFailed, OSError, MemoryError) as error:
            raise _diagnosed(error, place, trust_option(config)) from error
        except EnvironmentFault as fault:
            place.write_failure(str(fault))
            raise
        except UserError:
            raise
        except Exception as error:  # unexpected: in the environment, the network or here
            place.write_failure(f"{type(error).__name__}: {error}")
            raise
    if agent.step < config.steps:
        display.say(f"stopped by a callback at step {agent.step:,}; `resume` continues the run")
    else:
        place.require_newest()
        place.tidy(config)
    return agent


def _drive(run: "Trainer", display: Display, callbacks: Callbacks, caught: list[int]) -> None:
    """Train, evaluate and save until the end, a signal, or a callback that stops the run."""
    from proxrl.training.evaluate import Interrupted

    def stop() -> bool:
        """Called before each step of an evaluation."""
        display.on_evaluation_step(run)
        return bool(caught)

    while True:
        try:
            if run.evaluation_is_due:
                run.folder.require_newest()
                run.evaluate(stop=stop)
                callbacks.on_evaluation(run)
        except Interrupted:
            pass  # resuming repeats it: the checkpoint below is from before it
        stopping = bool(caught) or callbacks.stopped
        if run.checkpoint_is_due or (stopping and run.saved_step < run.step):
            run.save()
            callbacks.on_checkpoint(run)
        if caught:
            run.checkpointer.wait()
            raise Stopped(run, caught[0])
        if run.step >= run.config.steps or callbacks.stopped:
            return
        run.checkpointer.check()
        run.advance()
        callbacks.on_step(run)


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


def _diagnosed(error: Exception, place: RunFolder, options: str) -> Exception:
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
        line += f"; continue with: proxrl resume {place.path}" + options
    place.write_failure(line)
    return RunFailed(line)
