"""Verdicts, and how an interval decides one."""

from collections.abc import Callable, Sequence
from typing import Literal

from proxrl.report.comparisons import FEW_RUNS, Comparison, too_few
from proxrl.report.findings import Findings
from proxrl.report.intervals import Estimate

Verdict = Literal["seen", "seen in part", "contradicted", "not testable"]
Answer = tuple[Verdict, str]
Check = Callable[[Findings], Answer]
ORDER: tuple[Verdict, ...] = ("contradicted", "not testable", "seen in part", "seen")
OPPOSITE: dict[Verdict, Verdict] = {
    "seen": "contradicted",
    "seen in part": "contradicted",
    "contradicted": "seen",
    "not testable": "not testable",
}


def elsewhere(where: str) -> Check:
    """A claim that run folders cannot test."""
    return lambda _: ("not testable", f"does not depend on runs: {where}")


def decide(one: Comparison, estimate: Estimate, border: float, what: str) -> Answer:
    """Decide by the confidence interval, if there are enough runs."""
    return decided(estimate, border, what, one.runs, one.fewest)


def decided(estimate: Estimate, border: float, what: str, runs: int, fewest: int) -> Answer:
    if not estimate.has_interval:
        return "not testable", f"{what}: {estimate.value:.2f}, no interval"
    text = f"{what}: {shown(estimate)}"
    if too_few(runs, fewest):
        return "not testable", f"{only(runs, fewest)}; {text}"
    if estimate.low > border:
        return "seen", text
    if estimate.high < border:
        return "contradicted", text
    return "not testable", f"undecided: {text}"


def shown(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]".replace("-", "−")


def only(runs: int, fewest: int) -> str:
    return f"only {runs} runs" if runs < FEW_RUNS else f"only {fewest} runs in a game"


def no_pair(pro: str) -> Answer:
    return "not testable", f"no finished {pro} runs with a counterpart without the pull"


def all_of(answers: Sequence[Answer], otherwise: str = "") -> Answer:
    """Seen if all are; contradicted if one is."""
    if not answers:
        return "not testable", otherwise
    text = "; ".join(why for _, why in answers)
    found = {verdict for verdict, _ in answers}
    return next(one for one in ORDER if one in found), text
