"""The page: one HTML file with everything in it, that opens from disk without a network.

Tables are written here and readable without scripts; figures are drawn by assets/page.js with
plotly.js, both inlined, when they are scrolled to. The same study gives the same bytes.
"""

import html
import json
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from proxrl import __version__
from proxrl.report.baselines import Baseline
from proxrl.report.claims import Claim
from proxrl.report.findings import METRICS, Comparison, Findings
from proxrl.report.plots import Plot, baseline_aggregates
from proxrl.report.runs import Run
from proxrl.report.series import shown
from proxrl.report.statistics import Estimate, nanmean, standard_error
from proxrl.report.study import Study, game_of
from proxrl.report.words import coverage, lead, summary
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
        "title": _text(f"{study.name} · proxrl report"),
        "name": _text(study.name),
        "lead": _text(lead(study)),
        "summary": "".join(f"<p>{_marked(line)}</p>" for line in summary(findings)),
        "notes": "".join(f"<li>{_marked(line)}</li>" for line in coverage(findings)),
        "navigation": _navigation(plots),
        "aggregates": _aggregate_table(findings, baselines),
        "figures": "".join(_figure(plot, command) for plot in plots),
        "games": _games_table(findings),
        "cards": _cards(study, curves, command),
        "claims": _claims_table(claims),
        "counts": _text(_claim_counts(claims)),
        "protocol": _protocol_table(study),
        "series": _series_table(study),
        "runs": _runs_table(study),
        "command": _text(command),
        "version": _text(__version__),
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
        "y": plot.y_label,
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
        f'<section class="figure" id="{plot.id}"><h2>{_text(plot.title)}</h2>'
        f'<div class="plot" data-plot="{plot.id}" data-kind="{plot.kind}"></div>'
        f'<p class="caption">{_text(plot.caption)}</p>{_tools(plot.id, command)}</section>\n'
    )


def _tools(identity: str, command: str) -> str:
    return (
        f'<p class="tools"><button type="button" data-csv="{identity}">data (CSV)</button>'
        f'<a href="figures/{identity}.png">PNG</a><a href="figures/{identity}.svg">SVG</a>'
        f"<code>{_text(command)}</code></p>"
    )


def _cards(study: Study, curves: Plot, command: str) -> str:
    cards = "".join(
        f'<article class="card" data-game="{_text(game)}" id="game-{_text(game)}">'
        f'<h3>{_text(game)}</h3><div class="plot" data-curves="{_text(game)}"></div></article>\n'
        for game in study.games
    )
    return (
        f'<p class="caption">{_text(curves.caption)}</p><div class="cards">{cards}</div>'
        f"{_tools(curves.id, command)}"
    )


def _navigation(plots: Sequence[Plot]) -> str:
    return "".join(f'<a href="#{plot.id}">{_text(plot.title)}</a>' for plot in plots)


# ------------------------------------------------------------------------------------------- tables


