"""Figures over the course of training: returns, their median over games, target updates."""

import math

import numpy as np

from proxrl.report import intervals, statistics
from proxrl.report.baselines import ITERATION_STEPS, NOTE, SPREAD, Baseline, published_agent
from proxrl.report.comparisons import sync_ratios
from proxrl.report.figures.plot import Line, Panel, Plot, baseline_line, series_line
from proxrl.report.findings import CURVE_RESAMPLES, Findings
from proxrl.report.study import Block, StudyResults
from proxrl.report.training import over_seeds
from proxrl.types import Array

DISTANCE = "‖θ new − θ old‖"
SYNC_PANELS = 4  # games, as the paper's Figure 4
TRAINING_PANELS = 12  # games; the figure is part of the page
CURVE_POINTS = 120  # of all learning curves of a game, which many points make hard to tell apart


def median_curve(study: StudyResults, baselines: tuple[Baseline, ...]) -> Plot | None:
    """Figure 4, left: the median over games of the scaled mean curve; None for a single scaled
    game, whose learning curve it would repeat."""
    if study.scale.known.sum() < 2:
        return None
    lines = []
    for block in study.blocks:
        curves = block.curves["eval_return"]
        games = np.flatnonzero(study.scale.known & ~np.isnan(curves).all(axis=(0, 2)))
        if not len(games):
            continue
        low, span = study.scale.low[games], (study.scale.high - study.scale.low)[games]
        part = curves[:, games]
        there = statistics.whole(np.where(np.isnan(part).all(axis=2), np.nan, 1.0))
        drawn = _resampled(block, there.scores)
        middle = statistics.median_curve(part, low, span, there.counts)[0]
        below, above = intervals.interval(
            middle, statistics.median_curve(part, low, span, drawn.counts), drawn, tails=True
        )
        whole = ~np.isnan(part).all(axis=0).any(axis=0)  # points that every game has reached
        middle, below, above = (np.where(whole, y, np.nan) for y in (middle, below, above))
        lines.append(series_line(block.series, study.axis, middle, below, above))
    if not lines:
        return None
    frames = study.frame_skip if study.in_frames else 1
    for baseline in baselines:
        scaled = study.scale(baseline.mean.T)[:, study.scale.known]
        middle = statistics.nanmedian(scaled)
        lines.append(baseline_line(baseline, baseline.steps * frames, middle))
    bands = "; bands: 95% intervals over runs" if study.most_seeds > 1 else ""
    caption = (
        f"Median over games of the mean {study.scale.unit} (compare the paper's Figure 4, left)"
        f"{bands}. A line ends where the first of its games does."
    )
    if baselines:
        caption += f" Dopamine, number of games {_how_many(study, baselines)}: {NOTE}."
    return Plot(
        "median_curve",
        "Median learning curve",
        caption,
        "lines",
        (Panel("", tuple(lines)),),
        study.axis_name,
        f"median {study.scale.unit}",
        {"x_max": float(study.axis[-1])},
    )


def _how_many(study: StudyResults, baselines: tuple[Baseline, ...]) -> str:
    """Number of games in the published medians: 51, or 49 to 51."""
    counts = {int(np.isfinite(one.mean[study.scale.known]).any(axis=1).sum()) for one in baselines}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _resampled(block: Block, scores: Array) -> statistics.Resampled:
    generator = np.random.default_rng([1, *block.name.encode()])
    return statistics.resample(scores, CURVE_RESAMPLES, generator)


def sync_distances(findings: Findings) -> Plot | None:
    """Figure 4, right: the size of the target updates, with and without the pull."""
    study = findings.study
    blocks = list(dict.fromkeys(b for o in findings.pulls for b in (o.pro, o.base)))
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
            (np.nan_to_num(sync_ratios(one.pro, one.base)) for one in findings.pulls),
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
    which = ""
    if len(chosen) < len(games):
        which = (
            f" Four of {len(games)} games, spread evenly from the smallest ratio to the largest."
        )
    return Plot(
        "sync_distances",
        "Size of the target updates",
        "Mean ‖θ new − θ old‖ over the syncs between two points "
        f"(compare the paper's Figure 4, right){_bands(study)}.{which}",
        "lines",
        panels,
        study.axis_name,
        DISTANCE,
        {"zero": True},
    )


def sync_ratio(findings: Findings) -> Plot | None:
    """The same for every game: ratio of the mean sizes, pro / base."""
    study = findings.study
    lines = []
    for one in findings.pulls:
        ratios = sync_ratios(one.pro, one.base)
        games = [game for game in range(len(study.games)) if np.isfinite(ratios[game])]
        if len(games) <= SYNC_PANELS:
            continue
        games.sort(key=lambda game: (ratios[game], study.games[game]))
        names = np.array([study.games[game] for game in games])
        series = one.pro.series
        name = f"{one.pro.name} / {one.base.name}"
        lines.append(Line(name, series.colour, "solid", names, ratios[games]))
    if not lines:
        return None
    return Plot(
        "sync_ratio",
        "Size of the target updates, every game",
        "Mean size of the target updates with the pull, divided by the size without it; below 1, "
        "the pull makes them smaller.",
        "dots",
        (Panel("", tuple(lines)),),
        "",
        "ratio of sizes, with the pull / without",
        {"reference": 1.0},
    )


