"""How each kind of claim is decided; claims.py says which claim is of which kind.

A claim about settings is *seen* when the runs follow it; runs that do otherwise cannot test it. A
claim about performance is seen or contradicted only when an interval from enough runs decides it,
on the games it speaks of, and by pairs that differ in nothing else.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from proxrl.report import scores
from proxrl.report.findings import (
    FEW_RUNS,
    Comparison,
    Findings,
    sync_ratio_estimate,
    sync_ratios,
    too_few,
)
from proxrl.report.statistics import Estimate
from proxrl.report.study import Block, Study

Verdict = Literal["seen", "contradicted", "not testable"]
Check = Callable[[Findings], tuple[Verdict, str]]
MOST_GAMES = 10  # a claim about most of 55 games is not tested by fewer
OPPOSITE: dict[Verdict, Verdict] = {
    "seen": "contradicted",
    "contradicted": "seen",
    "not testable": "not testable",
}
WIDEST = 0.25  # a claimed number is confirmed by no interval wider than this share of it


# ------------------------------------------------------------------------------ kinds of checks


def elsewhere(where: str) -> Check:
    """A claim that no run folder can speak about."""
    return lambda _: ("not testable", f"not a matter of runs: {where}")


def setting(agents: tuple[str, ...], **wanted: Any) -> Check:
    """Do all runs of these agents have the paper's values? `__` stands for the dot."""
    values = {name.replace("__", "."): value for name, value in wanted.items()}

    def check(findings: Findings) -> tuple[Verdict, str]:
        blocks = _atari(findings.study, agents)
        if not blocks:
            return "not testable", f"no Atari runs of {' or '.join(agents)}"
        found = {name: _values(findings.study, blocks, name) for name in values}
        other = [
            f"{name} = {', '.join(map(str, got))}"
            for name, got in found.items()
            if not all(_equal(value, values[name]) for value in got)
        ]
        if other:
            return "not testable", f"these runs have {'; '.join(other)}"
        return "seen", "; ".join(f"{name} = {value}" for name, value in values.items())

    return check


def _atari(study: Study, agents: Iterable[str]) -> list[Block]:
    return [b for b in study.blocks if study.family == "atari" and b.series.agent in agents]


def _values(study: Study, blocks: list[Block], name: str) -> list[Any]:
    if name in study.protocol:
        return [study.protocol[name]]
    main = [block for block in blocks if block.series.main] or blocks
    return list(dict.fromkeys(block.series.settings.get(name) for block in main))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other)
    return bool(one == other)


def _comparison(findings: Findings, pro: str) -> Comparison | None:
    found = (one for one in findings.pulls if one.pro.series.agent == pro)
    return next(found, None)


def _decide(one: Comparison, estimate: Estimate, border: float, what: str) -> tuple[Verdict, str]:
    """By the estimate's interval, if there are runs enough to believe it."""
    return _decided(estimate, border, what, one.runs, one.fewest)


def _decided(
    estimate: Estimate, border: float, what: str, runs: int, fewest: int
) -> tuple[Verdict, str]:
    if not estimate.has_interval:
        return "not testable", f"{what}: {estimate.value:.2f}, single runs and so no interval"
    said = f"{what}: {_said(estimate)}"
    if too_few(runs, fewest):
        return "not testable", f"{_only(runs, fewest)}; {said}"
    if estimate.low > border:
        return "seen", said
    if estimate.high < border:
        return "contradicted", said
    return "not testable", f"undecided: {said}"


def _said(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]".replace("-", "−")


def _only(runs: int, fewest: int) -> str:
    return f"only {runs} runs" if runs < FEW_RUNS else f"only {fewest} runs in a game"


def _too_small(study: Study, games: int) -> str:
    """Why a claim about most Atari games cannot be tested here; empty if it can."""
    if study.family == "atari" and games >= MOST_GAMES:
        return ""
    return f"needs at least {MOST_GAMES} Atari games, these are {_scope(study)}"


def _scope(study: Study) -> str:
    of = {"atari": "Atari", "minatar": "MinAtar"}.get(study.family, "other")
    steps = f"{study.budget_steps:,} steps"
    return f"{len(study.games)} {of} game{'s' * (len(study.games) != 1)}, {steps}"


# ---------------------------------------------------------------------------------- single checks


