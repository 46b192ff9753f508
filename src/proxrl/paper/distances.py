"""Claims about distances: between networks, and between their values."""

import math

import numpy as np

from proxrl.paper.scope import both_pairs, games_of, lacks, within
from proxrl.paper.verdict import OPPOSITE, Answer, decided
from proxrl.report.comparisons import Comparison, sync_ratio_estimate, sync_ratios
from proxrl.report.findings import Findings


def lipschitz(findings: Findings) -> Answer:
    ratios = []
    for block in findings.study.blocks:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = block.curves["value_distance"] / block.curves["parameter_distance"]
        ratios.append(ratio[np.isfinite(ratio)])
    every = np.concatenate(ratios)
    if not len(every):
        return "not testable", "no distances recorded"
    return (
        "not testable",
        f"no finite run can refute a bound; |ΔQ| / ‖Δw‖: median {np.median(every):.3g}, "
        f"largest {every.max():.3g}",
    )


def smaller_syncs(findings: Findings) -> Answer:
    """By the interval of the ratio; the paper claims a ratio below 1, for DQN and for Rainbow."""

    def check(one: Comparison) -> Answer:
        ratios = sync_ratios(one.pro, one.base)
        ratios = ratios[np.isfinite(ratios)]
        ratio, runs, fewest = sync_ratio_estimate(one.pro, one.base)
        if not len(ratios) or not math.isfinite(ratio.value):
            return "not testable", f"{one.pro.name}: no target updates recorded"
        what = (
            f"{one.pro.name} / {one.base.name}, smaller in {int((ratios < 1).sum())} of "
            f"{len(ratios)} games"
        )
        verdict, text = decided(ratio, 1.0, what, runs, fewest)
        study, pair = findings.study, (one.pro, one.base)
        missing = lacks(study, games_of(study, *pair), 4, *pair, frames=False)
        return within(missing, (OPPOSITE[verdict], text), study)

    return both_pairs(findings, check)