def learning_curves(study: StudyResults, baselines: tuple[Baseline, ...] = ()) -> Plot:
    """Figures 7 to 10: every game's mean evaluation return with standard errors; the more series,
    the more evaluations are joined in a point."""
    together = math.ceil(len(study.points) * len(study.blocks) / CURVE_POINTS)
    over = " over seeds" if study.most_seeds > 1 else ""
    caption = f"Mean {study.episodes_are} return{over}{_bands(study)}."
    if study.episodes_are != "evaluation":
        caption += f" A point is the mean of the episodes within {study.points[0]:,} agent steps."
    elif study.evaluations_per_point > 1:
        caption += f" A point is the mean of {study.evaluations_per_point} evaluations."
    if together > 1:
        caption += f" learning_curves.png and .svg join {together} points to one, their mean."
    if baselines:
        caption += f" Dopamine: {NOTE}; {SPREAD}."
    return Plot(
        "learning_curves",
        "Learning curves",
        caption,
        "lines",
        _of_every_game(study, baselines, together),
        study.axis_name,
        f"{study.episodes_are} return",
        {"x_max": float(study.axis[-1])},
        unjoined=_of_every_game(study, baselines) if together > 1 else None,
    )


def _of_every_game(
    study: StudyResults, baselines: tuple[Baseline, ...], together: int = 1
) -> tuple[Panel, ...]:
    frames = study.frame_skip if study.in_frames else 1
    panels = []
    for game, name in enumerate(study.games):
        lines = [
            _curve(block, study, "eval_return", game, together)
            for block in study.blocks
            if np.isfinite(block.curves["eval_return"][:, game]).any()
        ]
        lines += [_published(one, game, frames) for one in baselines]
        panels.append(Panel(name, tuple(lines)))
    return tuple(panels)


def _bands(study: StudyResults) -> str:
    return "; bands: one standard error over seeds" if study.most_seeds > 1 else ""


def _published(one: Baseline, game: int, frames: int) -> Line:
    return baseline_line(one, one.steps * frames, one.mean[game], one.standard_deviation[game])


def training_returns(study: StudyResults, baselines: tuple[Baseline, ...]) -> Plot | None:
    """The same measure for both: training returns of these runs and the published ones; None if no
    run recorded any."""
    frames = study.frame_skip if study.in_frames else 1
    panels = []
    for number, game in enumerate(study.games):
        ours, agents = [], set()
        for block in study.blocks:
            mean, deviation, seeds = over_seeds(block, game)
            if seeds.any():
                x = np.arange(1, len(mean) + 1) * ITERATION_STEPS * frames
                ours.append(series_line(block.series, x, mean, mean - deviation, mean + deviation))
                agents.add(published_agent(block.series.agent))
        theirs = [
            _published(one, number, frames)
            for one in baselines
            if one.agent in agents and np.isfinite(one.mean[number]).any()
        ]
        if theirs:
            panels.append(Panel(game, (*ours, *theirs)))
    if not panels:
        return None
    which = ""
    if len(panels) > TRAINING_PANELS:
        which = (
            f" The first {TRAINING_PANELS} of {len(panels)} games; training_returns.csv has all."
        )
    return Plot(
        "training_returns",
        "Training returns, next to Dopamine's",
        "Mean return of the training episodes in each 250,000 agent steps, the measure of "
        f"Dopamine's published curves ({NOTE}); bands: one standard deviation over seeds, of these "
        "runs and of Dopamine's 5." + which,
        "lines",
        tuple(panels[:TRAINING_PANELS]),
        study.axis_name,
        "training return",
        {"x_max": float(study.axis[-1])},
    )


def _curve(block: Block, study: StudyResults, name: str, game: int, together: int = 1) -> Line:
    values = _joined(block.curves[name][:, game], together)
    x = study.axis[::-together][::-1]  # of the last of the points that are joined
    mean, error = statistics.nanmean(values), statistics.standard_error(values)
    return series_line(block.series, x, mean, mean - error, mean + error)


def _joined(values: Array, together: int) -> Array:
    """Means of so many consecutive points of each curve, of those that there are; fewer in the
    first."""
    curves, points = values.shape
    count = math.ceil(points / together)
    padded = np.pad(values, ((0, 0), (count * together - points, 0)), constant_values=np.nan)
    return statistics.nanmean(np.moveaxis(padded.reshape(curves, count, together), -1, 0))
