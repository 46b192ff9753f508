"""A study's folder: which study it belongs to, the driver's lock, and the export."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from proxrl import __version__
from proxrl.config import RunConfig, differences
from proxrl.errors import UserError
from proxrl.files import plain, read_bytes, require_plain
from proxrl.runs.folder import EXPORTED, METRICS, RunFolder
from proxrl.runs.lines import read_lines
from proxrl.runs.study_file import STUDY, About, load_about, write_about
from proxrl.studies.definition import Scale, Study
from proxrl.studies.expand import Job

LOCK = ".study-lock"
PART = ".part-"  # before the name of a file that is being exported


def require_same_study(folder: Path, study: Study, scale: Scale, option: str = "--folder") -> None:
    """Raise a `UserError` if the folder belongs to another study or scale."""
    try:
        there = load_about(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UserError(f"cannot write to {folder}: it is not a folder") from None
    except OSError as error:
        raise UserError(f"{folder / STUDY} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{folder / STUDY} is damaged: choose another {option}") from None
    if not (there.study and there.scale):
        raise UserError(f"{folder / STUDY} is damaged: choose another {option}")
    if (there.study, there.scale) != (study.name, scale.name):
        raise UserError(
            f"{folder} belongs to the study {there.study} at scale {there.scale}: "
            f"choose another {option}"
        )


@contextlib.contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Create the folder and keep other drivers (the same command) out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / LOCK, "w", opener=plain)  # noqa: SIM115
    except OSError as error:
        raise _cannot_write(folder, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{folder} is in use by another `{command}`: wait for it, or stop it"
            ) from None
        yield


@contextlib.contextmanager
def opened(folder: Path, study: Study, scale: Scale) -> Iterator[None]:
    """Create and lock the folder, and write study.json."""
    about = About(study.title, study.figures, study.headline, study.name, scale.name, __version__)
    is_new = not folder.exists()
    with locked(folder, "proxrl study"):
        try:
            write_about(folder, about)
        except OSError as error:
            raise _cannot_write(folder, error) from None
        try:
            yield
        except UserError:  # rejected before anything ran: leave nothing behind
            if is_new and set(os.listdir(folder)) <= {STUDY, LOCK}:
                shutil.rmtree(folder)
            raise


def _cannot_write(folder: Path, error: OSError) -> UserError:
    return UserError(f"cannot write to {folder}: {error.strerror or error}")


def require_exportable(
    out: Path, study: Study, scale: Scale, jobs: Sequence[Job], folder: Path
) -> None:
    """Raise a `UserError` before days of training, not after: if the export cannot be written, or
    would overwrite anything but an earlier export of the same study."""
    above = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UserError(f"cannot export to {out}: {above} is not a writable directory")
    is_inside = folder.resolve() in (out.resolve(), *out.resolve().parents)
    if (out / LOCK).exists() or is_inside:
        raise UserError(f"cannot export to {out}: it is the folder of a study; choose another")
    _require_no_links(jobs, folder, out)
    require_same_study(out, study, scale, "--export")
    if out.exists() and os.listdir(out) and not (out / STUDY).exists():
        raise UserError(f"cannot export to {out}: it is neither empty nor an export")
    for job in jobs:
        there = RunFolder(out / job.folder.relative_to(folder))
        if not there.path.exists():
            continue
        others = set(os.listdir(there.path)) - {*EXPORTED, *(PART + name for name in EXPORTED)}
        if others:
            raise UserError(
                f"cannot export to {out}: {there.path / min(others)} is not of an export"
            )
        if there.has_config() and differences(there.config(), job.config).keys() - {"threads"}:
            raise UserError(f"cannot export to {out}: {there.path} is another run")
        _goes_further(job, folder, out)  # raises


def _goes_further(job: Job, folder: Path, out: Path) -> bool:
    """Whether a run has at least the results that an export has of it. Raises a `UserError` if they
    differ: those of the export are of another machine or version, and may be the only copy."""
    there, here = (run / METRICS for run in (out / job.folder.relative_to(folder), job.folder))
    try:
        exported, ours = (read_bytes(path) if path.exists() else b"" for path in (there, here))
    except OSError as error:
        raise UserError(f"cannot export to {out}: {error.filename} {error.strerror}") from None
    if ours and not (ours.startswith(exported) or exported.startswith(ours)):
        raise UserError(
            f"cannot export to {out}: {there} has other results than {here}, made on another "
            "machine or by another version; choose another --export"
        )
    return len(ours) >= len(exported)


def _require_no_links(jobs: Sequence[Job], folder: Path, out: Path) -> None:
    """Raise a `UserError` if anything that an export writes is a link: it may point anywhere. The
    export's folder itself may be one."""
    require_plain(out, [STUDY], [])
    for job in jobs:
        run = job.folder.relative_to(folder)
        require_plain(out, [str(run / name) for name in EXPORTED], [])
        require_plain(out, [], map(str, (run, *run.parents[:-1])))


def complete_in(out: Path, jobs: Sequence[Job], folder: Path) -> list[Job]:
    """Jobs that were not started here and whose results an export of this version has in full: they
    were made by another machine, or in a folder that is gone."""
    try:
        if load_about(out).proxrl != __version__:
            return []
    except (OSError, ValueError):
        return []
    new = [job for job in jobs if not RunFolder(job.folder).has_config()]
    return [job for job in new if _is_whole(out / job.folder.relative_to(folder), job.config)]


def _is_whole(run: Path, config: RunConfig) -> bool:
    """Whether an exported run has these settings, and a line for every evaluation."""
    place, period = RunFolder(run), config.evaluation.period_steps
    if not place.has_config():
        return False
    other = differences(place.config(), config).keys()
    if other - ({"threads"} if config.threads == 0 else set()):
        return False
    try:
        evaluated = [line["step"] for line in read_lines(run / METRICS)]
    except (ValueError, TypeError, KeyError, OSError):
        return False
    return evaluated == [*range(period, config.steps, period), config.steps]


def export(jobs: Sequence[Job], folder: Path, out: Path) -> int:
    """Copy the input of a report, study.json and config and metrics of every run that was started,
    and what each was made by. Returns the number of runs."""
    begun = [job for job in jobs if (job.folder / METRICS).exists()]
    _require_no_links(begun, folder, out)  # again: training took its time
    if begun:
        export_files([folder / STUDY], out)  # first: it says that this is an export
    for job in [job for job in begun if _goes_further(job, folder, out)]:
        small = [job.folder / name for name in EXPORTED if (job.folder / name).exists()]
        export_files(small, out / job.folder.relative_to(folder))
    return len(begun)


def export_files(files: Sequence[Path], out: Path) -> None:
    """Copy files, not through links, each whole or not at all; raises `UserError` on failure."""
    require_plain(out, [name for file in files for name in (file.name, PART + file.name)], [])
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in files:
            part = out / (PART + file.name)
            with open(file, "rb", opener=plain) as source, open(part, "wb", opener=plain) as copy:
                shutil.copyfileobj(source, copy)
            os.replace(part, out / file.name)
    except OSError as error:
        raise _cannot_write(out, error) from None