def the_games(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    missing = sorted(set(scores.paper_games()) - set(findings.study.games))
    extra = sorted(set(findings.study.games) - set(scores.paper_games()))
    if not missing and not extra:
        return "seen", "the same 55 games"
    have = 55 - len(missing)
    return "not testable", f"these runs have {have} of the 55" + (f" and {extra}" if extra else "")


def the_seeds(findings: Findings) -> tuple[Verdict, str]:
    study = findings.study
    complete = study.seeds == (0, 1, 2, 3, 4) and not study.missing
    seeds = ", ".join(map(str, study.seeds))
    said = f"seeds {seeds}" + (f", {len(study.missing)} runs missing" if study.missing else "")
    return ("seen" if complete else "not testable"), said


def sticky_actions(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    sticky = findings.study.protocol["protocol.sticky_actions"]
    return ("seen" if sticky > 0 else "not testable"), f"protocol.sticky_actions = {sticky}"


def evaluation_returns(findings: Findings) -> tuple[Verdict, str]:
    said = str(findings.study.protocol.get("returns", "not recorded"))
    return ("seen" if said.startswith("evaluation, undiscounted") else "not testable"), said


def human_table(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.scale.kind != "human":
        return "not testable", "no Atari runs"
    return "seen", f"no-op table, {int(findings.study.scale.known.sum())} of these games"


def scale_formula(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.scale.kind != "human":
        return "not testable", f"no human scores here; scale: {findings.study.scale.unit}"
    return "seen", "the formula this report uses (tests/report/test_scores.py)"


def same_c(findings: Findings) -> tuple[Verdict, str]:
    pros = [b for b in findings.study.blocks if math.isfinite(b.series.c)]
    if not pros:
        return "not testable", "no runs with a pull"
    values = {
        agent: sorted({b.series.c for b in pros if b.series.agent == agent})
        for agent in dict.fromkeys(b.series.agent for b in pros)
    }
    said = "; ".join(
        f"{agent}: c = {', '.join(f'{c:g}' for c in cs)}" for agent, cs in values.items()
    )
    single = all(len(cs) == 1 for cs in values.values())
    games, _ = the_games(findings)
    if not single or games != "seen":
        return "not testable", f"{said}; needs one c on all 55 games"
    return "seen", f"only this half is checked, one c for all games: {said}"


def lipschitz(findings: Findings) -> tuple[Verdict, str]:
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


def best_c(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    answers = [_best_c(findings, "dqn-pro", 0.2), _best_c(findings, "rainbow-pro", 0.05)]
    return _all(answers, "")


def _best_c(findings: Findings, agent: str, claimed: float) -> tuple[Verdict, str]:
    """Is the claimed c's interval above those of all others that were tried?"""
    tried = {
        one.block.series.c: one
        for one in findings.aggregates
        if one.block.series.agent == agent and set(one.block.series.varied) <= {"c"}
    }
    if len(tried) < 3 or claimed not in tried:
        return "not testable", f"needs {agent} with at least three c, {claimed:g} among them"
    if len({one.games for one in tried.values()}) > 1:
        return "not testable", f"{agent}: not every c has the same games"
    grid = {c: one.metrics["IQM"] for c, one in tried.items()}
    best = max(grid, key=lambda c: grid[c].value)
    said = f"{agent}: best c = {best:g} of {len(grid)} ({_scope(findings.study)})"
    weak = next((one for one in tried.values() if one.few), None)
    if weak is not None:
        return "not testable", f"{_only(weak.runs, weak.fewest)} of a c; {said}"
    others = [grid[c] for c in grid if c != claimed]
    if all(grid[claimed].low > other.high for other in others):
        return "seen", said
    if any(other.low > grid[claimed].high for other in others):
        return "contradicted", said
    return "not testable", f"undecided: {said}, intervals overlap"


def _all(answers: list[Any], otherwise: str) -> tuple[Verdict, str]:
    """Seen if all are; contradicted if one is."""
    if not answers:
        return "not testable", otherwise
    said = "; ".join(why for _, why in answers)
    for verdict in ("contradicted", "not testable"):
        if any(got == verdict for got, _ in answers):
            return verdict, said
    return "seen", said


def most_games(pro: str) -> Check:
    def check(findings: Findings) -> tuple[Verdict, str]:
        one = _comparison(findings, pro)
        if one is None:
            return "not testable", f"no finished {pro} runs beside the same without the pull"
        if reason := _too_small(findings.study, one.improvement_games):
            return "not testable", reason
        what = f"share of games in which {one.pro.name} is ahead ({_scope(findings.study)})"
        return _decide(one, one.wins, 0.5, what)

    return check


def median_is(pro: str, number: float) -> Check:
    def check(findings: Findings) -> tuple[Verdict, str]:
        study = findings.study
        block = study.main(pro)
        found = next((one for one in findings.aggregates if one.block is block), None)
        frames = study.budget_steps * study.frame_skip
        if study.family != "atari" or found is None or found.games < 51 or frames != 120_000_000:
            return "not testable", f"needs {pro} on 51 games for 120M frames"
        median = found.metrics["median"]
        if median.has_interval and found.few:
            return "not testable", f"{_only(found.runs, found.fewest)}; median {_said(median)}"
        return is_number(median, number)

    return check


def is_number(median: Estimate, number: float) -> tuple[Verdict, str]:
    """Contradicted by an interval without the number, seen in a narrow one around it."""
    if not median.has_interval:
        return "not testable", f"median {median.value:.2f}, single runs and so no interval"
    said = f"median {_said(median)}"
    rounding = 0.05
    if not median.low - rounding <= number <= median.high + rounding:
        return "contradicted", said
    if median.high - median.low > WIDEST * number:
        return "not testable", f"undecided, the interval is wide: {said}"
    return "seen", said


def medians_ordered(findings: Findings) -> tuple[Verdict, str]:
    """Both pairs, on the human scale."""
    study = findings.study
    answers: list[tuple[Verdict, str]] = []
    for pro in ("dqn-pro", "rainbow-pro"):
        one = _comparison(findings, pro)
        if one is None:
            reason = f"no finished {pro} runs beside the same without the pull"
        elif not (reason := _too_small(study, len(one.games))):
            what = f"median of {one.pro.name} − {one.base.name} ({_scope(study)})"
            answers.append(_decide(one, one.median_difference, 0.0, what))
            continue
        answers.append(("not testable", reason))
    return _all(answers, "")


def smaller_syncs(findings: Findings) -> tuple[Verdict, str]:
    """By the interval of the ratio: below 1 is what the paper says."""
    answers: list[tuple[Verdict, str]] = []
    for one in findings.pulls:
        ratios = sync_ratios(one.pro, one.base)
        ratios = ratios[np.isfinite(ratios)]
        ratio, runs, fewest = sync_ratio_estimate(one.pro, one.base)
        if not len(ratios) or not math.isfinite(ratio.value):
            continue
        what = (
            f"{one.pro.name} / {one.base.name}, smaller in {int((ratios < 1).sum())} of "
            f"{len(ratios)} games"
        )
        verdict, said = _decided(ratio, 1.0, what, runs, fewest)
        answers.append((OPPOSITE[verdict], said))
    return _all(answers, "no pairs with and without the pull")


def beats_every(setting: str, claimed: tuple[float, ...]) -> Check:
    """DQN Pro against each DQN of a grid (Figure 5)."""

    def check(findings: Findings) -> tuple[Verdict, str]:
        answers = []
        have = []
        for one in findings.comparisons:
            settings = one.base.series.settings
            if one.pro.series.agent != "dqn-pro" or one.base.series.agent != "dqn":
                continue
            if settings.get(setting) is None:
                continue
            if not all(name.startswith("target.") for name in one.confounds):
                continue
            have.append(settings[setting])
            answers.append(_decide(one, one.difference, 0.0, f"IQM difference to {one.base.name}"))
        if len(have) < 2:
            return "not testable", f"needs DQN Pro and DQN with {setting} in {claimed}"
        verdict, said = _all(answers, "")
        return verdict, f"{said} ({_scope(findings.study)})"

    return check


def larger_c_recovers(_: Findings) -> tuple[Verdict, str]:
    return (
        "not testable",
        "games chosen as the worst by the same runs recover by chance (regression to the mean)",
    )


def _is_annealed(name: str, value: Any) -> bool:
    return "anneal" in name and value not in (None, False, 0, "none", "constant")


def _is_in_value_space(name: str, value: Any) -> bool:
    return name == "proximal.rule" and str(value).startswith("value")


def _variant_is_beaten(is_one: Callable[[str, Any], bool], needs: str) -> Check:
    """Is the main series ahead of every variant whose settings say that it is the one?"""

    def check(findings: Findings) -> tuple[Verdict, str]:
        answers = [
            _decide(
                one,
                one.difference,
                0.0,
                f"only this half is checked: IQM of {one.pro.name} − {one.base.name}",
            )
            for one in findings.comparisons
            if any(is_one(name, value) for name, value in one.base.series.settings.items())
            and all(is_one(name, value) for name, (_, value) in one.confounds.items())
        ]
        return _all(answers, f"needs runs with {needs}")

    return check


annealing_is_beaten = _variant_is_beaten(_is_annealed, "annealed step sizes")
value_space_is_beaten = _variant_is_beaten(_is_in_value_space, "the proximal term in value space")
