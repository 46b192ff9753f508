"""The figures of a study, each drawn once by matplotlib: PNG and SVG for papers, the same SVG in
the page. `all_figures` lists them as data (also written as CSV), `render` draws them.
"""

from dataclasses import replace

from proxrl.report.baselines import Baseline
from proxrl.report.figures.curves import (
    learning_curves,
    median_curve,
    sync_distances,
    sync_ratio,
    training_returns,
)
from proxrl.report.figures.drawing import Drawn, render
from proxrl.report.figures.finals import (
    aggregates,
    differences,
    gains,
    improvement,
    profiles,
    score_against_c,
)
from proxrl.report.figures.plot import Plot
from proxrl.report.findings import Findings

__all__ = ["Drawn", "Plot", "all_figures", "render"]


def all_figures(findings: Findings, baselines: tuple[Baseline, ...] = ()) -> list[Plot]:
    """The figures that these runs allow, in the page's order."""
    study = findings.study
    plots = [
        learning_curves(study, baselines),
        training_returns(study, baselines),
        median_curve(study, baselines),
        *(gains(study, one) for one in findings.main_comparisons),
        aggregates(findings, baselines),
        differences(findings),
        improvement(findings),
        profiles(findings),
        score_against_c(findings),
        sync_distances(findings),
        sync_ratio(findings),
    ]
    named: dict[str, Plot] = {}
    for plot in plots:
        if plot is not None:  # two series of one agent may share a file's name
            taken = sum(name.split("~")[0] == plot.id for name in named)
            name = f"{plot.id}~{taken + 1}" if taken else plot.id
            named[name] = replace(plot, id=name)
    return list(named.values())
