"""The page's tables as plain cells: rendered and escaped by the template, sorted by page.js."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from proxrl.report.baselines import ITERATION_STEPS, Baseline
from proxrl.report.comparisons import Comparison
from proxrl.report.figures.finals import baseline_aggregates, baseline_games
from proxrl.report.findings import Findings
from proxrl.report.intervals import Estimate
from proxrl.report.labels import shown
from proxrl.report.statistics import nanmean, standard_error
from proxrl.report.study import StudyResults, game_of
from proxrl.report.training import latest, protocol_differences, rows
from proxrl.runs.record import Run
from proxrl.types import Array

if TYPE_CHECKING:
    from proxrl.paper.training import Claim


@dataclass(frozen=True)
class Cell:
    """Text, the sort key if it differs, and a class of the style sheet."""

    text: str
    sort: str | None = None
    kind: str = ""
    link: str = ""  # within the page
    note: str = ""  # in small type


@dataclass(frozen=True)
class Table:
    """`numeric`: the columns with numbers; a page without a script has no sortable tables."""

    id: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[int] = ()
    sortable: bool = True


def _number(value: float, form: str = ",.2f", rest: str = "") -> Cell:
    if not math.isfinite(value):
        return Cell("–", "", "n")
    text, sort = f"{value:{form}}".replace("-", "−") + rest, f"{value:.6g}"
    return Cell(text, None if text == sort else sort, "n")


def aggregate_table(findings: Findings, baselines: Sequence[Baseline]) -> Table | None:
    if not findings.aggregates:
        return None
    study = findings.study
    names = findings.metric_names
    rows = [
        [
            Cell(one.block.name),
            *(_estimate(one.metrics[name]) for name in names),
            _number(one.games, "d"),
            _number(one.runs, "d"),
        ]
        for one in findings.aggregates
    ]
    for baseline in baselines:
        values = baseline_aggregates(study, baseline)
        rows.append(
            [
                Cell(f"{baseline.name}: training returns"),
                *(_number(values.get(name, math.nan), ".3f") for name in names),
                _number(baseline_games(study, baseline), "d"),
                Cell("5 seeds", "0", "n"),
            ]
        )
    return Table("aggregate-table", ["series", *names, "games", "runs"], rows, range(1, 99))


def differences_table(findings: Findings) -> Table | None:
    rows = [
        [
            Cell(one.pro.name),
            Cell(one.base.name),
            _estimate(one.difference),
            _number(one.difference.p, ".3f"),
            _estimate(one.area_difference),
            _number(one.area_difference.p, ".3f"),
            _estimate(one.improvement),
            _number(one.runs, "d"),
        ]
        for one in findings.differences
    ]
    measures = ["final score, X − Y", "p", "whole curve, X − Y", "p", "P(X > Y)", "runs"]
    return Table("differences-table", ["X", "Y", *measures], rows, range(2, 8)) if rows else None


def training_table(study: StudyResults, baselines: Sequence[Baseline]) -> Table | None:
    """Training returns, ours and Dopamine's, at the last common iteration."""
    last = latest(list(rows(study, baselines)))
    if not last:
        return None
    body = [
        [
            Cell(row.series),
            Cell(row.game),
            _number((row.iteration + 1) * ITERATION_STEPS, ",d"),
            _number(row.mean, ",.1f", _spread(row.standard_deviation, row.seeds)),
            Cell(row.published),
            _number(
                row.published_mean,
                ",.1f",
                _spread(row.published_standard_deviation, row.published_seeds),
            ),
        ]
        for row in last
    ]
    heads = ["series", "game", "agent steps", "these runs", "published", "its training return"]
    return Table("training-table", heads, body, (2, 3, 5))


def training_caption(study: StudyResults) -> str:
    note = "; ".join(protocol_differences(study))
    return (
        "Training returns: mean of the episodes in the last 250,000 agent steps, ± standard "
        "deviation over n seeds. The same measure for both; every iteration is in "
        "training_returns.csv." + (f" The protocols differ: {note}." if note else "")
    )


def _spread(deviation: float, seeds: int) -> str:
    return (f" ± {deviation:,.1f}" if math.isfinite(deviation) else "") + f" (n={seeds})"


def _estimate(one: Estimate) -> Cell:
    rest = f" [{one.low:.3f}, {one.high:.3f}]".replace("-", "−") if one.has_interval else ""
    return _number(one.value, ".3f", rest)


