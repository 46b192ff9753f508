"""Coverage of the report's intervals: simulated studies whose true values are known.

    python -m benchmarks.intervals [--studies 400] [--seeds 3 5 10] [--games 2 5 26 55] [--effect 0]

A study is two agents on the same games. The mean score of a game is lognormal (sigma 0.8), so that
games differ by factors; the standard deviation of its runs is about 0.3 of it. Around the mean,
runs are normal, lognormal (sigma 0.5, skewness 1.75) or exponential (skewness 2). Every study has
its own games. Both agents have the same distributions, so that an interval of a difference (or of a
probability of improvement) that excludes 0 (or 1/2) is a false positive; with `--effect 0.3`, the
first agent's scores are 30% higher, in means and standard deviations.

The true value of a statistic is that of infinitely many runs of the same games: a grid of 400
quantiles of each game. Prints the share of studies whose 95% interval covers it, for the report's
intervals and for the percentile bootstrap, which the report used before.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from proxrl.report import statistics
from proxrl.report.statistics import Resampled, resample, whole
from proxrl.types import Array

LEVELS, NOISE, QUANTILES = 0.8, 0.3, 400
EIGHTH = 8  # of the quantiles are enough for pairs of them
TOGETHER = 20  # studies that share the draws of a resample
SCORES = {  # distributions of mean 0 and standard deviation 1, before they are standardised
    "normal": stats.norm(),
    "lognormal": stats.lognorm(0.5),
    "exponential": stats.expon(),
}
AGGREGATES: dict[str, Callable[[Resampled], Array]] = {
    "IQM": statistics.interquartile_mean,
    "median": statistics.median,
    "mean": statistics.mean,
    "gap": statistics.optimality_gap,
}
COMPARED = ("IQM", "median", "mean")
STATISTICS = (*AGGREGATES, *(f"Δ {name}" for name in COMPARED), "P(X > Y)")


def coverage(
    scores: str,
    seeds: int,
    games: int,
    studies: int,
    resamples: int = 500,
    effect: float = 0.0,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Coverage by statistic: of the report's intervals and of the percentile bootstrap's."""
    generator = np.random.default_rng([seed, seeds, games, list(SCORES).index(scores)])
    held: dict[str, list[Array]] = {name: [] for name in STATISTICS}
    for start in range(0, studies, TOGETHER):
        number = min(TOGETHER, studies - start)
        some = _some(scores, seeds, games, number, resamples, effect, generator)
        for name, found in some.items():
            held[name].append(found)
    return {
        name: tuple(np.concatenate(found, axis=1).mean(axis=1).tolist())  # type: ignore[misc]
        for name, found in held.items()
    }


def _some(
    scores: str,
    seeds: int,
    games: int,
    number: int,
    resamples: int,
    effect: float,
    generator: np.random.Generator,
) -> dict[str, Array]:
    """For each statistic, [2 methods, studies]: whether the interval covers the true value."""
    noise = SCORES[scores]
    centre, deviation = noise.mean(), noise.std()
    grid = (noise.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES) - centre) / deviation
    grid -= grid.mean()  # the tails beyond the last quantile
    drawn = [resample(np.zeros((seeds, games)), resamples, generator) for _ in range(2)]
    truth, value, many = ({name: [] for name in STATISTICS} for _ in range(3))
    for _ in range(number):
        level = generator.lognormal(0.0, LEVELS, games)
        width = NOISE * level * generator.lognormal(0.0, 0.3, games)
        factors = (1.0 + effect, 1.0)
        drawn_noise = [noise.rvs((seeds, games), random_state=generator) for _ in factors]
        runs = [
            factor * (level + width * (one - centre) / deviation)
            for factor, one in zip(factors, drawn_noise, strict=True)
        ]
        every = [whole(factor * (level + width * grid[:, None])) for factor in factors]
        once = [whole(one) for one in runs]
        both = [Resampled(one, part.counts) for one, part in zip(runs, drawn, strict=True)]
        for name, function in AGGREGATES.items():
            truth[name].append(function(every[0])[0])
            value[name].append(function(once[0])[0])
            many[name].append(function(both[0]))
            if name in COMPARED:
                truth[f"Δ {name}"].append(truth[name][-1] - function(every[1])[0])
                value[f"Δ {name}"].append(value[name][-1] - function(once[1])[0])
                many[f"Δ {name}"].append(many[name][-1] - function(both[1]))
        pairs = (whole(one.scores[EIGHTH // 2 :: EIGHTH]) for one in every)
        truth["P(X > Y)"].append(statistics.improvement(*pairs)[0] if effect else 0.5)
        value["P(X > Y)"].append(statistics.improvement(*once)[0])
        many["P(X > Y)"].append(statistics.improvement(*both))
    held = {}
    for name in STATISTICS:
        true, resampled = np.array(truth[name]), np.stack(many[name], axis=1)
        samples = drawn[:1] if name in AGGREGATES else drawn
        if name == "P(X > Y)":
            ours = statistics.improvement_interval(np.array(value[name]), resampled, *drawn)
        else:
            tails = name in AGGREGATES and name != "IQM"
            ours = statistics.interval(np.array(value[name]), resampled, *samples, tails=tails)
        pairs = (ours, statistics.percentiles(resampled))
        held[name] = np.stack([(low <= true) & (true <= high) for low, high in pairs])
    return held


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--studies", type=int, default=400, help="simulated studies in each row")
    parser.add_argument("--resamples", type=int, default=500)
    parser.add_argument("--effect", type=float, default=0.0, help="0.3: the first is 30%% better")
    parser.add_argument("--scores", nargs="+", choices=list(SCORES), default=list(SCORES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 5, 10])
    parser.add_argument("--games", nargs="+", type=int, default=[2, 5, 26, 55])
    options = parser.parse_args(arguments)
    error = np.sqrt(0.95 * 0.05 / options.studies)
    print(
        f"{options.studies} studies per row: standard error {error:.3f} if the coverage is 0.95\n"
    )
    head = ("scores", "seeds", "games", *STATISTICS)
    print("| " + " | ".join(head) + " |\n|---" + "|--:" * (len(head) - 1) + "|", flush=True)
    rows = []
    for scores in options.scores:
        for seeds in options.seeds:
            for games in options.games:
                sizes = (seeds, games, options.studies, options.resamples)
                rows.append(coverage(scores, *sizes, options.effect))
                cells = (f"{ours:.3f}" for ours, _ in rows[-1].values())
                print(
                    "| " + " | ".join((scores, f"{seeds}", f"{games}", *cells)) + " |", flush=True
                )
    print("\nlowest and highest of all rows:\n\n| interval | " + " | ".join(STATISTICS) + " |")
    print("|---" * (1 + len(STATISTICS)) + "|")
    for at, method in enumerate(("the report's", "percentile bootstrap")):
        found = [[row[name][at] for row in rows] for name in STATISTICS]
        ranges = (f"{min(one):.3f}–{max(one):.3f}" for one in found)
        print(f"| {method} | " + " | ".join(ranges) + " |")


if __name__ == "__main__":
    main()
