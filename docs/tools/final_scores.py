"""Prints tables of docs/evidence.md and docs/results.md: final scores, and their scaled means.

    proxrl report results/rules-tune --out report-rules
    python docs/tools/final_scores.py report-rules              # of every run
    python docs/tools/final_scores.py report-rules --by-game    # means over the runs of a game
    python docs/tools/final_scores.py report-rules --by-game --area

The last column is the mean over games of the scaled scores and its standard error over runs, on
which the criterion of docs/criteria.md, C, is based. Games without a scale are left out.
"""

import argparse
import csv
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reports import parser, print_table


class Run(NamedTuple):
    """A line of scores.csv."""

    series: str
    game: str
    seed: int
    score: float
    scaled: float


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__doc__)
    accepted.add_argument(
        "--by-game", action="store_true", help="means over the runs of a game ± standard errors"
    )
    accepted.add_argument(
        "--area", action="store_true", help="means of the whole curve in place of final scores"
    )
    return accepted.parse_args(argv)


def read(report: Path, area: bool) -> list[Run]:
    """The finished runs, of games with a scale, in the order of the report."""
    path = report / "scores.csv"
    if not path.is_file():
        raise SystemExit(
            f"{report} has no scores.csv: it is not a folder written by `proxrl report`"
        )
    with open(path, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["final_scaled"]]
    runs = []
    for row in rows:
        score = float(row["area_score" if area else "final_score"])
        low, high = float(row["scale_low"]), float(row["scale_high"])
        scaled = (score - low) / (high - low)
        runs.append(Run(row["series"], row["game"], int(row["seed"]), score, scaled))
    return runs


def mean_and_error(scores: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; NaN for one run."""
    mean = statistics.fmean(scores)
    if len(scores) < 2:
        return mean, math.nan
    return mean, statistics.stdev(scores) / math.sqrt(len(scores))


def cell(mean: float, error: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(error) else f" ± {error:.{digits}f}")


def by_game(runs: Sequence[Run]) -> dict[str, list[Run]]:
    games = defaultdict(list)
    for run in runs:
        games[run.game].append(run)
    return games


def scaled_mean(runs: Sequence[Run]) -> str:
    """The mean over games of their means ± its standard error."""
    games = [mean_and_error([run.scaled for run in found]) for found in by_game(runs).values()]
    error = math.sqrt(math.fsum(own**2 for _, own in games)) / len(games)
    return cell(statistics.fmean(mean for mean, _ in games), error, digits=2)


def in_order(series: Sequence[str]) -> list[str]:
    """Variants of an agent by the numbers in their names: period 500 before period 1,000."""
    agents = list(dict.fromkeys(name.partition(" (")[0] for name in series))

    def place(name: str) -> tuple[int, list[float]]:
        agent, _, differs = name.partition(" (")
        numbers = re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|\binf\b", differs.replace(",", ""))
        return agents.index(agent), [float(number) for number in numbers]

    return sorted(dict.fromkeys(series), key=place)


def main(report: Path, of_games: bool, area: bool) -> None:
    runs = read(report, area)
    if of_games:
        columns = sorted({run.game for run in runs})
    else:
        columns = [f"{game}, {seed}" for game, seed in sorted({run[1:3] for run in runs})]
    titles = ["whole curve" if area else "final score", *columns, "scaled mean ± standard error"]
    rows = []
    for series in in_order([run.series for run in runs]):
        own = [run for run in runs if run.series == series]
        if of_games:
            scores = {
                game: cell(*mean_and_error([run.score for run in found]), digits=1)
                for game, found in by_game(own).items()
            }
        else:
            scores = {f"{run.game}, {run.seed}": f"{run.score:.1f}" for run in own}
        rows.append([series, *(scores.get(column, "–") for column in columns), scaled_mean(own)])
    print_table(titles, rows)


if __name__ == "__main__":
    options = arguments()
    main(options.report, options.by_game, options.area)
