"""Figures of final scores: aggregates, gains, probabilities of improvement, profiles, c."""

import math

import numpy as np

from proxrl.report import intervals, statistics
from proxrl.report.baselines import NOTE, Baseline
from proxrl.report.comparisons import FEW_RUNS_OF_A_GAME, Comparison, sample
from proxrl.report.figures.plot import Line, Panel, Plot, baseline_line, series_line, slug
from proxrl.report.findings import METRICS, Findings
from proxrl.report.series import Series
from proxrl.report.study import StudyResults
from proxrl.types import Array

THRESHOLDS = 121  # points of a performance profile
PROFILE_RESAMPLES = 2_000
FEWEST_IN_A_PROFILE = 4  # runs of a series


def aggregates(findings: Findings, baselines: tuple[Baseline, ...]) -> Plot | None:
    """None if there is nothing to aggregate: one run per series."""
    study = findings.study
    if max((one.runs for one in findings.aggregates), default=0) < 2:
        return None
    names = findings.metric_names[:1] if len(study.games) == 1 else findings.metric_names
    rows = {
        name: [_interval(one.block.series, one.metrics[name]) for one in findings.aggregates]
        for name in names
    }
    for baseline in baselines:
        values = baseline_aggregates(study, baseline)
        for name in names:
            if name in values:
                rows[name].append(baseline_line(baseline, np.array([values[name]]), np.zeros(1)))
    games = {one.games for one in findings.aggregates}
    over = f"{min(games)}" + (f" to {max(games)}" if len(games) > 1 else "")
    known = any(one.metrics["IQM"].has_interval for one in findings.aggregates)
    caption = (
        f"Final {study.scale.unit}"
        + (f" over {over} games" if games != {1} else "")
        + (", with 95% intervals over runs" if known else "")
        + "."
        + (" IQM: mean of the middle half of all runs." if "IQM" in names else "")
    )
    if "optimality gap" in names:
        caption += " Optimality gap: mean shortfall from 1, lower is better."
    if baselines:
        caption += f" Dopamine's (no interval): {NOTE}, last iteration within the budget."
    panels = tuple(Panel(name, tuple(rows[name])) for name in names)
    return Plot("aggregates", "Aggregate scores", caption, "intervals", panels, study.scale.unit)


def baseline_aggregates(study: StudyResults, baseline: Baseline) -> dict[str, float]:
    """Aggregates of the games' means over seeds, at the study's budget."""
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


def baseline_games(study: StudyResults, baseline: Baseline) -> int:
    """The number of games behind `baseline_aggregates`."""
    return int(np.isfinite(study.scale(baseline.at(study.budget_steps))).sum())


def gains(study: StudyResults, one: Comparison) -> Plot | None:
    """Figure 3: the final gain of each game, next to the gain in area under the curve; None for a
    single game, whose gain is in the table."""
    games = [game for game in range(len(study.games)) if np.isfinite(one.final_gain[game])]
    if len(games) < 2:
        return None
    games.sort(key=lambda game: (one.final_gain[game], study.games[game]))
    pro, base = one.pro.series, one.base.series
    names = np.array([study.games[game] for game in games])
    panel = Panel(
        "",
        (
            Line("final", pro.colour, "solid", names, one.final_gain[games]),
            Line("area under the curve", base.colour, "dot", names, one.area_gain[games]),
        ),
    )
    reference = study.scale.reference or "human"
    best = base.name if base.name == reference else f"max({base.name}, {reference})"
    formula = f"({pro.name} − {base.name}) / ({best} − random)"
    final = "mean final scores over seeds" if study.most_seeds > 1 else "final scores"
    ahead = int((one.final_gain[games] > 0).sum())
    left_out = one.improvement_games - len(games)
    caption = (
        f"{formula}, {final}; {pro.name} ahead in {ahead} of the {len(games)} "
        f"games with a {reference} score. "
        "Bars: final; dots: the same formula with the mean of the whole curve instead of its end."
    )
    if left_out:
        caption += f" {left_out} without such a score {'is' if left_out == 1 else 'are'} left out."
    return Plot(
        f"gain_{slug(pro.agent)}",
        f"Gain of {pro.name} over {base.name}",
        caption,
        "gains",
        (panel,),
        "",
        "gain",
        {"negative": base.colour, "names": [pro.name, base.name]},
    )


def differences(findings: Findings) -> Plot | None:
    """Differences of the interquartile means, of final scores and areas; None without intervals."""
    study = findings.study
    compared = findings.differences
    if not compared:
        return None
    panels = (
        Panel("final score", tuple(_pair(one, one.difference) for one in compared)),
        Panel("whole curve", tuple(_pair(one, one.area_difference) for one in compared)),
    )
    games = sorted({len(one.games) for one in compared})
    over = " to ".join(map(str, games[:: max(1, len(games) - 1)]))
    return Plot(
        "differences",
        "Differences between series",
        "Interquartile mean of the first minus that of the second, in units of the "
        f"{study.scale.unit}"
        + (f", over the {over} games that both have" if games != [1] else "")
        + ": of final scores, and of the mean of the whole curve (its area). 95% intervals over "
        "runs, not corrected for multiple comparisons: about one in twenty pairs of equal series "
        "excludes 0 by chance.",
        "intervals",
        panels,
        f"X − Y, {study.scale.unit}",
        options={"reference": 0.0},
    )


