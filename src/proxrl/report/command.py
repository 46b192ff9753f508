"""`proxrl report`: runs and logs in; pages, figures and scores.csv out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from proxrl.errors import UserError, printable

if TYPE_CHECKING:
    from proxrl.report.overview import Part
    from proxrl.report.runs import Found
    from proxrl.report.sections import Section


@dataclass(frozen=True)
class ReportOptions:
    """Report on runs and logs: pages that open offline, every figure as PNG, SVG and CSV, and
    scores.csv. Reads files only. Runs with different protocols are in separate sections.

      proxrl report runs
      proxrl report runs --env MinAtar/Breakout-v1 --agent dqn dqn-pro
      proxrl report runs --baselines dopamine
    """

    folders: tyro.conf.Positional[tuple[Path, ...]] = (Path("runs"),)
    """Folders with runs or Stable-Baselines3 logs, at any depth, CSV files of returns, or patterns
    for them; a study's folder gives the page its title."""
    out: Path | None = None
    """Where index.html, scores.csv and figures/ go; default: DIR/report, or ./report if there are
    several folders."""
    env: tuple[str, ...] = ()
    """Only these environments: ids or games, * matches anything."""
    agent: tuple[str, ...] = ()
    """Only these agents; * matches anything."""
    baselines: Literal["dopamine"] | None = None
    """Published learning curves to draw next to the runs (Atari only; training returns)."""
    steps: int | None = None
    """Compare after this many agent steps, truncating longer runs; default: the runs' budget."""
    resamples: int = 10_000
    """Number of bootstrap resamples for the intervals."""
    layout: str | None = None
    """Where the folder names of Stable-Baselines3 logs have agent, environment and seed, e.g.
    {agent}/{env}/{seed}; * matches anything within a name."""


def make_report(
    folders: Path | Sequence[Path],
    out: Path | None = None,
    baselines: Literal["dopamine"] | None = None,
    steps: int | None = None,
    resamples: int = 10_000,
    say: Callable[[str], None] = lambda line: None,
    env: Sequence[str] = (),
    agent: Sequence[str] = (),
    layout: str | None = None,
) -> tuple[Path, list[str]]:
    """Write the report; returns the page's path and its summary. `say` receives warnings."""
    for name, value in (("steps", steps), ("resamples", resamples)):
        if value is not None and value < 1:
            raise UserError(f"invalid --{name} {value}: must be at least 1")

    from proxrl.report.logs import check_layout
    from proxrl.report.output import require_writable, write_files
    from proxrl.report.overview import overview
    from proxrl.report.runs import expand, find_runs, matching
    from proxrl.report.sections import budgets, split

    if layout is not None:
        check_layout(layout)
    roots = expand([folders] if isinstance(folders, Path) else folders)
    out = out or _default_out(roots)
    found = find_runs(roots, layout, steps, say)
    runs = matching(found.runs, env, agent)
    sections, unplaced = split(runs, steps, one_study=bool(found.about.study or found.about.title))
    require_writable(out)
    for run in (*unplaced, *(run for section in sections for run in section.runs)):
        if run.status in ("corrupt", "duplicate", "mixed"):
            say(f"{run.path} is skipped: {run.note}")
    options = [
        *(["--env", *env] if env else []),
        *(["--agent", *agent] if agent else []),
        *(["--baselines", baselines] if baselines else []),
        *(["--steps", str(steps)] if steps else []),
        *(["--resamples", str(resamples)] if resamples != 10_000 else []),
        *(["--layout", layout] if layout else []),
    ]
    names = [printable(root.resolve().name) for root in roots]
    command = printable(" ".join(["proxrl report", *names, *options]))
    if len(sections) == 1:
        part = _part(found, sections[0], found.name, "", baselines, resamples, command)
        write_files(out, part.files, say)
        return out / "index.html", part.summary
    if advice := budgets(sections):
        say(advice)
    drawable = _with_baselines(sections) if baselines else ()
    parts = []
    for one in sections:
        envs = " ".join(sorted({run.asked.env for run in one.runs if run.usable}))
        source = f"{' '.join(names)} --env {envs}"
        curves = baselines if one in drawable else None
        parts.append(_part(found, one, one.name, source, curves, resamples, command))
    files = overview(found, parts, unplaced, advice, command)
    for part in parts:
        files |= {f"{part.section.slug}/{name}": content for name, content in part.files.items()}
    write_files(out, files, say)
    summary = [f"{part.section.name}: {line}" for part in parts for line in part.summary]
    return out / "index.html", summary


def _part(
    found: "Found",
    section: "Section",
    name: str,
    source: str,
    baselines: str | None,
    resamples: int,
    command: str,
) -> "Part":
    """The files of one section."""
    from proxrl.paper.training import check_runs
    from proxrl.report import page, tables
    from proxrl.report.baselines import beside
    from proxrl.report.figures import all_figures, render
    from proxrl.report.findings import examine
    from proxrl.report.overview import Part
    from proxrl.report.study import gather
    from proxrl.report.training import rows, training_returns_csv
    from proxrl.report.words import summary

    study = gather(name, section.runs, None, found.about, found.headline, source)
    published = beside(study) if baselines else ()
    findings = examine(study, resamples)
    drawn = list(render(all_figures(findings, published)))
    files = {"scores.csv": tables.scores_csv(study).encode()}
    if findings.comparisons:
        files["comparisons.csv"] = tables.comparisons_csv(findings.comparisons).encode()
    if training := list(rows(study, published)):
        files["training_returns.csv"] = training_returns_csv(training).encode()
    for one in drawn:
        files[f"figures/{one.plot.id}.png"] = one.png
        files[f"figures/{one.plot.id}.svg"] = one.svg.encode()
        files[f"figures/{one.plot.id}.csv"] = one.plot.csv().encode()
    above = "../index.html" if source else ""
    text = page.render(findings, drawn, check_runs(findings), published, command, above)
    files["index.html"] = text.encode()
    return Part(section, findings, drawn, published, files, summary(findings))


def _with_baselines(sections: Sequence["Section"]) -> list["Section"]:
    """The sections for which there are published curves; all if there are none, for the error."""
    from proxrl.suites import suite_of

    found = [
        one
        for one in sections
        if all("dopamine" in suite_of(run.asked.env).baselines for run in one.runs if run.config)
    ]
    return found or list(sections)


def _default_out(roots: Sequence[Path]) -> Path:
    if len(roots) > 1:
        return Path("report")
    out = (roots[0] if roots[0].is_dir() else roots[0].parent) / "report"
    if out.is_symlink():  # in a folder from someone else: it may point anywhere
        raise UserError(f"{out} is a symbolic link: choose the output folder with --out")
    return out
