"""Tables of a report as CSV.

scores.csv: every run, with or without a score, and its protocol. comparisons.csv: every pair of
series, with intervals and p-values.
"""

import csv
import io
import math
from collections.abc import Sequence

import numpy as np

from proxrl.report.comparisons import Comparison, sync_ratio_estimate, sync_ratios
from proxrl.report.study import StudyResults, game_of

COLUMNS = (
    *("run", "status", "series", "agent", "game", "env", "seed", "steps_done", "budget_steps"),
    *("final_score", "area_score", "final_scaled", "scale", "scale_low", "scale_high"),
    *("c", "sticky_actions", "evaluation_epsilon", "evaluation_episodes", "note"),
)


def scores_csv(study: StudyResults) -> str:
    """One row per run; only finished runs have scores, scaled if the game has a scale."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    blocks = {id(run): block for block in study.blocks for run in block.runs}
    for run in study.runs:
        config, block = run.config, blocks.get(id(run))
        final = area = scaled = low = high = math.nan
        if config is not None and block is not None:
            game = study.games.index(game_of(config.env))
            seed = study.seeds.index(config.seed)
            final, area = block.final[seed, game], block.area[seed, game]
            if study.scale.kind != "raw" and study.scale.known[game]:
                scaled = study.scale(block.final[seed])[game]
                low, high = study.scale.low[game], study.scale.high[game]
        writer.writerow(
            (
                *(run.path, run.status, block.name if block else ""),
                config.agent if config else "",
                game_of(config.env) if config else "",
                config.env if config else "",
                config.seed if config else "",
                int(run.steps[-1]) if len(run.steps) else 0,
                study.budget_steps,
                *(_number(value) for value in (final, area, scaled)),
                study.scale.kind,
                *(_number(value) for value in (low, high)),
                f"{config.c:g}" if config and run.known is None else "",
                study.protocol.get("protocol.sticky_actions", ""),
                study.protocol.get("evaluation.epsilon", ""),
                study.protocol.get("evaluation.episodes", ""),
                run.note,
            )
        )
    return file.getvalue()


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """One row per pair and measure; runs are those of the series with fewer. The sizes of target
    updates are compared where both series recorded them."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("x", "y", "measure", "value", "low", "high", "p", "games", "runs"))
    for one in comparisons:
        rows = [
            ("final score, x - y", one.difference, len(one.games), one.runs),
            ("whole curve, x - y", one.area_difference, len(one.games), one.runs),
            ("P(x > y)", one.improvement, one.improvement_games, one.runs),
        ]
        ratio, runs, _ = sync_ratio_estimate(one.pro, one.base)
        if math.isfinite(ratio.value):
            games = int(np.isfinite(sync_ratios(one.pro, one.base)).sum())
            rows.append(("target updates, x / y", ratio, games, runs))
        for measure, found, games, runs in rows:
            numbers = map(_number, (found.value, found.low, found.high, found.p))
            writer.writerow((one.pro.name, one.base.name, measure, *numbers, games, runs))
    return file.getvalue()


def _number(value: float) -> str:
    return f"{value:.8g}" if math.isfinite(value) else ""
