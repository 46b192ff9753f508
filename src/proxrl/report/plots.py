"""What every figure shows, as plain data: for figures.py on paper and page.js on a screen."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proxrl.report import statistics
from proxrl.report.baselines import NOTE, Baseline
from proxrl.report.claims import sync_ratios
from proxrl.report.findings import CURVE_RESAMPLES, METRICS, Comparison, Findings, sample
from proxrl.report.series import Series, shown
from proxrl.report.study import Block, Study
from proxrl.types import Array

THRESHOLDS = 121  # points of a performance profile
SYNC_PANELS = 4  # games, as the paper's Figure 4


@dataclass(frozen=True, eq=False)
class Line:
    """A curve with its band, or (one point) a value with its interval."""

    name: str
    colour: str
    dark: str
    dash: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure. `kind`: lines, intervals (values across, one row a line) or gains (bars)."""

    id: str
    title: str
    caption: str
    kind: str
    panels: tuple[Panel, ...]
    x_label: str = ""
    y_label: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def all_plots(findings: Findings, baselines: tuple[Baseline, ...] = ()) -> list[Plot]:
    """The figures that these runs allow, in the page's order."""
    plots = [
        aggregates(findings, baselines),
        median_curve(findings.study, baselines),
        *(gains(findings.study, one) for one in findings.main_comparisons),
        improvement(findings),
        profiles(findings),
        score_against_c(findings),
        sync_distances(findings),
        sync_ratio(findings),
    ]
    return [plot for plot in plots if plot is not None]


def aggregates(findings: Findings, baselines: tuple[Baseline, ...]) -> Plot | None:
    study = findings.study
    if not findings.aggregates:
        return None
    names = [name for name in METRICS if name in findings.aggregates[0].metrics]
    rows = {
        name: [_interval(one.block.series, one.metrics[name]) for one in findings.aggregates]
        for name in names
    }
    for baseline in baselines:
        for name, value in baseline_aggregates(study, baseline).items():
            rows[name].append(_mark(baseline, value))
    games = {one.games for one in findings.aggregates}
    over = f"{min(games)}" + (f" to {max(games)}" if len(games) > 1 else "")
    caption = (
        f"Final {study.scale.unit} over {over} game{'s' * (games != {1})}, with 95% stratified "
        "bootstrap intervals. IQM: mean of the middle half of all runs."
    )
    if "optimality gap" in names:
        caption += " Optimality gap: mean shortfall from 1, lower is better."
    if baselines:
        caption += f" Dopamine's (no interval): {NOTE}, last iteration within the budget."
    panels = tuple(Panel(name, tuple(rows[name])) for name in names)
    return Plot("aggregates", "Aggregate scores", caption, "intervals", panels, study.scale.unit)


def baseline_aggregates(study: Study, baseline: Baseline) -> dict[str, float]:
    """Of the games' means over seeds, at the study's budget."""
    values = study.scale(baseline.at(study.budget_steps))[None, study.scale.known]
    if np.isnan(values).all():
        return {}
    once = statistics.whole(values)
    functions = (
        statistics.median,
        statistics.interquartile_mean,
        statistics.mean,
        statistics.optimality_gap,
    )
    return {name: float(f(once)[0]) for name, f in zip(METRICS, functions, strict=True)}


