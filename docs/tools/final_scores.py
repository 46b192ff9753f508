"""Prints the table of docs/results.md for a study: final scores by seed, and their scaled mean.

    proxrl report results/rules-tune --out report-rules
    python docs/tools/final_scores.py report-rules

The last column is the mean over games of the scaled final scores and its standard error over runs,
on which the criterion of docs/evidence.md, C, is based. Games without a scale are left out.
"""

import csv
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path


def main(report: Path) -> None:
    with open(report / "scores.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["final_scaled"]]
    runs = sorted({(row["game"], int(row["seed"])) for row in rows})
    raw: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    scaled: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        raw[row["series"]][row["game"], int(row["seed"])] = float(row["final_score"])
        scaled[row["series"]][row["game"]].append(float(row["final_scaled"]))
    print(
        "| final score |",
        " | ".join(f"{game}, {seed}" for game, seed in runs),
        "| scaled mean ± standard error |",
    )
    print("|---" * (len(runs) + 2) + "|")
    for series, scores in raw.items():
        cells = [f"{scores[run]:.1f}" if run in scores else "–" for run in runs]
        print(f"| {series} |", " | ".join(cells), f"| {_mean(scaled[series])} |")


def _mean(games: dict[str, list[float]]) -> str:
    """Mean over games of their means ± its standard error."""
    value = statistics.fmean(statistics.fmean(scores) for scores in games.values())
    if any(len(scores) < 2 for scores in games.values()):
        return f"{value:.2f}"
    squares = sum(statistics.variance(scores) / len(scores) for scores in games.values())
    return f"{value:.2f} ± {math.sqrt(squares) / len(games):.2f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
