"""Runs that another study has finished already: DQN on Breakout is the same run in all of them.

A run is a function of its config, so one with the same config is copied from a study folder beside
this one and not run again. `distance` after `main` then costs nothing.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.studies.board import is_done
from proxrl.studies.expand import Job
from proxrl.training.folder import RunFolder

STUDY = "study.json"
COPIED = ("config.json", "metrics.jsonl", "episodes.jsonl", "speed.jsonl", "log.txt", "checkpoints")


def adopt(jobs: Iterable[Job], folder: Path) -> int:
    """Copy what is finished elsewhere into jobs that have not begun; their number."""
    beside = [path.parent for path in folder.parent.glob(f"*/{STUDY}") if path.parent != folder]
    return sum(_adopt(job, beside) for job in jobs if not (job.folder / "config.json").exists())


def _adopt(job: Job, beside: list[Path]) -> bool:
    for found in _same_runs(job, beside):
        if is_done(Job(job.variant, job.game, job.seed, job.config, found)):
            _copy(found, job.folder)
            return True
    return False


def _same_runs(job: Job, beside: list[Path]) -> Iterator[Path]:
    game, seed = job.folder.parts[-2:]
    for study in beside:
        for path in sorted(study.glob(f"*/{game}/{seed}/config.json")):
            if _config(path.parent) == job.config:
                yield path.parent


def _config(folder: Path) -> RunConfig | None:
    try:
        return RunFolder(folder).config()
    except UserError:
        return None


def _copy(source: Path, target: Path) -> None:
    """Whole or not at all: under another name first."""
    unfinished = target.with_name(f"{target.name}.copying")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, unfinished / name)
        elif (source / name).exists():
            shutil.copy2(source / name, unfinished / name)
    if target.exists():  # with a lock and a log at most: nothing has been trained there
        shutil.rmtree(target)
    os.replace(unfinished, target)