def median_curve(study: Study, baselines: tuple[Baseline, ...]) -> Plot | None:
    """Figure 4, left: the median over games of the scaled mean curve."""
    lines = []
    for block in study.blocks:
        curves = block.curves["eval_return"]
        games = np.flatnonzero(study.scale.known & ~np.isnan(curves).all(axis=(0, 2)))
        if not len(games):
            continue
        low, span = study.scale.low[games], (study.scale.high - study.scale.low)[games]
        part = curves[:, games]
        there = statistics.whole(np.where(np.isnan(part).all(axis=2), np.nan, 1.0))
        drawn = sample_counts(block, there.scores)
        middle = statistics.median_curve(part, low, span, there.counts)[0]
        below, above = statistics.interval(
            statistics.median_curve(part, low, span, drawn.counts), drawn.repeated
        )
        lines.append(_line(block.series, study.axis, middle, below, above))
    if not lines:
        return None
    frames = study.frame_skip if study.in_frames else 1
    for baseline in baselines:
        scaled = study.scale(baseline.mean.T)[:, study.scale.known]
        middle = np.median(scaled, axis=1)
        style = (baseline.name, baseline.colour, baseline.dark, baseline.dash)
        lines.append(Line(*style, baseline.steps * frames, middle))
    single = len(study.games) == 1
    caption = (
        f"{'Mean' if single else 'Median over games of the mean'} {study.scale.unit} "
        "(compare the paper's Figure 4, left); bands: 95% bootstrap intervals over runs."
    )
    if baselines:
        caption += f" Dopamine: {NOTE}."
    title = "Learning curve" if single else "Median learning curve"
    panel = Panel("", tuple(lines))
    return Plot(
        "median_curve",
        title,
        caption,
        "lines",
        (panel,),
        study.axis_name,
        study.scale.unit if single else f"median {study.scale.unit}",
        {"x_max": float(study.axis[-1])},
    )


def sample_counts(block: Block, scores: Array) -> statistics.Resampled:
    generator = np.random.default_rng([1, *block.name.encode()])
    return statistics.resample(scores, CURVE_RESAMPLES, generator)


def gains(study: Study, one: Comparison) -> Plot | None:
    """Figure 3: the final gain of each game, the gain in area under the curve beside it."""
    games = [game for game in range(len(study.games)) if np.isfinite(one.final_gain[game])]
    if not games:
        return None
    games.sort(key=lambda game: (one.final_gain[game], study.games[game]))
    pro, base = one.pro.series, one.base.series
    names = np.array([study.games[game] for game in games])
    panel = Panel(
        "",
        (
            Line("final", pro.colour, pro.dark, "solid", names, one.final_gain[games]),
            Line(
                "area under the curve", base.colour, base.dark, "dot", names, one.area_gain[games]
            ),
        ),
    )
    reference = "human" if study.scale.kind == "human" else "DQN"
    formula = f"({pro.name} − {base.name}) / (max({base.name}, {reference}) − random)"
    ahead = int((one.final_gain[games] > 0).sum())
    left_out = one.improvement_games - len(games)
    caption = (
        f"{formula}, mean final scores over seeds; {pro.name} ahead in {ahead} of {len(games)}. "
        "Bars: final; dots: the same formula with the mean of the whole curve in place of its end."
    )
    if left_out:
        caption += f" {left_out} without a human score left out."
    return Plot(
        f"gain_{pro.agent}",
        f"Gain of {pro.name} over {base.name}",
        caption,
        "gains",
        (panel,),
        "",
        "gain",
        {"negative": [base.colour, base.dark], "names": [pro.name, base.name]},
    )


def improvement(findings: Findings) -> Plot | None:
    """Probability of improvement, each pair on its common games."""
    if not findings.comparisons:
        return None
    lines = tuple(
        Line(
            f"{one.pro.name} > {one.base.name}",
            *(
                (one.pro if index < len(findings.main_comparisons) else one.base).series.colour,
                (one.pro if index < len(findings.main_comparisons) else one.base).series.dark,
            ),
            "solid",
            np.array([one.improvement.value]),
            np.zeros(1),
            np.array([one.improvement.low]),
            np.array([one.improvement.high]),
        )
        for index, one in enumerate(findings.comparisons)
    )
    return Plot(
        "improvement",
        "Probability of improvement",
        "Probability that a run of the first beats a run of the second in the same game, averaged "
        "over games, ties counting half; 95% stratified bootstrap intervals. One half: no "
        "difference.",
        "intervals",
        (Panel("", lines),),
        "P(X > Y)",
        options={"reference": 0.5, "range": [0.0, 1.0]},
    )


