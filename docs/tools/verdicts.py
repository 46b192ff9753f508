"""Prints the verdicts of docs/evidence.md, B and the first part of D, from a report of the runs.

    proxrl report my-results/rules-laptop --out report-b
    python docs/tools/verdicts.py rules report-b
    proxrl report my-results/rainbow-kappa-session --out report-rainbow
    python docs/tools/verdicts.py rainbow-kappa report-rainbow

The criteria, which were written before the runs. B has one primary comparison and eight secondary
ones, D compares each of two Rainbow Pros with Rainbow. p-values are corrected by Holm's method: of
the comparisons on which the paper's claim is judged together, and of the further ones together. The
statistic is the difference of the interquartile means of final scores. Two other
measures, the area under the curve and the probability of improvement, must agree: a verdict is weak
if one of them has p > 0.05, and contradicted if one of them has p <= 0.05 in the other direction.
"""

import argparse
import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LEVEL = 0.05
GAMES = 5
FINAL, AREA, IMPROVEMENT = "final score, x - y", "whole curve, x - y", "P(x > y)"
MIDDLE = {FINAL: 0.0, AREA: 0.0, IMPROVEMENT: 0.5}  # where neither is ahead

Pair = tuple[str, str]


class Criterion(NamedTuple):
    """Pairs (x, y) of series: those on which a claim of the paper is judged, and further ones."""

    runs: int  # of every variant: a study is analysed when complete
    claims: tuple[Pair, ...]
    further: tuple[Pair, ...] = ()


CRITERIA = {
    "rules": Criterion(
        25,
        (("DQN Pro (κ 1)", "DQN"),),
        (
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
        15, (("Rainbow Pro (κ 2.5)", "Rainbow"), ("Rainbow Pro (κ 0.25)", "Rainbow"))
    ),
}


class Row(NamedTuple):
    """A line of comparisons.csv; NaN where it has no number."""

    value: float
    low: float
    high: float
    p: float
    games: int
    runs: int

    def turned(self, middle: float) -> "Row":
        """The same comparison of y with x."""
        value, high, low = (2.0 * middle - number for number in self[:3])
        return self._replace(value=value, low=low, high=high)


Table = dict[tuple[str, str, str], Row]


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", choices=CRITERIA)
    parser.add_argument("report", type=Path, help="a folder of `proxrl report`")
    return parser.parse_args(words)


def read(report: Path) -> Table:
    """Every comparison in both directions, by x, y and measure."""
    table: Table = {}
    path = report / "comparisons.csv"
    if not path.is_file():
        raise SystemExit(f"{report} has no comparisons.csv: it is no folder of `proxrl report`")
    with open(path, encoding="utf-8") as file:
        for line in csv.DictReader(file):
            numbers = (float(line[name] or math.nan) for name in Row._fields[:4])
            row = Row(*numbers, games=int(line["games"]), runs=int(line["runs"]))
            x, y, measure = line["x"], line["y"], line["measure"]
            table[x, y, measure] = row
            if measure in MIDDLE:
                table[y, x, measure] = row.turned(MIDDLE[measure])
    return table


def lacking(criterion: Criterion, table: Table) -> list[str]:
    """The comparisons of complete runs that the table does not have."""
    lacks = []
    for x, y in (*criterion.claims, *criterion.further):
        for measure in MIDDLE:
            row = table.get((x, y, measure))
            if row is None or (row.games, row.runs) != (GAMES, criterion.runs) or math.isnan(row.p):
                runs = "none" if row is None else f"{row.games} games, {row.runs} runs"
                lacks.append(f"{x} against {y} ({runs})")
                break
    return lacks


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values (Holm 1979): the k-th smallest of n times n - k + 1, never decreasing."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    ranked = sorted(range(len(p_values)), key=lambda number: p_values[number])
    for rank, number in enumerate(ranked):
        largest = max(largest, min(1.0, p_values[number] * (len(p_values) - rank)))
        adjusted[number] = largest
    return adjusted


def verdict(table: Table, pair: Pair, p: float, words: tuple[str, str]) -> str:
    """`words` are for a difference above and below 0."""
    if p > LEVEL:
        return "inconclusive"
    above = table[*pair, FINAL].value > 0.0
    found = words[0] if above else words[1]
    others = [(table[*pair, measure], MIDDLE[measure]) for measure in (AREA, IMPROVEMENT)]
    if any(row.p <= LEVEL and (row.value > middle) != above for row, middle in others):
        return f"{found}, contradicted"
    return found if all(row.p <= LEVEL for row, _ in others) else f"{found}, weak"


def main(criterion: Criterion, report: Path) -> None:
    table = read(report)
    if lacks := lacking(criterion, table):
        needed = f"{GAMES} games and {criterion.runs} finished runs of each variant"
        raise SystemExit(f"{report} needs {needed}; incomplete: {', '.join(lacks)}")
    titles = ("comparison", "final score", "p", "corrected p", "whole curve", "p", "P(x > y)", "p")
    print("|", " | ".join((*titles, "verdict")), "|")
    print("|---" * (len(titles) + 1) + "|")
    for pairs, words in (
        (criterion.claims, ("support", "against")),
        (criterion.further, ("higher", "lower")),
    ):
        corrected = holm([table[*pair, FINAL].p for pair in pairs])
        for pair, p in zip(pairs, corrected, strict=True):
            print("|", " | ".join(cells(table, pair, p, words)), "|")


def cells(table: Table, pair: Pair, p: float, words: tuple[str, str]) -> tuple[str, ...]:
    final, area, better = (table[*pair, measure] for measure in (FINAL, AREA, IMPROVEMENT))
    return (
        " against ".join(pair),
        f"{final.value:+.2f} [{final.low:+.2f}, {final.high:+.2f}]",
        f"{final.p:.3f}",
        f"{p:.3f}",
        f"{area.value:+.2f} [{area.low:+.2f}, {area.high:+.2f}]",
        f"{area.p:.3f}",
        f"{better.value:.2f} [{better.low:.2f}, {better.high:.2f}]",
        f"{better.p:.3f}",
        verdict(table, pair, p, words),
    )


if __name__ == "__main__":
    options = arguments()
    main(CRITERIA[options.study], options.report)
