"""Prints what a report says about a claim of docs/evidence.md, D: comparisons and a verdict.

    proxrl report my-results/period-session --out report-period
    python docs/tools/ablations.py period report-period

The criteria were written before the runs. p-values are corrected by Holm's method within a study.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reports import FINAL, LEVEL, Pair, corrected, parser, print_table, read_complete

GAMES, RUNS = 2, 6  # of every variant
PRO = "DQN Pro"
POLYAK = [f"DQN (Polyak, τ {tau})" for tau in ("0.004", "0.04", "0.4")]
ANNEALED = [f"DQN (annealed to α × {ratio})" for ratio in ("0.01", "0.1")]
PERIODS = [f"DQN (period {steps})" for steps in ("248", "500", "1,000", "1,500")]
IN_VALUE_SPACE = [
    f"DQN (in value space, {kind}c 1)" for kind in ("", "all actions, ", "own batch, ")
]

Pairs = tuple[Pair, ...]


class Claim(NamedTuple):
    """Pairs (x, y) of series. In the paper's direction: every x of `ahead` is above its y, one of
    them with p <= 0.05. Against it: in `ahead` or `not_behind` an x is below its y with p <= 0.05.
    """

    words: str
    ahead: Pairs
    not_behind: Pairs = ()


def above(x: str, *others: str) -> Pairs:
    return tuple((x, y) for y in others)


CLAIMS = {
    "period": Claim("C62: DQN Pro beats DQN with every target period", above(PRO, *PERIODS)),
    "polyak": Claim("C63: DQN Pro beats DQN with every Polyak τ", above(PRO, *POLYAK)),
    "anneal": Claim(
        "C64: DQN < DQN annealed < DQN Pro",
        above(ANNEALED[0], "DQN") + above(ANNEALED[1], "DQN") + above(PRO, *ANNEALED),
    ),
    "value-space": Claim(
        "C66: the term in value space has little effect",
        above(PRO, *IN_VALUE_SPACE),
        not_behind=above("DQN", *IN_VALUE_SPACE),
    ),
    "larger-c": Claim(
        "C65: c = 0.1 recovers Rainbow Pro's weak games",
        above(
            "Rainbow Pro (c 0.05)", "Rainbow Pro (c 0.025)"
        ),  # MinAtar's for the paper's 0.1, 0.05
    ),
}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    return parser(__doc__, CLAIMS).parse_args(argv)


def verdict(claim: Claim, differences: Mapping[Pair, float], p: Mapping[Pair, float]) -> str:
    """By the differences x - y and their corrected p-values."""
    pairs = (*claim.ahead, *claim.not_behind)
    if any(differences[pair] < 0.0 and p[pair] <= LEVEL for pair in pairs):
        return "against the paper"
    if all(differences[pair] > 0.0 for pair in claim.ahead) and any(
        p[pair] <= LEVEL for pair in claim.ahead
    ):
        return "in the paper's direction"
    return "inconclusive"


def main(claim: Claim, report: Path) -> None:
    pairs = (*claim.ahead, *claim.not_behind)
    table = read_complete(report, pairs, [FINAL], GAMES, RUNS)
    rows = {pair: table[*pair, FINAL] for pair in pairs}
    p = corrected(table, pairs)
    print_table(
        ("comparison", "final score", "p", "corrected p"),
        [
            (" against ".join(pair), row.difference, f"{row.p:.4f}", f"{p[pair]:.4f}")
            for pair, row in rows.items()
        ],
    )
    word = verdict(claim, {pair: row.value for pair, row in rows.items()}, p)
    print(f"\n{claim.words}: {word}")


if __name__ == "__main__":
    options = arguments()
    main(CLAIMS[options.study], options.report)
