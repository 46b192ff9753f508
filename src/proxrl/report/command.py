"""`proxrl report`: run folders in, one page, figures and scores.csv out."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from proxrl.errors import UserError

MANIFEST = ".proxrl-report.json"  # files of ours -> SHA-256


@dataclass(frozen=True)
class ReportOptions:
    """Report on a folder of runs: one page that opens offline, every figure as PNG, SVG and CSV,
    and scores.csv. Reads files only; runs with different protocols are rejected."""

    folder: tyro.conf.Positional[Path]
    """Folder with runs, at any depth; a study's folder gives the page its title."""
    out: Path | None = None
    """Where index.html, scores.csv and figures/ go; default: DIR/report."""
    baselines: Literal["dopamine"] | None = None
    """Published learning curves to draw next to the runs (Atari only; training returns)."""
    steps: int | None = None
    """Compare after this many agent steps, truncating longer runs; default: the runs' budget."""
    resamples: int = 10_000
    """Number of bootstrap resamples for the intervals."""


def make_report(
    folder: Path,
    out: Path | None = None,
    baselines: Literal["dopamine"] | None = None,
    steps: int | None = None,
    resamples: int = 10_000,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Path, list[str]]:
    """Write the report; returns the page's path and its summary. `say` receives warnings."""
    for name, value in (("steps", steps), ("resamples", resamples)):
        if value is not None and value < 1:
            raise UserError(f"invalid --{name} {value}: must be at least 1")

    from proxrl.paper.training import check_runs
    from proxrl.report import page, tables
    from proxrl.report.baselines import beside
    from proxrl.report.figures import all_figures, render
    from proxrl.report.findings import examine
    from proxrl.report.runs import read_runs
    from proxrl.report.study import gather
    from proxrl.report.training import rows, training_returns_csv
    from proxrl.report.words import summary
    from proxrl.runs.study_file import read_about

    runs = read_runs(folder)
    if out is None:
        out = folder / "report"
        if out.is_symlink():  # in a folder from someone else: it may point anywhere
            raise UserError(f"{out} is a symbolic link: choose the output folder with --out")
    _require_writable(out)
    for run in runs:
        if run.status in ("corrupt", "duplicate"):
            say(f"{run.path} is skipped: {run.note}")
    study = gather(folder.resolve().name, runs, steps, read_about(folder, say))
    published = beside(study) if baselines else ()
    findings = examine(study, resamples)
    drawn = list(render(all_figures(findings, published)))
    options = [
        *(["--baselines", baselines] if baselines else []),
        *(["--steps", str(steps)] if steps else []),
        *(["--resamples", str(resamples)] if resamples != 10_000 else []),
    ]
    command = " ".join(["proxrl report", study.name, *options])
    files = {"scores.csv": tables.scores_csv(study).encode()}
    if training := list(rows(study, published)):
        files["training_returns.csv"] = training_returns_csv(training).encode()
    for one in drawn:
        files[f"figures/{one.plot.id}.png"] = one.png
        files[f"figures/{one.plot.id}.svg"] = one.svg.encode()
        files[f"figures/{one.plot.id}.csv"] = one.plot.csv().encode()
    text = page.render(findings, drawn, check_runs(findings), published, command)
    files["index.html"] = text.encode()
    write_files(out, files)
    return out / "index.html", summary(findings)


def write_files(out: Path, files: dict[str, bytes]) -> None:
    """Write the files and the manifest, and remove files of an earlier report that this one does
    not have. Files that are not in the manifest are never overwritten or removed."""
    if (out / "figures").is_symlink():
        raise UserError(f"{out / 'figures'} is a symbolic link: choose another --out")
    ours = _manifest(out) or _before_manifests(out, files)
    for name in files:
        if name not in ours and os.path.lexists(out / name):
            raise UserError(
                f"{out / name} exists and was not made by `proxrl report`: "
                "choose another --out, or move it"
            )
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        _replace(out / MANIFEST, json.dumps({**ours, **digests}, indent=1).encode())  # before them
        for name, content in files.items():
            _replace(out / name, content)
        for name in ours.keys() - files.keys():
            path = out / name
            # if modified since, it is no longer ours
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == ours[name]:
                path.unlink()
        _replace(out / MANIFEST, json.dumps(digests, indent=1).encode())
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from None


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.writing")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


def _manifest(out: Path) -> dict[str, str]:
    """Files that an earlier report wrote here; names outside the folder are ignored."""
    try:
        found = json.loads((out / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: str(digest)
        for name, digest in found.items()
        if name in ("index.html", "scores.csv", "training_returns.csv")
        or (name.startswith("figures/") and "/" not in name[8:] and name[8:] not in ("", "..", "."))
    }


def _before_manifests(out: Path, files: Iterable[str]) -> dict[str, str]:
    """Reports of proxrl 0.1 have no manifest: recognised by the page, they may be overwritten."""
    try:
        with (out / "index.html").open("rb") as file:
            is_ours = b'<p class="kicker">proxrl report</p>' in file.read(2**16)
    except OSError:
        return {}
    return dict.fromkeys(files, "") if is_ours else {}


def _require_writable(out: Path) -> None:
    """Check before the work starts."""
    existing = next(one for one in (out, *out.parents) if one.exists())
    if not existing.is_dir():
        raise UserError(f"cannot write to {out}: Not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {out}: Permission denied")
