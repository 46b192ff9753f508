"""Prints the verdicts of docs/criteria.md, B and the first part of D, from a report of the runs.

    proxrl report my-results/rules-laptop --out report-b
    python docs/tools/verdicts.py rules report-b
    proxrl report my-results/rainbow-kappa-session --out report-rainbow
    python docs/tools/verdicts.py rainbow-kappa report-rainbow

The criteria were written before the runs. The statistic is the difference of the interquartile
means of final scores. Holm's method corrects the primary comparisons together, and the secondary
ones together (B has one and eight, D two primary ones). Two other measures, the area under the
curve and the probability of improvement, must agree: a verdict is weak if one of them has p > 0.05,
and contradicted if one of them has p <= 0.05 in the other direction.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reports import (
    AREA,
    FINAL,
    IMPROVEMENT,
    LEVEL,
    NEUTRAL,
    Pair,
    Table,
    corrected,
    parser,
    print_table,
    read_complete,
)


class Criterion(NamedTuple):
    """A study is analysed when all runs of all variants are complete."""

    games: int
    runs: int  # of a variant
    primary: tuple[Pair, ...]  # on which the paper's claim is judged
    secondary: tuple[Pair, ...] = ()


CRITERIA = {
    "rules": Criterion(
        games=5,
        runs=25,
        primary=(("DQN Pro (κ 1)", "DQN"),),
        secondary=(
            ("DQN Pro (κ 0.25)", "DQN"),
            ("DQN Pro adaptive", "DQN"),
            ("DQN (α × 0.8)", "DQN"),
            ("DQN Pro adaptive", "DQN Pro (κ 1)"),
            ("DQN Pro (κ 1)", "DQN (α × 0.65)"),
            ("DQN Pro (κ 1)", "DQN (α × 0.8)"),
            ("DQN Pro (κ 0.25)", "DQN (α × 0.8)"),
            ("DQN Pro adaptive", "DQN (α × 0.8)"),
        ),
    ),
    "rainbow-kappa": Criterion(
        games=5,
        runs=15,
        primary=(("Rainbow Pro (κ 2.5)", "Rainbow"), ("Rainbow Pro (κ 0.25)", "Rainbow")),
    ),
}

TITLES = (
    *("comparison", "final score", "p", "corrected p"),
    *("whole curve", "p", "P(x > y)", "p", "verdict"),
)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    return parser(__doc__, CRITERIA).parse_args(argv)


def verdict(table: Table, pair: Pair, p: float, words: tuple[str, str]) -> str:
    """`words` are for a difference above and below 0."""
    if p > LEVEL:
        return "inconclusive"
    above = table[*pair, FINAL].value > 0.0
    word = words[0] if above else words[1]
    others = [(table[*pair, measure], NEUTRAL[measure]) for measure in (AREA, IMPROVEMENT)]
    if any(row.p <= LEVEL and (row.value > neutral) != above for row, neutral in others):
        return f"{word}, contradicted"
    return word if all(row.p <= LEVEL for row, _ in others) else f"{word}, weak"


def cells(table: Table, pair: Pair, p: float, words: tuple[str, str]) -> tuple[str, ...]:
    final, area, better = (table[*pair, measure] for measure in (FINAL, AREA, IMPROVEMENT))
    return (
        " against ".join(pair),
        *(final.difference, f"{final.p:.4f}", f"{p:.4f}"),
        *(area.difference, f"{area.p:.4f}"),
        *(better.interval, f"{better.p:.4f}"),
        verdict(table, pair, p, words),
    )


def main(criterion: Criterion, report: Path) -> None:
    games, runs, primary, secondary = criterion
    table = read_complete(report, (*primary, *secondary), NEUTRAL, games, runs)
    rows = []
    for pairs, words in ((primary, ("support", "against")), (secondary, ("higher", "lower"))):
        finals = {pair: table[*pair, FINAL] for pair in pairs}
        rows += [cells(table, pair, p, words) for pair, p in corrected(finals, pairs).items()]
    print_table(TITLES, rows)


if __name__ == "__main__":
    options = arguments()
    main(CRITERIA[options.study], options.report)
