"""The process of one run of a study: `python -m proxrl.studies.worker FOLDER PARENT HOW`.

Every executor starts runs this way, so that they are bit-identical and equally isolated everywhere.
The config is read as JSON from standard input. Output goes to log.txt, progress to progress.json,
and the exit code is the outcome:

    0    finished                              75   not enough disk or memory now: retry later
    1    failed, and would fail again          143  stopped after a checkpoint
    2    invalid settings                      70, or a signal: crashed, retry

HOW is `wait` (a process that still trains here will exit soon) or `take-over` (it may be on another
machine and unreachable). When the parent process dies, the run saves a checkpoint and stops.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Literal

from proxrl.config import RunConfig, differences, from_json
from proxrl.errors import EnvironmentFault, RunFailed, UserError
from proxrl.runs.folder import Progress, RunFolder
from proxrl.studies.process import AGAIN, CRASHED, FAILED, FINISHED, MISTAKE, STOPPED
from proxrl.training.loop import Trainer
from proxrl.training.progress import Display
from proxrl.training.resources import NotEnough
from proxrl.training.run import Stopped, resolved, resume, train

BEAT_SECONDS = 1.0
WAIT_SECONDS = 60.0  # for an orphaned run to notice and to save its checkpoint
TAKE_OVER_SECONDS = 30 * 60.0  # for a process elsewhere to reach its next checkpoint

How = Literal["wait", "take-over"]


def run_job(config: RunConfig, folder: Path, how: How) -> int:
    """Train or resume; returns the exit code."""
    display = Reporter(RunFolder(folder))
    try:
        _train_or_resume(config, folder, display, how)
    except UserError as error:
        if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
            display.say(f"{traceback.format_exc().rstrip()}\n{error}")
            return CRASHED  # an exception may not repeat itself
        display.say(str(error))
        return AGAIN if isinstance(error, NotEnough) else MISTAKE
    except RunFailed as error:
        display.say(str(error))
        return AGAIN if isinstance(error.__cause__, OSError | MemoryError) else FAILED
    except Stopped as stopped:
        display.say(str(stopped))
        return STOPPED
    except Exception:
        display.say(traceback.format_exc().rstrip())
        return CRASHED
    display.say("finished")
    return FINISHED


def _train_or_resume(config: RunConfig, folder: Path, display: "Reporter", how: How) -> None:
    place = RunFolder(folder)
    place.make()
    if place.is_locked():
        display.say("another process is training here: waiting for it to stop")
        if how == "take-over":
            place.take_over(TAKE_OVER_SECONDS)
        else:
            place.wait_for_lock(WAIT_SECONDS)
    if not place.has_config():
        display.say(f"started: {config.agent} on {config.env}, seed {config.seed}")
        train(config, folder, display)
        return
    other = differences(place.config(), resolved(config))
    if other:
        raise UserError(f"{folder} has another run: {', '.join(other)} differ")
    display.say(f"continued from step {place.newest_step() or 0:,}")
    resume(folder, display=display, trust=True)  # it names what the study names


class Reporter(Display):
    """Writes lines to the log and progress to progress.json."""

    def __init__(self, place: RunFolder) -> None:
        self._place, self._next_beat = place, 0.0

    def say(self, line: str) -> None:
        line = line.encode(errors="backslashreplace").decode()  # a path may not be Unicode
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", flush=True)

    def on_step(self, run: Trainer) -> None:
        if time.monotonic() >= self._next_beat:
            self.on_evaluation(run)

    def on_evaluation(self, run: Trainer) -> None:
        self._next_beat = time.monotonic() + BEAT_SECONDS
        score = run.last_evaluation.mean if run.last_evaluation else None
        self._place.write_progress(Progress(run.step, score))


def _stop_without(parent: int) -> None:
    """Send ourselves SIGTERM, which saves a checkpoint, once the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(BEAT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    folder, parent, how = sys.argv[1:]
    faulthandler.enable()  # log the stack if the interpreter crashes
    threading.Thread(target=_stop_without, args=(int(parent),), daemon=True).start()
    config = from_json(json.load(sys.stdin))
    assert how in ("wait", "take-over"), how
    sys.exit(run_job(config, Path(folder), "wait" if how == "wait" else "take-over"))


if __name__ == "__main__":
    main()
