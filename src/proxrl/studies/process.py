"""Starts a run's process (worker.py) and interprets its exit code (no torch)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

from proxrl.config import RunConfig, to_json
from proxrl.files import plain
from proxrl.runs.folder import RunFolder

FINISHED, FAILED, MISTAKE, CRASHED, AGAIN, STOPPED = 0, 1, 2, 70, 75, 143  # see worker.py
Outcome = Literal["finished", "stopped", "failed", "again", "crashed"]
OUTCOMES: dict[int, Outcome] = {
    FINISHED: "finished",
    FAILED: "failed",
    MISTAKE: "failed",
    AGAIN: "again",
    STOPPED: "stopped",
    -signal.SIGTERM: "stopped",
}
EXIT_CODE = "exit code"


def start(
    config: RunConfig, folder: Path, how: str, home: str | None = None
) -> "subprocess.Popen[bytes]":
    """Start a process in its own session, so that only we forward Ctrl-C to it.

    `home`: working directory, where the user's own modules are found.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, config.threads))}
    with open(RunFolder(folder).run_log, "ab", opener=plain) as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "proxrl.studies.worker",
                str(folder),
                str(os.getpid()),
                how,
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(to_json(config)).encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died at once: see its exit code and log
    return process


def outcome_of(code: int) -> Outcome:
    """What an exit code means."""
    return OUTCOMES.get(code, "crashed")


def reason_of(code: int) -> str:
    if code >= 0:
        return f"{EXIT_CODE} {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"killed by {signal.Signals(-code).name}{hint}"