def improvement(findings: Findings) -> Plot | None:
    """Probability of improvement, each pair on its common games; None without any interval."""
    if not any(one.improvement.has_interval for one in findings.comparisons):
        return None
    lines = tuple(_pair(one, one.improvement, ">") for one in findings.comparisons)
    return Plot(
        "improvement",
        "Probability of improvement",
        "Probability that a run of the first beats a run of the second"
        + (" in the same game, averaged over games" if len(findings.study.games) > 1 else "")
        + "; ties count half. 95% intervals over runs. One half: no difference.",
        "intervals",
        (Panel("", lines),),
        "P(X > Y)",
        options={"reference": 0.5, "range": [-0.02, 1.02]},
    )


def profiles(findings: Findings) -> Plot | None:
    """Performance profiles: share of runs above each score; None for a single game or very few
    runs. Bands only if every game has the runs for an interval."""
    study = findings.study
    fewest = min((one.fewest for one in findings.aggregates), default=0)
    if min((one.runs for one in findings.aggregates), default=0) < FEWEST_IN_A_PROFILE:
        return None
    if study.scale.known.sum() < 2:
        return None
    parts = []
    for one in findings.aggregates:
        games = np.flatnonzero(study.scale.known & ~np.isnan(one.block.mean_final))
        drawn = sample(study, one.block, games, PROFILE_RESAMPLES, scaled=True)
        parts.append((one.block.series, drawn))
    values = np.concatenate([part.scores[~np.isnan(part.scores)] for _, part in parts])
    top = float(np.quantile(values, 0.97)) * 1.05
    grid = np.linspace(min(0.0, float(np.quantile(values, 0.03))), max(top, 1e-9), THRESHOLDS)
    lines = []
    for series, drawn in parts:
        share = statistics.performance_profile(statistics.whole(drawn.scores), grid)[0]
        low = high = np.full(THRESHOLDS, np.nan)
        if fewest >= FEW_RUNS_OF_A_GAME:
            many = statistics.performance_profile(drawn, grid)
            low, high = np.clip(intervals.interval(share, many, drawn, tails=True), 0.0, 1.0)
        lines.append(series_line(series, grid, share, low, high))
    bands = "; bands: pointwise 95% intervals over runs" if fewest >= FEW_RUNS_OF_A_GAME else ""
    return Plot(
        "profiles",
        "Performance profiles",
        f"Share of runs with a final {study.scale.unit} above τ, games weighted equally{bands}. "
        "Higher is better.",
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
    iqms = {one.block.series: one.metrics["IQM"] for one in findings.aggregates}
    for agent in dict.fromkeys(series.agent for series in iqms):
        of_agent = [s for s in iqms if s.agent == agent and set(s.varied) <= {"c"}]
        tried = sorted((s for s in of_agent if math.isfinite(s.c)), key=lambda s: s.c)
        if len(tried) < 2:
            continue
        c = np.array([series.c for series in tried])
        main = next((series for series in tried if series.main), tried[0])
        values = _columns([iqms[series] for series in tried])
        lines.append(Line(main.name.split(" (")[0], main.colour, "solid", c, *values))
        base = agent.removesuffix("-pro")
        for plain in (s for s in iqms if s.agent == base and s.main and math.isinf(s.c)):
            level = _columns([iqms[plain]] * 2)
            lines.append(Line(f"{plain.name} (c = ∞)", plain.colour, "dash", c[[0, -1]], *level))
    if not lines:
        return None
    return Plot(
        "score_against_c",
        "Score against c",
        f"Interquartile mean of the final {study.scale.unit} for each proximal coefficient "
        "(compare the paper's Figure 2); bars: 95% intervals over runs.",
        "lines",
        (Panel("", tuple(lines)),),
        "proximal coefficient c",
        f"IQM, {study.scale.unit}",
        {"log_x": True, "markers": True},
    )


def _pair(one: Comparison, estimate: intervals.Estimate, sign: str = "−") -> Line:
    """A row of two series, with the colour of the first."""
    name = f"{one.pro.name} {sign} {one.base.name}"
    value, low, high = _columns([estimate])
    return Line(name, one.pro.series.colour, "solid", value, np.zeros(1), low, high)


def _interval(series: Series, one: intervals.Estimate) -> Line:
    low, high = np.array([one.low]), np.array([one.high])
    return series_line(series, np.array([one.value]), np.zeros(1), low, high)


def _columns(estimates: list[intervals.Estimate]) -> tuple[Array, Array, Array]:
    values, low, high = np.array([(one.value, one.low, one.high) for one in estimates]).T
    return values, low, high
