"""The page: one self-contained HTML file that opens offline.

Tables and figures (the SVGs of figures/) need no scripts; the curves of every game are drawn by
assets/page.js from JSON in the page. Names come from run folders that others may have written:
Jinja2 escapes them, and a Content-Security-Policy allows only the page's own script and style
sheet, by hash. The same study gives the same bytes.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from proxrl import __version__
from proxrl.report import html_tables as tables
from proxrl.report.baselines import Baseline
from proxrl.report.figures import Drawn
from proxrl.report.findings import Findings
from proxrl.report.html import render_page
from proxrl.report.labels import metric_label
from proxrl.report.statistics import nanmean, standard_error
from proxrl.report.study import StudyResults
from proxrl.report.training import missing_note
from proxrl.report.words import coverage, figures, lead, method, title, verdicts
from proxrl.types import Array

if TYPE_CHECKING:
    from proxrl.paper.training import Claim

FEW_GAMES = 8  # up to this many, the curves of every game come first
FEW_POINTS = 50  # of a published curve; above, every second point is in the page
MOST_VALUES = 150_000  # in the page's JSON; above, only every n-th point is included
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
FEW_ROWS = 5  # up to this many, a table has no search field


def render(
    findings: Findings,
    drawn: Sequence[Drawn],
    claims: Sequence["Claim"],
    baselines: Sequence[Baseline],
    command: str,
    above: str = "",
) -> str:
    """The whole file; `above` is the address of the page of all sections, if there are several."""
    study = findings.study
    counts = [one.verdict for one in claims]
    curves = next(one.plot for one in drawn if one.plot.id == "learning_curves")
    several = study.most_seeds > 1
    return render_page(
        "page.html",
        series_colours(study, baselines),
        script="page.js",
        maker="proxrl report",
        tab=" · ".join(filter(None, (study.about.title, figures(study), study.name))),
        heading=title(study),
        paper=figures(study),
        lead=lead(study),
        verdicts=verdicts(findings),
        notes=[method(findings), *coverage(findings), *missing_note(study, baselines)],
        data=Markup(_json(_data(study, baselines))),
        curves=curves,
        games=study.games,
        place=study.place,
        few=len(study.games) <= FEW_GAMES,
        few_rows=FEW_ROWS,
        several_seeds=several,
        bands=several or bool(baselines),
        figures=[(one.plot, Markup(one.svg)) for one in drawn if one.plot is not curves],
        aggregates=tables.aggregate_table(findings, baselines),
        differences=tables.differences_table(findings),
        training=tables.training_table(study, baselines),
        training_caption=tables.training_caption(study),
        games_table=tables.games_table(findings),
        gains=study.scale.kind != "raw" and bool(findings.main_comparisons),
        claims=tables.claims_table(claims) if claims else None,
        counts=", ".join(f"{counts.count(one)} {one}" for one in dict.fromkeys(counts)),
        unchecked=(
            "Not checked: the paper’s claims are about its own settings, which logs of other "
            "libraries do not record."
            if study.from_other_libraries
            else "Not checked: the paper’s claims are about Atari, and these runs are not."
        ),
        settings_known=not study.from_other_libraries,
        protocol=tables.protocol_table(study),
        series=tables.series_table(study),
        runs=tables.runs_table(study),
        command=command,
        version=__version__,
        above=above,
    )


def series_colours(study: StudyResults, baselines: Sequence[Baseline]) -> Iterator[tuple[str, str]]:
    """The colours of series, each with the one that replaces it in dark mode."""
    yield from ((block.series.colour, block.series.dark) for block in study.blocks)
    yield from ((one.colour, one.dark) for one in baselines)


# ------------------------------------------------------------------------ the curves of every game


def _data(study: StudyResults, baselines: Sequence[Baseline]) -> dict[str, Any]:
    """The input of page.js: for each game and series, the returns of every run, and mean and
    standard error of every metric, packed."""
    frames = study.frame_skip if study.in_frames else 1
    metrics = _metrics(study)
    values = len(study.runs) * study.points.size * (1 + 2 * len(metrics) / max(len(study.seeds), 1))
    thin = slice(None, None, -math.ceil(values / MOST_VALUES))  # always keeps the last point
    scaled = study.scale.known if study.scale.kind != "raw" else np.zeros(len(study.games), bool)
    return {
        "axis": study.axis_name,
        "metrics": {
            "eval_return": f"{study.episodes_are} return",
            **({"scaled": study.scale.unit} if scaled.any() else {}),
            **{name: metric_label(name) for name in metrics if name != "eval_return"},
        },
        "x": study.axis[thin][::-1].tolist(),
        "games": list(study.games),
        "scale": [
            [low, high] if known else None
            for low, high, known in zip(
                study.scale.low.tolist(), study.scale.high.tolist(), scaled.tolist(), strict=True
            )
        ],
        "series": [
            {
                **_style(block.series),
                "games": [
                    _game({name: block.curves[name][:, at, thin][:, ::-1] for name in metrics})
                    for at in range(len(study.games))
                ],
            }
            for block in study.blocks
        ]
        + [
            {
                **_style(one),
                "x": (one.steps[inside := _every_other(one, study)] * frames).tolist(),
                "games": [
                    {"eval_return": [_packed(row[inside]), _packed(spread[inside])]}
                    for row, spread in zip(one.mean, one.standard_deviation, strict=True)
                ],
            }
            for one in baselines
        ],
    }


def _metrics(study: StudyResults) -> list[str]:
    """The curves that a run has, including those of proximal rules."""
    measured = (
        name
        for block in study.blocks
        for name, curve in block.curves.items()
        if np.isfinite(curve).any()
    )
    return list(dict.fromkeys(measured))


def _every_other(one: Baseline, study: StudyResults) -> Array:
    """Which published points are in the page: every second within the budget, and the last."""
    last = int((one.steps <= study.budget_steps).sum())
    return np.arange(last)[::-2][::-1] if last > FEW_POINTS else np.arange(last)


def _style(one: Any) -> dict[str, Any]:
    return {"name": one.name, "colour": one.colour, "dark": one.dark, "dash": one.dash}


def _game(curves: dict[str, Array]) -> dict[str, Any]:
    """One series in one game: curves [seeds, points] by name; empty if it has no run there."""
    returns = curves["eval_return"]
    there = np.isfinite(returns).any(axis=1)
    if not there.any():
        return {}
    packed: dict[str, Any] = {"runs": [_packed(run) for run in returns[there]]}
    for name, values in curves.items():
        if np.isfinite(values).any():
            error = standard_error(values)
            spread = _packed(error) if np.isfinite(error).any() else None
            packed[name] = [_packed(nanmean(values)), spread]
    return packed


def _packed(values: Array) -> list[Any]:
    """[min, max, text]: two characters per value, in 4,095 steps from min to max; two spaces for
    a missing value."""
    there = np.isfinite(values)
    if not there.any():
        return [0, 0, "  " * len(values)]
    low, high = (float(f"{one:.7g}") for one in (values[there].min(), values[there].max()))
    steps = np.where(there, np.rint((values - low) / ((high - low) or 1.0) * 4095), 0)
    codes = np.clip(steps, 0, 4095).astype(int).tolist()
    pairs = (ALPHABET[code >> 6] + ALPHABET[code & 63] for code in codes)
    return [low, high, "".join(p if ok else "  " for p, ok in zip(pairs, there, strict=True))]


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot close the element it is embedded in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
