"""Prints the verdicts of docs/evidence.md, B, from a report of its runs.

    proxrl report my-results/rules-laptop --out report-b
    python docs/tools/verdicts.py report-b

The criterion, which was written before the runs: one primary comparison, and seven others whose
p-values are corrected by Holm's method. The statistic is the difference of the interquartile means
of final scores. A verdict is weak if the difference of the areas under the curve or the probability
of improvement has p > 0.05.
"""

import csv
import sys
from pathlib import Path
from typing import NamedTuple

LEVEL = 0.05
PRIMARY = ("DQN Pro (κ 1)", "DQN")
SECONDARY = (
    ("DQN Pro (κ 0.25)", "DQN"),
    ("DQN Pro adaptive", "DQN"),
    ("DQN (α × 0.8)", "DQN"),
    ("DQN Pro adaptive", "DQN Pro (κ 1)"),
    ("DQN Pro (κ 1)", "DQN (α × 0.65)"),
    ("DQN Pro (κ 0.25)", "DQN (α × 0.8)"),
    ("DQN Pro adaptive", "DQN (α × 0.8)"),
)
FINAL, AREA, IMPROVEMENT = "final score, x - y", "whole curve, x - y", "P(x > y)"


class Row(NamedTuple):
    """A line of comparisons.csv."""

    value: float
    low: float
    high: float
    p: float

    def turned(self, about: float) -> "Row":
        """The same comparison of y with x."""
        return Row(about - self.value, about - self.high, about - self.low, self.p)


Table = dict[tuple[str, str, str], Row]


def read(path: Path) -> Table:
    """Every comparison in both directions, by x, y and measure."""
    table: Table = {}
    with open(path, encoding="utf-8") as file:
        for line in csv.DictReader(file):
            row = Row(*(float(line[name]) for name in Row._fields))
            x, y, measure = line["x"], line["y"], line["measure"]
            table[x, y, measure] = row
            table[y, x, measure] = row.turned(1.0 if measure == IMPROVEMENT else 0.0)
    return table


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values (Holm 1979): the k-th smallest of n times n - k + 1, never decreasing."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    ranked = sorted(range(len(p_values)), key=lambda number: p_values[number])
    for rank, number in enumerate(ranked):
        largest = max(largest, min(1.0, p_values[number] * (len(p_values) - rank)))
        adjusted[number] = largest
    return adjusted


def verdict(table: Table, pair: tuple[str, str], p: float, words: tuple[str, str]) -> str:
    """`words` are for a difference above and below 0."""
    if p > LEVEL:
        return "inconclusive"
    others = (table[*pair, AREA].p, table[*pair, IMPROVEMENT].p)
    found = words[0] if table[*pair, FINAL].value > 0.0 else words[1]
    return found if max(others) <= LEVEL else f"{found}, weak"


def main(report: Path) -> None:
    table = read(report / "comparisons.csv")
    pairs = (PRIMARY, *SECONDARY)
    if missing := [f"{x} and {y}" for x, y in pairs if (x, y, FINAL) not in table]:
        raise SystemExit(f"{report} has no comparison of {'; '.join(missing)}")
    adjusted = [table[*PRIMARY, FINAL].p, *holm([table[*pair, FINAL].p for pair in SECONDARY])]
    print("| comparison | final score | p | corrected p | whole curve | P(x > y) | verdict |")
    print("|---" * 7 + "|")
    for pair, p in zip(pairs, adjusted, strict=True):
        final, area, better = (table[*pair, measure] for measure in (FINAL, AREA, IMPROVEMENT))
        words = ("support", "against") if pair == PRIMARY else ("higher", "lower")
        corrected = "–" if pair == PRIMARY else f"{p:.3f}"
        cells = (
            " against ".join(pair),
            f"{final.value:+.2f} [{final.low:+.2f}, {final.high:+.2f}]",
            f"{final.p:.3f}",
            corrected,
            f"{area.value:+.2f} [{area.low:+.2f}, {area.high:+.2f}]",
            f"{better.value:.2f} [{better.low:.2f}, {better.high:.2f}]",
            verdict(table, pair, p, words),
        )
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
