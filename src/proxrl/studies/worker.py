"""One run of a study, as a process of its own: `python -m proxrl.studies.worker FOLDER PARENT HOW`.

Every executor starts runs this way, so that they have the same bits and the same isolation
everywhere. The config comes as JSON on standard input. What the run says goes to its log.txt, how
far it is to its progress.json, how it ended to the exit code:

    0    finished                              75   no disk or memory just now: try again later
    1    failed, and would fail again          143  stopped after a checkpoint
    2    a mistake in what was asked for       70, or a signal: crashed, try again

HOW is `wait` (a process that still trains here is about to end by itself) or `take-over` (it may be
on another machine and out of reach). When the parent process dies, the run makes a checkpoint and
stops.
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
from typing import Literal, Self

from proxrl.config import RunConfig, differences, from_json
from proxrl.errors import RunFailed, UserError
from proxrl.runs.folder import Progress, RunFolder
from proxrl.studies.process import AGAIN, CRASHED, FAILED, FINISHED, MISTAKE, STOPPED
from proxrl.training.loop import Trainer
from proxrl.training.resources import NotEnough
from proxrl.training.run import Stopped, resolved, resume, train

BEAT_SECONDS = 1.0
WAIT_SECONDS = 60.0  # for an orphan to notice that it is one, and to make its checkpoint
TAKE_OVER_SECONDS = 30 * 60.0  # for a process elsewhere to reach its next checkpoint

How = Literal["wait", "take-over"]


def carry_out(config: RunConfig, folder: Path, how: How) -> int:
    """Train, or continue; the exit code."""
    display = Reporter(RunFolder(folder))
    try:
        _train_or_resume(config, folder, display, how)
    except UserError as error:
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
        display.say("another process trains here: waiting for it to stop")
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
        raise UserError(f"{folder} holds another run: it differs in {', '.join(other)}")
    display.say(f"continued from step {place.newest_step() or 0:,}")
    resume(folder, display=display)


class Reporter:
    """A display that writes lines to the log and the progress to progress.json."""

    def __init__(self, place: RunFolder) -> None:
        self._place, self._next_beat = place, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", flush=True)

    def update(self, run: Trainer) -> None:
        now = time.monotonic()
        if now < self._next_beat and run.step < run.config.steps:
            return
        self._next_beat = now + BEAT_SECONDS
        score = run.last_evaluation.mean if run.last_evaluation else None
        self._place.write_progress(Progress(run.step, score))


def _stop_without(parent: int) -> None:
    """SIGTERM, answered by a checkpoint, once the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(BEAT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    folder, parent, how = sys.argv[1:]
    faulthandler.enable()  # a crash below Python leaves its place in the log
    threading.Thread(target=_stop_without, args=(int(parent),), daemon=True).start()
    config = from_json(json.load(sys.stdin))
    assert how in ("wait", "take-over"), how
    sys.exit(carry_out(config, Path(folder), "wait" if how == "wait" else "take-over"))


if __name__ == "__main__":
    main()