def _table(
    identity: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: int = 99
) -> str:
    """A sortable table; columns from `numeric` on are numbers. Cells are HTML, escaped before."""
    top = "".join(
        f'<th scope="col"{" class=n" if at >= numeric else ""}><button type="button">'
        f"{_text(head)}</button></th>"
        for at, head in enumerate(heads)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return (
        f'<div class="scroll"><table id="{identity}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str, sort: float | str | None = None, kind: str = "") -> str:
    key = "" if sort is None else f' data-sort="{_sortable(sort)}"'
    return f"<td{key}{f' class={kind}' if kind else ''}>{_text(text)}</td>"


def _number(value: float, form: str = ",.2f", rest: str = "") -> str:
    if not math.isfinite(value):
        return '<td class=n data-sort="">–</td>'
    return _cell(f"{value:{form}}".replace("-", "−") + rest, value, "n")


def _sortable(value: float | str) -> str:
    return html.escape(value) if isinstance(value, str) else f"{value:.6g}"


def _aggregate_table(findings: Findings, baselines: Sequence[Baseline]) -> str:
    if not findings.aggregates:
        return ""
    names = [name for name in METRICS if name in findings.aggregates[0].metrics]
    rows = [
        [
            _cell(one.block.name),
            *(_estimate(one.metrics[name]) for name in names),
            _number(one.games, "d"),
            _number(one.runs, "d"),
        ]
        for one in findings.aggregates
    ]
    study = findings.study
    for baseline in baselines:
        values = baseline_aggregates(study, baseline)
        rows.append(
            [
                _cell(f"{baseline.name}: training returns"),
                *(_number(values.get(name, math.nan), ".3f") for name in names),
                _number(int(study.scale.known.sum()), "d"),
                _cell("5 seeds", 0, "n"),
            ]
        )
    return _table("aggregate-table", ["series", *names, "games", "runs"], rows, 1)


def _estimate(one: Estimate) -> str:
    rest = f" [{one.low:.3f}, {one.high:.3f}]".replace("-", "−") if one.has_interval else ""
    return _number(one.value, ".3f", rest)


def _games_table(findings: Findings) -> str:
    study = findings.study
    heads = ["game", *(block.name for block in study.blocks)]
    for one in findings.main_comparisons:
        heads += [
            f"{one.pro.name} gain",
            f"{one.pro.name} area gain",
            f"P({one.pro.name} > {one.base.name})",
        ]
    means = [nanmean(block.final) for block in study.blocks]
    errors = [standard_error(block.final) for block in study.blocks]
    counts = [(~np.isnan(block.final)).sum(axis=0) for block in study.blocks]
    rows = []
    for game, name in enumerate(study.games):
        cells = [f'<td><a href="#game-{_text(name)}">{_text(name)}</a></td>']
        for mean, error, count in zip(means, errors, counts, strict=True):
            spread = f" ± {_plain(error[game])}" if math.isfinite(error[game]) else ""
            few = f" (n={count[game]})" if 0 < count[game] < len(study.seeds) else ""
            form = ",.0f" if abs(mean[game]) >= 1000 else ",.1f"
            cells.append(_number(float(mean[game]), form, spread + few))
        for one in findings.main_comparisons:
            cells += _gain_cells(one, game)
        rows.append(cells)
    return _table("games-table", heads, rows, 1)


def _gain_cells(one: Comparison, game: int) -> list[str]:
    chance = _chance(one.pro.final[:, game], one.base.final[:, game])
    return [
        _number(float(one.final_gain[game]), "+.1%"),
        _number(float(one.area_gain[game]), "+.1%"),
        _number(chance, ".2f"),
    ]


def _chance(pro: Array, base: Array) -> float:
    pro, base = pro[~np.isnan(pro)][:, None], base[~np.isnan(base)][None]
    wins = (pro > base) + 0.5 * (pro == base)
    return float(wins.mean()) if wins.size else math.nan


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _claims_table(claims: Sequence[Claim]) -> str:
    rows = [
        [
            _cell(one.id),
            _cell(one.verdict, kind=one.verdict.replace(" ", "-")),
            f"<td>{_text(one.text)}"
            + (f" <small>({_text(one.number)})</small>" if one.number else "")
            + "</td>",
            f"<td>{_marked(one.why)}</td>",
            _cell(one.place),
        ]
        for one in claims
    ]
    heads = ["claim", "verdict", "what the paper says", "what these runs say", "place"]
    return _table("claims-table", heads, rows)


def _claim_counts(claims: Sequence[Claim]) -> str:
    counts = {
        verdict: sum(one.verdict == verdict for one in claims)
        for verdict in ("seen", "contradicted", "not testable")
    }
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _protocol_table(study: Study) -> str:
    rows = [[_cell(name), _cell(_value(value))] for name, value in study.protocol.items()]
    return _table("protocol-table", ["setting", "value"], rows)


def _series_table(study: Study) -> str:
    """Settings of each series, only those in which any two of them differ."""
    all_settings = [block.series.settings for block in study.blocks]
    names = dict.fromkeys(name for one in all_settings for name in one)
    differ = [n for n in names if len({str(one.get(n)) for one in all_settings}) > 1]
    rows = [
        [_cell(name), *(_cell(_value(one.get(name))) for one in all_settings)] for name in differ
    ]
    if not rows:
        return "<p>All series have the same settings.</p>"
    return _table("series-table", ["setting", *(b.name for b in study.blocks)], rows)


def _runs_table(study: Study) -> str:
    names = {id(run): block.name for block in study.blocks for run in block.runs}
    rows = [_run_row(run, names.get(id(run), "–"), study) for run in study.runs]
    rows += [
        [
            _cell("–"),
            _cell("missing", kind="missing"),
            _cell(name),
            _cell(game),
            _number(seed, "d"),
            _number(math.nan),
            _cell("no such run, though its neighbours exist"),
        ]
        for name, game, seed in study.missing
    ]
    heads = ["run", "status", "series", "game", "seed", "steps", "note"]
    return _table("runs-table", heads, rows)


def _run_row(run: Run, series: str, study: Study) -> list[str]:
    config = run.config
    last = int(run.steps[-1]) if len(run.steps) else 0
    return [
        _cell(run.path),
        _cell(run.status, kind=run.status),
        _cell(series if series != "–" or config is None else config.agent),
        _cell(game_of(config.env) if config else "–"),
        _number(config.seed, "d") if config else _cell("–"),
        _number(last, ",d"),
        _cell(run.note),
    ]


# ------------------------------------------------------------------------------------------ details


def _value(value: Any) -> str:
    return shown(value) or "–"


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _marked(text: str) -> str:
    """Escaped, with `code` as code."""
    pieces = _text(text).split("`")
    return "".join(f"<code>{p}</code>" if at % 2 else p for at, p in enumerate(pieces))


def _asset(name: str) -> str:
    return (resources.files("proxrl.report") / "assets" / name).read_text(encoding="utf-8")