def profiles(findings: Findings) -> Plot | None:
    """Performance profiles: share of runs above each score."""
    study = findings.study
    if not findings.aggregates:
        return None
    parts = []
    for one in findings.aggregates:
        games = np.flatnonzero(study.scale.known & ~np.isnan(one.block.mean_final))
        drawn = sample(study, one.block, games, 2_000, scaled=True)
        parts.append((one.block.series, drawn))
    values = np.concatenate([part.scores[~np.isnan(part.scores)] for _, part in parts])
    top = float(np.quantile(values, 0.97)) * 1.05
    grid = np.linspace(min(0.0, float(np.quantile(values, 0.03))), max(top, 1e-9), THRESHOLDS)
    lines = []
    for series, drawn in parts:
        share = statistics.performance_profile(statistics.whole(drawn.scores), grid)[0]
        low, high = statistics.interval(statistics.performance_profile(drawn, grid), drawn.repeated)
        lines.append(_line(series, grid, share, low, high))
    return Plot(
        "profiles",
        "Performance profiles",
        f"Share of runs with a final {study.scale.unit} above τ, every game counting alike; bands: "
        "pointwise 95% bootstrap intervals. Higher is better.",
        "lines",
        (Panel("", tuple(lines)),),
        f"{study.scale.unit} τ",
        "share of runs above τ",
        {"y_range": [0.0, 1.02]},
    )


def score_against_c(findings: Findings) -> Plot | None:
    """Figure 2: the aggregate score of each c, with c = ∞ (no pull) as a level line."""
    study = findings.study
    lines: list[Line] = []
    for agent in dict.fromkeys(one.block.series.agent for one in findings.aggregates):
        tried = sorted(
            (
                one
                for one in findings.aggregates
                if one.block.series.agent == agent
                and math.isfinite(one.block.series.c)
                and set(one.block.series.varied) <= {"c"}
            ),
            key=lambda one: one.block.series.c,
        )
        if len(tried) < 2:
            continue
        c = np.array([one.block.series.c for one in tried])
        series = next((o.block.series for o in tried if o.block.series.main), tried[0].block.series)
        lines.append(
            Line(
                agent_name(series),
                series.colour,
                series.dark,
                "solid",
                c,
                *_columns([one.metrics["IQM"] for one in tried]),
            )
        )
        plain = next(
            (
                o
                for o in findings.aggregates
                if o.block.series.agent == agent.removesuffix("-pro")
                and o.block.series.main
                and math.isinf(o.block.series.c)
            ),
            None,
        )
        if plain is not None:
            ends = [plain.metrics["IQM"]] * 2
            one = plain.block.series
            lines.append(
                Line(
                    f"{one.name} (c = ∞)",
                    one.colour,
                    one.dark,
                    "dash",
                    np.array([c[0], c[-1]]),
                    *_columns(ends),
                )
            )
    if not lines:
        return None
    return Plot(
        "score_against_c",
        "Score against c",
        f"Interquartile mean of the final {study.scale.unit} for each proximal coefficient "
        "(compare the paper's Figure 2); bars: 95% bootstrap intervals.",
        "lines",
        (Panel("", tuple(lines)),),
        "proximal coefficient c",
        f"IQM, {study.scale.unit}",
        {"log_x": True, "markers": True},
    )


def sync_distances(findings: Findings) -> Plot | None:
    """Figure 4, right: the size of the target updates, with and without the pull."""
    study = findings.study
    blocks = list(dict.fromkeys(b for o in findings.main_comparisons for b in (o.pro, o.base)))
    if not blocks:
        blocks = [block for block in study.blocks if block.series.main]
    blocks = [block for block in study.blocks if block in blocks]
    means = {block: statistics.nanmean(block.curves["sync_distance"]) for block in blocks}
    games = [
        game
        for game in range(len(study.games))
        if all(np.isfinite(means[block][game]).any() for block in blocks)
    ]
    if not blocks or not games:
        return None
    chosen = games
    if len(games) > SYNC_PANELS:  # from the smallest ratio to the largest, evenly
        ratios = sum(
            (np.nan_to_num(sync_ratios(one.pro, one.base)) for one in findings.main_comparisons),
            np.zeros(len(study.games)),
        )
        order = sorted(games, key=lambda game: (float(ratios[game]), study.games[game]))
        at = np.linspace(0, len(order) - 1, SYNC_PANELS).round().astype(int)
        chosen = [order[place] for place in at]
    panels = tuple(
        Panel(
            study.games[game],
            tuple(_curve(block, study, "sync_distance", game) for block in blocks),
        )
        for game in chosen
    )
    which = (
        ""
        if len(chosen) == len(games)
        else (
            f" Four of {len(games)} games: from the smallest ratio of pro to base to the largest, "
            "evenly."
        )
    )
    return Plot(
        "sync_distances",
        "Size of the target updates",
        "Mean ‖θ new − θ old‖ over the syncs of an interval (compare the paper's Figure 4, right); "
        f"bands: one standard error over seeds.{which}",
        "lines",
        panels,
        study.axis_name,
        "‖θ new − θ old‖",
        {"zero": True},
    )


