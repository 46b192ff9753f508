"""Every figure that a study allows, in the page's order."""

from proxrl.report.baselines import Baseline
from proxrl.report.curve_plots import median_curve, sync_distances, sync_ratio
from proxrl.report.findings import Findings
from proxrl.report.plot import Plot
from proxrl.report.score_plots import aggregates, gains, improvement, profiles, score_against_c


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
