"""A copy of a finished run, as a study takes it from another study."""

import os
import shutil
from pathlib import Path

from proxrl.runs.folder import (
    CHECKPOINTS,
    CONFIG,
    EPISODES,
    MACHINE,
    METRICS,
    RUN_LOG,
    SPEED,
    RunFolder,
)

COPIED = (METRICS, EPISODES, SPEED, MACHINE, RUN_LOG, CHECKPOINTS, CONFIG)


def copy_finished(source: Path, target: Path) -> None:
    """Copy a finished run atomically: under a temporary name first. Raises a `UserError` if the
    target has files of a run: it may have lost its config.json."""
    RunFolder(target).require_new()
    unfinished = target.with_name(f"{target.name}.copying")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, unfinished / name)
        elif (source / name).exists():
            shutil.copy2(source / name, unfinished / name)
    with open(RunFolder(unfinished).run_log, "a", errors="backslashreplace") as log:
        log.write(f"copied from {source}\n")
    if target.exists():  # at most a lock and a log: nothing was trained there
        shutil.rmtree(target)
    os.replace(unfinished, target)