def sync_ratio(findings: Findings) -> Plot | None:
    """The same for every game: pro's mean size over base's."""
    study = findings.study
    lines = []
    for one in findings.main_comparisons:
        ratios = sync_ratios(one.pro, one.base)
        games = [game for game in range(len(study.games)) if np.isfinite(ratios[game])]
        if len(games) <= SYNC_PANELS:
            continue
        games.sort(key=lambda game: (ratios[game], study.games[game]))
        names = np.array([study.games[game] for game in games])
        series = one.pro.series
        name = f"{one.pro.name} / {one.base.name}"
        lines.append(Line(name, series.colour, series.dark, "solid", names, ratios[games]))
    if not lines:
        return None
    return Plot(
        "sync_ratio",
        "Size of the target updates, every game",
        "Mean size of the target updates with the pull over that without; below 1 the pull makes "
        "them smaller.",
        "dots",
        (Panel("", tuple(lines)),),
        "",
        "ratio of sizes",
        {"reference": 1.0},
    )


def learning_curves(study: Study, baselines: tuple[Baseline, ...] = ()) -> Plot:
    """Figures 7 to 10: every game's mean evaluation return with standard errors."""
    frames = study.frame_skip if study.in_frames else 1
    panels = []
    for game, name in enumerate(study.games):
        lines = [
            _curve(block, study, "eval_return", game)
            for block in study.blocks
            if np.isfinite(block.curves["eval_return"][:, game]).any()
        ]
        lines += [
            Line(b.name, b.colour, b.dark, b.dash, b.steps * frames, b.mean[game])
            for b in baselines
        ]
        panels.append(Panel(name, tuple(lines)))
    caption = "Mean evaluation return over seeds; bands: one standard error."
    if study.evaluations_per_point > 1:
        caption += f" A point is the mean of {study.evaluations_per_point} evaluations."
    if baselines:
        caption += f" Dopamine: {NOTE}."
    return Plot(
        "learning_curves",
        "Learning curves",
        caption,
        "lines",
        tuple(panels),
        study.axis_name,
        "evaluation return",
        {"x_max": float(study.axis[-1])},
    )


# ----------------------------------------------------------------------------------------- details


def agent_name(series: Series) -> str:
    return series.name.split(",")[0]


def settings_text(series: Series) -> str:
    return ", ".join(f"{name} {shown(series.settings.get(name))}" for name in series.varied)


def _curve(block: Block, study: Study, name: str, game: int) -> Line:
    values = block.curves[name][:, game]
    mean, error = statistics.nanmean(values), statistics.standard_error(values)
    return _line(block.series, study.axis, mean, mean - error, mean + error)


def _line(series: Series, x: Array, y: Array, low: Array, high: Array) -> Line:
    return Line(series.name, series.colour, series.dark, series.dash, x, y, low, high)


def _interval(series: Series, one: statistics.Estimate) -> Line:
    low, high = np.array([one.low]), np.array([one.high])
    return _line(series, np.array([one.value]), np.zeros(1), low, high)


def _mark(baseline: Baseline, value: float) -> Line:
    style = (baseline.name, baseline.colour, baseline.dark, "dot")
    return Line(*style, np.array([value]), np.zeros(1))


def _columns(estimates: list[statistics.Estimate]) -> tuple[Array, Array, Array]:
    values, low, high = np.array([(one.value, one.low, one.high) for one in estimates]).T
    return values, low, high
