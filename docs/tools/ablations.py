"""Prints what a report says about one of the paper's ablations: comparisons and a verdict.

    proxrl report my-results/period-session --out report-period
    python docs/tools/ablations.py period report-period

The criteria were written before the runs (docs/criteria.md, D). The statistic is P(x > y), the
probability that a run of x ends with a higher score than a run of y in the same game: with six
runs of a series, a difference of interquartile means often cannot reach small p-values, whatever
its size.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reports import (
    AREA,
    FINAL,
    IMPROVEMENT,
    LEVEL,
    Pair,
    Row,
    corrected,
    parser,
    print_table,
    read_complete,
)

GAMES, RUNS = 2, 6  # of every variant
PRO = "DQN Pro"
POLYAK = [f"DQN (Polyak, τ {tau})" for tau in ("0.004", "0.04", "0.4")]
ANNEALED = [f"DQN (annealed to α × {ratio})" for ratio in ("0.01", "0.1")]
PERIODS = [f"DQN (period {steps})" for steps in ("248", "500", "1,000", "1,500")]
IN_VALUE_SPACE = [
    f"DQN (in value space, {kind}c 1)" for kind in ("", "all actions, ", "own batch, ")
]
KAPPA_2_5, KAPPA_1_25 = "Rainbow Pro (c 0.025)", "Rainbow Pro (c 0.05)"  # the paper's 0.05 and 0.1

Pairs = tuple[Pair, ...]


class Claim(NamedTuple):
    """Pairs (x, y) of series, in which the paper has x above y.

    As in the paper: x is above y in every pair of `condition` and `all_of` with p <= 0.05, and in
    at least one of `one_of` with a p-value that is corrected for their number. Against it:
    `condition` holds, and x is below y in a pair of `all_of`, with a p-value that is corrected for
    their number, or in every pair of `one_of` with p <= 0.05.
    """

    words: str
    all_of: Pairs
    one_of: Pairs = ()
    condition: Pairs = ()  # what the claim presupposes
    besides: Pairs = ()  # no part of the verdict


def above(x: str, *others: str) -> Pairs:
    return tuple((x, y) for y in others)


def below(y: str, *others: str) -> Pairs:
    return tuple((x, y) for x in others)


CLAIMS = {
    "period": Claim("C62: DQN Pro beats DQN with every target period", above(PRO, *PERIODS)),
    "polyak": Claim(
        "C63: DQN Pro beats DQN with every Polyak τ",
        above(PRO, *POLYAK),
        besides=above(PRO, "DQN (periodic)"),
    ),
    "anneal": Claim(
        "C64: annealing the step size improves DQN, but stays below DQN Pro",
        above(PRO, *ANNEALED),
        one_of=below("DQN", *ANNEALED),  # the paper tuned α', ours are chosen by hand
        besides=above(PRO, "DQN"),
    ),
    "value-space": Claim(
        "C66: the term in value space helps less than DQN Pro",
        above(PRO, *IN_VALUE_SPACE),
        besides=above(PRO, "DQN") + below("DQN", *IN_VALUE_SPACE),
    ),
    "larger-c": Claim(
        "C65: where Rainbow Pro is weak, a larger c recovers",
        above(KAPPA_1_25, KAPPA_2_5),
        condition=above("Rainbow", KAPPA_2_5),
        besides=above(KAPPA_1_25, "Rainbow"),
    ),
}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    return parser(__doc__, CLAIMS).parse_args(argv)


def verdict(claim: Claim, found: Mapping[Pair, Row]) -> str:
    """By P(x > y) and its p-values."""

    def holds(pairs: Pairs) -> list[bool]:
        return [found[pair].value > 0.5 and found[pair].p <= LEVEL for pair in pairs]

    def reversed_(pairs: Pairs, p: Mapping[Pair, float]) -> list[bool]:
        return [found[pair].value < 0.5 and p[pair] <= LEVEL for pair in pairs]

    plain = {pair: row.p for pair, row in found.items()}
    one_of = corrected(found, claim.one_of)
    if all(holds(claim.condition)):
        if any(reversed_(claim.all_of, corrected(found, claim.all_of))) or (
            claim.one_of and all(reversed_(claim.one_of, plain))
        ):
            return "against the paper"
        some = [found[pair].value > 0.5 and one_of[pair] <= LEVEL for pair in claim.one_of]
        if all(holds(claim.all_of)) and (any(some) or not claim.one_of):
            return "as in the paper"
    return "inconclusive"


def main(claim: Claim, report: Path) -> None:
    decisive = (*claim.condition, *claim.all_of, *claim.one_of)
    pairs = (*decisive, *claim.besides)
    table = read_complete(report, pairs, [IMPROVEMENT], GAMES, RUNS)
    found = {pair: table[*pair, IMPROVEMENT] for pair in pairs}
    together = {**corrected(found, claim.all_of), **corrected(found, claim.one_of)}
    rows = []
    for pair, row in found.items():
        others = [table.get((*pair, measure)) for measure in (FINAL, AREA)]
        rows.append(
            (
                " against ".join(pair),
                *(row.interval, f"{row.p:.4f}"),
                f"{together[pair]:.4f}" if pair in together else "–",
                *(other.difference if other else "–" for other in others),
            )
        )
    print_table(("comparison", "P(x > y)", "p", "corrected p", "final score", "whole curve"), rows)
    print(f"\n{claim.words}: {verdict(claim, found)} (an indication: {RUNS} runs per variant)")


if __name__ == "__main__":
    options = arguments()
    main(CLAIMS[options.study], options.report)
