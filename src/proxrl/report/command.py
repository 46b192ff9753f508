"""`proxrl report`: run folders in, one page, figures and scores.csv out."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from proxrl.errors import UserError


@dataclass(frozen=True)
class ReportOptions:
    """Report on a folder of runs: one page that opens without a network, every figure as PNG and
    SVG, and scores.csv. Reads files only; runs of different protocols are refused."""

    folder: tyro.conf.Positional[Path]
    """Folder with runs, at any depth; a study's folder gives the page its title."""
    out: Path | None = None
    """Where index.html, scores.csv and figures/ go; default: DIR/report."""
    baselines: Literal["dopamine"] | None = None
    """Published learning curves to draw beside the runs (Atari; they are training returns)."""
    steps: int | None = None
    """Compare after this many agent steps, cutting longer runs; default: the runs' own budget."""
    resamples: int = 10_000
    """Bootstrap resamples behind every interval."""


def make_report(
    folder: Path,
    out: Path | None = None,
    baselines: Literal["dopamine"] | None = None,
    steps: int | None = None,
    resamples: int = 10_000,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Path, list[str]]:
    """Write the report; the page's path and its summary. `say` hears warnings."""
    for name, value in (("steps", steps), ("resamples", resamples)):
        if value is not None and value < 1:
            raise UserError(f"--{name} {value} cannot be: it must be at least 1")

    from proxrl.paper.training import check_runs
    from proxrl.report import figures, page, plots, tables
    from proxrl.report.about import read_about
    from proxrl.report.baselines import beside
    from proxrl.report.curve_plots import learning_curves
    from proxrl.report.findings import examine
    from proxrl.report.runs import read_runs
    from proxrl.report.study import gather
    from proxrl.report.words import summary

    runs = read_runs(folder)
    out = folder / "report" if out is None else out
    _require_writable(out)
    for run in runs:
        if run.status in ("corrupt", "duplicate"):
            say(f"{run.path} is left out: {run.note}")
    study = gather(folder.resolve().name, runs, steps, read_about(folder, say))
    published = beside(study) if baselines else ()
    findings = examine(study, resamples)
    drawn = plots.all_plots(findings, published)
    curves = learning_curves(study, published)
    options = [
        *(["--baselines", baselines] if baselines else []),
        *(["--steps", str(steps)] if steps else []),
        *(["--resamples", str(resamples)] if resamples != 10_000 else []),
    ]
    command = " ".join(["proxrl report", study.name, *options])
    text = page.render(findings, drawn, curves, check_runs(findings), published, command)
    try:
        figures.save_all([*drawn, curves], out / "figures")
        tables.write_scores(study, out / "scores.csv")
        unfinished = out / "index.html.writing"
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, out / "index.html")
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from None
    return out / "index.html", summary(findings)


def _require_writable(out: Path) -> None:
    """Before the work begins."""
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from None
    if not os.access(out, os.W_OK | os.X_OK) or not os.access(out / "figures", os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {out}: Permission denied")