def games_table(findings: Findings) -> Table:
    study = findings.study
    heads = [study.place, *(block.name for block in study.blocks)]
    scaled = study.scale.kind != "raw"  # a gain is relative to a human or DQN score
    for one in findings.main_comparisons:
        pro, base = one.pro.name, one.base.name
        heads += [f"{pro} gain", f"{pro} area gain"] if scaled else []
        heads += [f"P({pro} > {base})"] if one.improvement.has_interval else []
    means = [nanmean(block.final) for block in study.blocks]
    errors = [standard_error(block.final) for block in study.blocks]
    counts = [(~np.isnan(block.final)).sum(axis=0) for block in study.blocks]
    rows = []
    for game, name in enumerate(study.games):
        cells = [Cell(name, link=f"game-{game}")]
        for mean, error, count in zip(means, errors, counts, strict=True):
            spread = f" ± {_plain(error[game])}" if math.isfinite(error[game]) else ""
            few = f" (n={count[game]})" if 0 < count[game] < len(study.seeds) else ""
            form = ",.0f" if abs(mean[game]) >= 1000 else ",.1f"
            cells.append(_number(float(mean[game]), form, spread + few))
        for one in findings.main_comparisons:
            cells += _gain_cells(one, game) if scaled else []
            if one.improvement.has_interval:
                cells.append(_number(_chance(one.pro.final[:, game], one.base.final[:, game])))
        rows.append(cells)
    return Table("games-table", heads, rows, range(1, len(heads)))


def _gain_cells(one: Comparison, game: int) -> list[Cell]:
    return [_number(float(gain[game]), "+.1%") for gain in (one.final_gain, one.area_gain)]


def _chance(pro: Array, base: Array) -> float:
    pro, base = pro[~np.isnan(pro)][:, None], base[~np.isnan(base)][None]
    wins = (pro > base) + 0.5 * (pro == base)
    return float(wins.mean()) if wins.size else math.nan


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def claims_table(claims: Sequence["Claim"]) -> Table:
    rows = [
        [
            Cell(one.id),
            Cell(one.verdict, kind=one.verdict.replace(" ", "-")),
            Cell(one.text, note=f"({one.number})" if one.number else ""),
            Cell(one.why),
            Cell(one.place),
        ]
        for one in claims
    ]
    heads = ["claim", "verdict", "what the paper says", "what these runs say", "place"]
    return Table("claims-table", heads, rows)


def protocol_table(study: StudyResults) -> Table:
    rows = [[Cell(name), Cell(shown(value) or "–")] for name, value in study.protocol.items()]
    return Table("protocol-table", ["setting", "value"], rows, sortable=False)


def series_table(study: StudyResults) -> Table:
    """Settings of each series, only those in which they differ."""
    all_settings = [block.series.settings for block in study.blocks]
    names = dict.fromkeys(name for one in all_settings for name in one)
    differ = [n for n in names if len({str(one.get(n)) for one in all_settings}) > 1]
    rows = [
        [Cell(name), *(Cell(shown(one.get(name)) or "–") for one in all_settings)]
        for name in differ
    ]
    heads = ["setting", *(b.name for b in study.blocks)]
    return Table("series-table", heads, rows, sortable=False)


def runs_table(study: StudyResults) -> Table:
    names = {id(run): block.name for block in study.blocks for run in block.runs}
    rows = [_run_row(run, names.get(id(run), "–")) for run in study.runs]
    rows += [
        [
            Cell("–"),
            Cell("missing", kind="missing"),
            Cell(name),
            Cell(game),
            _number(seed, "d"),
            _number(math.nan),
            Cell("not found, although similar runs exist"),
        ]
        for name, game, seed in study.missing
    ]
    heads = ["run", "status", "series", study.place, "seed", "steps", "note"]
    return Table("runs-table", heads, rows, (4, 5))


def unplaced_table(runs: Sequence[Run]) -> Table:
    """Runs that are in no section."""
    rows = [[Cell(run.path), Cell(run.status, kind=run.status), Cell(run.note)] for run in runs]
    return Table("runs-table", ["run", "status", "note"], rows, sortable=False)


def _run_row(run: Run, series: str) -> list[Cell]:
    config = run.config
    return [
        Cell(run.path),
        Cell(run.status, kind=run.status),
        Cell(series if series != "–" or config is None else config.agent),
        Cell(game_of(config.env) if config else "–"),
        _number(config.seed, "d") if config else Cell("–"),
        _number(int(run.steps[-1]) if len(run.steps) else 0, ",d"),
        Cell(run.note),
    ]
