"""The page: one HTML file with everything in it, that opens from disk without a network.

Tables are written here and readable without scripts; figures are drawn by assets/page.js with
plotly.js, both inlined, when they are scrolled to. The same study gives the same bytes.
"""

import json
import math
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from proxrl import __version__
from proxrl.paper.training import Claim
from proxrl.report import html_tables as tables
from proxrl.report.baselines import Baseline
from proxrl.report.findings import Findings
from proxrl.report.html_tables import escaped, marked
from proxrl.report.plot import Plot
from proxrl.report.statistics import nanmean, standard_error
from proxrl.report.study import Study
from proxrl.report.words import coverage, figures, lead, method, summary, title
from proxrl.types import Array

DIGITS = 4  # significant, in embedded curves


def render(
    findings: Findings,
    plots: Sequence[Plot],
    curves: Plot,
    claims: Sequence[Claim],
    baselines: Sequence[Baseline],
    command: str,
) -> str:
    """The whole file."""
    from plotly.offline import get_plotlyjs

    study = findings.study
    parts = {
        "title": escaped(_tab(study)),
        "heading": _heading(study),
        "lead": escaped(lead(study)),
        "method": escaped(method(study)),
        "summary": "".join(f"<p>{marked(line)}</p>" for line in summary(findings)),
        "notes": "".join(f"<li>{marked(line)}</li>" for line in coverage(findings)),
        "navigation": _navigation(plots),
        "aggregates": tables.aggregate_table(findings, baselines),
        "figures": "".join(_figure(plot, command) for plot in plots),
        "games": tables.games_table(findings),
        "cards": _cards(study, curves, command),
        "claims": tables.claims_table(claims),
        "counts": escaped(tables.claim_counts(claims)),
        "protocol": tables.protocol_table(study),
        "series": tables.series_table(study),
        "runs": tables.runs_table(study),
        "command": escaped(command),
        "version": escaped(__version__),
        "css": _asset("page.css"),
        "data": _json(_data(study, plots, baselines)),
        "plotly": get_plotlyjs().replace("</script", "<\\/script"),
        "js": _asset("page.js"),
    }
    page = _asset("page.html")
    for name, content in parts.items():
        before, after = page.split("{{" + name + "}}", 1)
        page = before + content + after
    return page


def _tab(study: Study) -> str:
    """With the folder's name, which tells the scales of a study apart."""
    named = [study.about.title, figures(study), study.name]
    return " · ".join([part for part in named if part] + ["proxrl report"])


def _heading(study: Study) -> str:
    heading = f"<h1>{escaped(title(study))}</h1>"
    if named := figures(study):
        heading += f'<p class="paper">Corresponds to {escaped(named)} of the paper</p>'
    return heading


# ------------------------------------------------------------------------------------ what is drawn


def _data(study: Study, plots: Sequence[Plot], baselines: Sequence[Baseline]) -> dict[str, Any]:
    frames = study.frame_skip if study.in_frames else 1
    return {
        "axis": {"name": study.axis_name, "x": study.axis.tolist()},
        "unit": study.scale.unit,
        "scaled": study.scale.kind != "raw",
        "scale": {
            game: [low, high]
            for game, low, high, known in zip(
                study.games,
                study.scale.low.tolist(),
                study.scale.high.tolist(),
                study.scale.known.tolist(),
                strict=True,
            )
            if known and study.scale.kind != "raw"
        },
        "plots": {plot.id: _plot(plot) for plot in plots},
        "series": [
            {
                **_style(block.series.name, block.series),
                "games": {
                    game: _game_curves(block.curves, number)
                    for number, game in enumerate(study.games)
                    if np.isfinite(block.curves["eval_return"][:, number]).any()
                },
            }
            for block in study.blocks
        ],
        "baselines": [
            {
                **_style(one.name, one),
                "x": (one.steps * frames).tolist(),
                "games": {g: _numbers(one.mean[n]) for n, g in enumerate(study.games)},
            }
            for one in baselines
        ],
    }


def _game_curves(curves: dict[str, Array], game: int) -> dict[str, Any]:
    returns = curves["eval_return"][:, game]
    there = np.isfinite(returns).any(axis=1)
    found: dict[str, Any] = {"runs": [_numbers(run) for run in returns[there]]}
    for name in ("eval_return", "sync_distance", "value_distance"):
        values = curves[name][:, game]
        found[name] = [_numbers(nanmean(values)), _numbers(standard_error(values))]
    return found


def _plot(plot: Plot) -> dict[str, Any]:
    return {
        "kind": plot.kind,
        "x": plot.x_label,
        "y": re.sub(r"θ_(\w+)", r"θ<sub>\1</sub>", plot.y_label),
        "options": plot.options,
        "panels": [
            {
                "title": panel.title,
                "lines": [
                    {
                        **_style(line.name, line),
                        "x": line.x.tolist() if line.x.dtype.kind == "U" else _numbers(line.x, 9),
                        "y": _numbers(line.y),
                        "low": None if line.low is None else _numbers(line.low),
                        "high": None if line.high is None else _numbers(line.high),
                    }
                    for line in panel.lines
                ],
            }
            for panel in plot.panels
        ],
    }


def _style(name: str, of: Any) -> dict[str, Any]:
    return {"name": name, "colour": of.colour, "dark": of.dark, "dash": of.dash}


def _numbers(values: Array, digits: int = DIGITS) -> list[float | None]:
    """Rounded to significant digits; None where there is nothing."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def _json(data: dict[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("</", "<\\/")


# ------------------------------------------------------------------------------------------ figures


def _figure(plot: Plot, command: str) -> str:
    return (
        f'<section class="figure" id="{plot.id}"><h2>{escaped(plot.title)}</h2>'
        f'<div class="plot" data-plot="{plot.id}" data-kind="{plot.kind}"></div>'
        f'<p class="caption">{escaped(plot.caption)}</p>{_tools(plot.id, command)}</section>\n'
    )


def _tools(identity: str, command: str) -> str:
    return (
        f'<p class="tools"><button type="button" data-csv="{identity}">data (CSV)</button>'
        f'<a href="figures/{identity}.png">PNG</a><a href="figures/{identity}.svg">SVG</a>'
        f"<code>{escaped(command)}</code></p>"
    )


def _cards(study: Study, curves: Plot, command: str) -> str:
    cards = "".join(
        f'<article class="card" data-game="{game}" id="game-{game}"><h3>{game}</h3>'
        f'<div class="plot" data-curves="{game}"></div></article>\n'
        for game in map(escaped, study.games)
    )
    return (
        f'<p class="caption">{escaped(curves.caption)}</p><div class="cards">{cards}</div>'
        f"{_tools(curves.id, command)}"
    )


def _navigation(plots: Sequence[Plot]) -> str:
    return "".join(f'<a href="#{plot.id}">{escaped(plot.title)}</a>' for plot in plots)


def _asset(name: str) -> str:
    return (resources.files("proxrl.report") / "assets" / name).read_text(encoding="utf-8")
