"""What the programs that read a report share: its comparisons, Holm's correction, tables."""

import argparse
import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LEVEL = 0.05
FINAL, AREA, IMPROVEMENT = "final score, x - y", "whole curve, x - y", "P(x > y)"
NEUTRAL = {FINAL: 0.0, AREA: 0.0, IMPROVEMENT: 0.5}  # where neither is ahead

Pair = tuple[str, str]  # of series, x and y


class Row(NamedTuple):
    """A line of comparisons.csv; NaN where it has no number."""

    value: float
    low: float
    high: float
    p: float
    games: int
    runs: int

    def swapped(self, neutral: float) -> "Row":
        """The same comparison of y with x."""
        value, high, low = (2.0 * neutral - number for number in self[:3])
        return self._replace(value=value, low=low, high=high)

    @property
    def difference(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]".replace("-", "−")

    @property
    def interval(self) -> str:
        """Of a probability."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


Table = dict[tuple[str, str, str], Row]  # by x, y and measure


def parser(description: str | None, studies: Iterable[str] = ()) -> argparse.ArgumentParser:
    """Of a program that reads a report, of one of `studies` if there are any."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    if studies:
        made.add_argument("study", choices=list(studies))
    made.add_argument("report", type=Path, help="a folder written by `proxrl report`")
    return made


def read(report: Path) -> Table:
    """Every comparison of a report, in both directions."""
    table: Table = {}
    path = report / "comparisons.csv"
    if not path.is_file():
        raise SystemExit(
            f"{report} has no comparisons.csv: it is not a folder written by `proxrl report`"
        )
    with open(path, encoding="utf-8") as file:
        for line in csv.DictReader(file):
            numbers = (float(line[name] or math.nan) for name in Row._fields[:4])
            row = Row(*numbers, games=int(line["games"]), runs=int(line["runs"]))
            x, y, measure = line["x"], line["y"], line["measure"]
            table[x, y, measure] = row
            if measure in NEUTRAL:
                table[y, x, measure] = row.swapped(NEUTRAL[measure])
    return table


def read_complete(
    report: Path, pairs: Iterable[Pair], measures: Iterable[str], games: int, runs: int
) -> Table:
    """The comparisons of a report; exits if one of `pairs` is not of all runs."""
    table, measures = read(report), tuple(measures)
    incomplete = []
    for x, y in pairs:
        rows = [table.get((x, y, measure)) for measure in measures]
        if not all(
            row and (row.games, row.runs) == (games, runs) and not math.isnan(row.p) for row in rows
        ):
            has = f"{rows[0].games} games, {rows[0].runs} runs" if rows[0] else "none"
            incomplete.append(f"{x} against {y} ({has})")
    if incomplete:
        needed = f"{games} games and {runs} finished runs of each variant"
        raise SystemExit(f"{report} needs {needed}; incomplete: {', '.join(incomplete)}")
    return table


def corrected(found: Mapping[Pair, Row], pairs: Sequence[Pair]) -> Mapping[Pair, float]:
    """The p-values of these pairs, corrected together."""
    return dict(zip(pairs, holm([found[pair].p for pair in pairs]), strict=True))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (Holm 1979): the k-th smallest of n times n - k + 1, never decreasing."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    ranked = sorted(range(len(p_values)), key=lambda number: p_values[number])
    for rank, number in enumerate(ranked):
        largest = max(largest, min(1.0, p_values[number] * (len(p_values) - rank)))
        adjusted[number] = largest
    return adjusted


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """In Markdown."""
    print("|", " | ".join(titles), "|")
    print("|---" * len(titles) + "|")
    for row in rows:
        print("|", " | ".join(row), "|")
