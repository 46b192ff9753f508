"""Starting a run's process (worker.py), and what its end means. Needs no torch."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

from proxrl.config import RunConfig, to_json
from proxrl.training.folder import RunFolder

FINISHED, FAILED, MISTAKE, CRASHED, AGAIN, STOPPED = 0, 1, 2, 70, 75, 143  # see worker.py
End = Literal["finished", "stopped", "failed", "again", "crashed"]
ENDS: dict[int, End] = {
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
    """A process of its own session, so that a terminal's Ctrl-C is passed on by us alone.

    `home`: folder to run in, where the user's own modules are found.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, config.threads))}
    with open(RunFolder(folder).run_log, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "proxrl.studies.worker", str(folder), str(os.getpid()), how],
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
        pass  # it died at once: its exit code and its log say why
    return process


def meaning(code: int) -> End:
    """Of an exit code."""
    return ENDS.get(code, "crashed")


def reason_of(code: int) -> str:
    if code >= 0:
        return f"{EXIT_CODE} {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"killed by {signal.Signals(-code).name}{hint}"


def last_lines(folder: Path, number: int = 5) -> list[str]:
    """The end of a run's log."""
    try:
        lines = RunFolder(folder).run_log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return lines[-number:]
