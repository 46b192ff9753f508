"""The first page of a report with several sections: the verdict and the curves of each."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from proxrl import __version__
from proxrl.report import html_tables as tables
from proxrl.report.baselines import Baseline
from proxrl.report.figures import Drawn
from proxrl.report.findings import Findings
from proxrl.report.html import render_page
from proxrl.report.html_tables import Cell, Table
from proxrl.report.labels import shown
from proxrl.report.page import series_colours
from proxrl.report.runs import Found
from proxrl.report.sections import Section, differences
from proxrl.report.words import lead, verdicts
from proxrl.runs.record import Run

FEW_GAMES = 4  # up to this many, an overview shows their learning curves


@dataclass(frozen=True, eq=False)
class Part:
    """A section with everything that was made from it."""

    section: Section
    findings: Findings
    drawn: Sequence[Drawn]
    baselines: Sequence[Baseline]
    files: dict[str, bytes]
    summary: list[str]


def overview(
    found: Found, parts: Sequence[Part], unplaced: Sequence[Run], advice: str, command: str
) -> dict[str, bytes]:
    """index.html and scores.csv of the whole report."""
    colours = [pair for one in parts for pair in series_colours(one.findings.study, one.baselines)]
    runs = sum(len(part.section.runs) for part in parts) + len(unplaced)
    heading = found.about.title or found.name
    text = render_page(
        "overview.html",
        colours,
        maker="proxrl report",
        tab=heading,
        heading=heading,
        lead=f"{len(parts)} sections · {runs} runs",
        advice=advice,
        parts=[_shown(part) for part in parts],
        differences=_differences(parts),
        unplaced=tables.unplaced_table(unplaced) if unplaced else None,
        command=command,
        version=__version__,
    )
    return {"index.html": text.encode(), "scores.csv": _scores(parts, unplaced).encode()}


def _shown(part: Part) -> dict[str, object]:
    study = part.findings.study
    wanted = (
        ("learning_curves",) if len(study.games) <= FEW_GAMES else ("median_curve", "improvement")
    )
    figure = next((one for name in wanted for one in part.drawn if one.plot.id == name), None)
    return {
        "name": part.section.name,
        "slug": part.section.slug,
        "lead": lead(study),
        "verdicts": verdicts(part.findings),
        "svg": Markup(figure.svg) if figure else None,
        "caption": figure.plot.caption if figure else "",
        "wide": len(study.games) > 1,
    }


def _differences(parts: Sequence[Part]) -> Table:
    """The settings of the protocol in which the sections differ."""
    sections = [part.section for part in parts]
    rows = [
        [Cell(name), *(Cell(shown(value) or "–") for value in values)]
        for name, values in differences(sections).items()
    ]
    heads = ["setting", *(one.name for one in sections)]
    return Table("protocol-table", heads, rows, sortable=False)


def _scores(parts: Sequence[Part], unplaced: Sequence[Run]) -> str:
    """The rows of every section's scores.csv, with the section's name first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads: list[str] = []
    for part in parts:
        rows = list(csv.reader(io.StringIO(part.files["scores.csv"].decode())))
        if not heads:
            heads = rows[0]
            writer.writerow(["section", *heads])
        writer.writerows([part.section.name, *row] for row in rows[1:])
    for run in unplaced:
        cells = dict.fromkeys(heads, "") | {"run": run.path, "status": run.status, "note": run.note}
        writer.writerow(["", *cells.values()])
    return text.getvalue()
