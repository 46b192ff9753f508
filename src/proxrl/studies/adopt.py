"""Reuse of runs that another study has finished: DQN on Breakout is the same run in all of them.

A run is a function of its config and of the code that made it, so one with the same config, made by
the same version of proxrl (in a git checkout: the same commit), is copied from a study folder next
to this one instead of being run again. `distance` after `main` then costs nothing. What else may
change bits, such as the CPU model or the version of torch, is in machine.jsonl of both.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.runs.copy import copy_finished
from proxrl.runs.folder import CONFIG, MACHINE, RunFolder
from proxrl.runs.lines import read_lines
from proxrl.runs.study_file import STUDY
from proxrl.source import source_version
from proxrl.studies.expand import Job


def adoptable(jobs: Iterable[Job], folder: Path) -> dict[Job, Path]:
    """Finished copies of jobs that have not started, made by the same code."""
    folder = folder if folder.name else folder.absolute()  # "." has no parent
    studies = [path.parent for path in sorted(folder.parent.glob(f"*/{STUDY}"))]
    beside = [study for study in studies if study != folder]
    new = [job for job in jobs if not RunFolder(job.folder).has_config()]
    found = {job: next(_finished_runs(job, beside), None) for job in new}
    return {job: path for job, path in found.items() if path is not None}


def adopt(jobs: Iterable[Job], folder: Path) -> int:
    """Copy them and return their number. What cannot be copied is run, which reports the error."""
    copied = 0
    for job, source in adoptable(jobs, folder).items():
        with contextlib.suppress(OSError, UserError):
            copy_finished(source, job.folder)
            copied += 1
    return copied


def _finished_runs(job: Job, beside: list[Path]) -> Iterator[Path]:
    game, seed = job.folder.parts[-2:]
    for study in beside:
        for path in sorted(study.glob(f"*/{game}/{seed}/{CONFIG}")):
            place = RunFolder(path.parent)
            if (
                _config(place) == job.config
                and _made_by(place) == {source_version()}
                and place.is_complete(job.config)
            ):
                yield path.parent


def _config(place: RunFolder) -> RunConfig | None:
    try:
        return place.config()
    except UserError:
        return None


def _made_by(place: RunFolder) -> set[str]:
    """The versions of proxrl that trained a run; empty if that cannot be read."""
    try:
        return {line["proxrl"] for line in read_lines(place.path / MACHINE)}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return set()
