"""Claims about scores: with the pull and without, medians, and the best c."""

from proxrl.paper.scope import (
    PAPER_FRAMES,
    both_pairs,
    comparison,
    games_of,
    lacks,
    main_block,
    other_settings,
    paper_agent,
    within,
)
from proxrl.paper.verdict import Answer, Check, all_of, decide, no_pair, only, shown
from proxrl.report import scores
from proxrl.report.comparisons import Comparison
from proxrl.report.findings import Findings
from proxrl.report.intervals import Estimate

WIDEST = 0.25  # largest interval, relative to the number, that can confirm it


def most_games(pro: str) -> Check:
    def check(findings: Findings) -> Answer:
        one = comparison(findings, pro)
        if one is None:
            return no_pair(pro)
        study = findings.study
        pair = one.pro, one.base
        missing = lacks(study, games_of(study, *pair), scores.paper_games(), *pair)
        what = f"share of games in which {one.pro.name} is ahead"
        return within(missing, decide(one, one.wins, 0.5, what), study)

    return check


def median_is(pro: str, number: float) -> Check:
    def check(findings: Findings) -> Answer:
        study = findings.study
        block = main_block(study, pro)
        found = next((one for one in findings.aggregates if one.block is block), None)
        frames = study.budget_steps * study.frame_skip
        if found is None or found.games < 51 or frames != PAPER_FRAMES:
            return "not testable", f"needs {pro} on 51 games for 120M frames"
        if other := other_settings(study, found.block):
            return "not testable", f"needs {other}"
        median = found.metrics["median"]
        if median.has_interval and found.few:
            return "not testable", f"{only(found.runs, found.fewest)}; median {shown(median)}"
        return is_number(median, number)

    return check


def is_number(median: Estimate, number: float) -> Answer:
    """Contradicted if the interval excludes the number, seen if a narrow one includes it."""
    if not median.has_interval:
        return "not testable", f"median {median.value:.2f}, no interval"
    text = f"median {shown(median)}"
    rounding = 0.05
    if not median.low - rounding <= number <= median.high + rounding:
        return "contradicted", text
    if median.high - median.low > WIDEST * number:
        return "not testable", f"undecided, the interval is wide: {text}"
    return "seen", text


def medians_ordered(findings: Findings) -> Answer:
    """Both pairs, on the human scale."""
    study = findings.study

    def check(one: Comparison) -> Answer:
        pair = one.pro, one.base
        missing = lacks(study, games_of(study, *pair), scores.paper_games(), *pair)
        what = f"median of {one.pro.name} − {one.base.name}"
        return within(missing, decide(one, one.median_difference, 0.0, what), study)

    return both_pairs(findings, check)


def best_c(findings: Findings) -> Answer:
    answers = [_best_c(findings, "dqn-pro", 0.2), _best_c(findings, "rainbow-pro", 0.05)]
    return all_of(answers)


def _best_c(findings: Findings, agent: str, claimed: float) -> Answer:
    """Whether the interval of the claimed c is above those of all others tried."""
    tried = {
        one.block.series.c: one
        for one in findings.aggregates
        if paper_agent(one.block.series.agent) == agent and set(one.block.series.varied) <= {"c"}
    }
    if len(tried) < 3 or claimed not in tried:
        return (
            "not testable",
            f"needs {agent} with at least three values of c, including {claimed:g}",
        )
    if len({one.games for one in tried.values()}) > 1:
        return "not testable", f"{agent}: not every c has the same games"
    grid = {c: one.metrics["IQM"] for c, one in tried.items()}
    best = max(grid, key=lambda c: grid[c].value)
    text = f"{agent}: best c = {best:g} of {len(grid)}"
    weak = next((one for one in tried.values() if one.few), None)
    if weak is not None:
        return "not testable", f"{only(weak.runs, weak.fewest)} for one c; {text}"
    games = set.intersection(*(games_of(findings.study, one.block) for one in tried.values()))
    blocks = [one.block for one in tried.values()]
    if missing := lacks(findings.study, games, 6, *blocks, varied=("c",)):
        return within(missing, ("not testable", text), findings.study)
    others = [grid[c] for c in grid if c != claimed]
    if all(grid[claimed].low > other.high for other in others):
        return "seen", text
    if any(other.low > grid[claimed].high for other in others):
        return "contradicted", text
    return "not testable", f"undecided: {text}, intervals overlap"


def larger_c_recovers(_: Findings) -> Answer:
    return (
        "not testable",
        "games selected as worst on the same runs improve by chance (regression to the mean)",
    )
