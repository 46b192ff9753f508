"""Runs that another study has finished already: DQN on Breakout is the same run in all of them.

A run is a function of its config, so one with the same config is copied from a study folder beside
this one and not run again. `distance` after `main` then costs nothing.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from proxrl import __version__
from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.report.about import STUDY
from proxrl.studies.board import is_done
from proxrl.studies.expand import Job
from proxrl.training.folder import RunFolder

COPIED = ("metrics.jsonl", "episodes.jsonl", "speed.jsonl", "log.txt", "checkpoints", "config.json")


def adoptable(jobs: Iterable[Job], folder: Path) -> dict[Job, Path]:
    """Where runs that have not begun are finished already, by the same version of proxrl."""
    folder = folder if folder.name else folder.absolute()  # "." has no parent
    beside = [
        path.parent
        for path in sorted(folder.parent.glob(f"*/{STUDY}"))
        if path.parent != folder and _version(path) == __version__
    ]
    new = [job for job in jobs if not (job.folder / "config.json").exists()]
    found = {job: next(_finished_runs(job, beside), None) for job in new}
    return {job: path for job, path in found.items() if path is not None}


def adopt(jobs: Iterable[Job], folder: Path) -> int:
    """Copy them; their number. What cannot be copied is run, and says itself what is wrong."""
    copied = 0
    for job, source in adoptable(jobs, folder).items():
        with contextlib.suppress(OSError):
            _copy(source, job.folder)
            copied += 1
    return copied


def _version(study: Path) -> str | None:
    try:
        return str(json.loads(study.read_text())["proxrl"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _finished_runs(job: Job, beside: list[Path]) -> Iterator[Path]:
    game, seed = job.folder.parts[-2:]
    for study in beside:
        for path in sorted(study.glob(f"*/{game}/{seed}/config.json")):
            if _config(path.parent) == job.config and is_done(replace(job, folder=path.parent)):
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
    with open(RunFolder(unfinished).run_log, "a") as log:
        log.write(f"copied from {source}\n")
    if target.exists():  # with a lock and a log at most: nothing has been trained there
        shutil.rmtree(target)
    os.replace(unfinished, target)
