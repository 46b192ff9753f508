"""The page's tables as HTML: readable without scripts, sorted and searched by page.js."""

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from proxrl.paper.training import Claim
from proxrl.report.baselines import Baseline
from proxrl.report.findings import METRICS, Comparison, Findings
from proxrl.report.runs import Run
from proxrl.report.score_plots import baseline_aggregates, baseline_games
from proxrl.report.series import shown
from proxrl.report.statistics import Estimate, nanmean, standard_error
from proxrl.report.study import Study, game_of
from proxrl.types import Array


def escaped(text: str) -> str:
    return html.escape(text, quote=True)


def marked(text: str) -> str:
    """Escaped, with `code` as code."""
    pieces = escaped(text).split("`")
    return "".join(f"<code>{p}</code>" if at % 2 else p for at, p in enumerate(pieces))


def _table(
    identity: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: int = 99
) -> str:
    """A sortable table; columns from `numeric` on are numbers. Cells are HTML, escaped before."""
    top = "".join(
        f'<th scope="col"{" class=n" if at >= numeric else ""}><button type="button">'
        f"{escaped(head)}</button></th>"
        for at, head in enumerate(heads)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return (
        f'<div class="scroll"><table id="{identity}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str, sort: float | str | None = None, kind: str = "") -> str:
    key = "" if sort is None else f' data-sort="{_sortable(sort)}"'
    return f"<td{key}{f' class={kind}' if kind else ''}>{escaped(text)}</td>"


def _number(value: float, form: str = ",.2f", rest: str = "") -> str:
    if not math.isfinite(value):
        return '<td class=n data-sort="">–</td>'
    return _cell(f"{value:{form}}".replace("-", "−") + rest, value, "n")


def _sortable(value: float | str) -> str:
    return html.escape(value) if isinstance(value, str) else f"{value:.6g}"


def aggregate_table(findings: Findings, baselines: Sequence[Baseline]) -> str:
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
                _number(baseline_games(study, baseline), "d"),
                _cell("5 seeds", 0, "n"),
            ]
        )
    return _table("aggregate-table", ["series", *names, "games", "runs"], rows, 1)


def _estimate(one: Estimate) -> str:
    rest = f" [{one.low:.3f}, {one.high:.3f}]".replace("-", "−") if one.has_interval else ""
    return _number(one.value, ".3f", rest)


def games_table(findings: Findings) -> str:
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
        cells = [f'<td><a href="#game-{escaped(name)}">{escaped(name)}</a></td>']
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


def claims_table(claims: Sequence[Claim]) -> str:
    rows = [
        [
            _cell(one.id),
            _cell(one.verdict, kind=one.verdict.replace(" ", "-")),
            f"<td>{escaped(one.text)}"
            + (f" <small>({escaped(one.number)})</small>" if one.number else "")
            + "</td>",
            f"<td>{marked(one.why)}</td>",
            _cell(one.place),
        ]
        for one in claims
    ]
    heads = ["claim", "verdict", "what the paper says", "what these runs say", "place"]
    return _table("claims-table", heads, rows)


def claim_counts(claims: Sequence[Claim]) -> str:
    counts = {
        verdict: sum(one.verdict == verdict for one in claims)
        for verdict in ("seen", "contradicted", "not testable")
    }
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def protocol_table(study: Study) -> str:
    rows = [[_cell(name), _cell(_value(value))] for name, value in study.protocol.items()]
    return _table("protocol-table", ["setting", "value"], rows)


def series_table(study: Study) -> str:
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


def runs_table(study: Study) -> str:
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


def _value(value: Any) -> str:
    return shown(value) or "–"
