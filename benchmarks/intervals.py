"""Coverage of the report's intervals and of the alternatives, on simulated studies.

    python -m benchmarks.intervals --studies 400 --seeds 3 5 10 --games 2 5 26 55
    python -m benchmarks.intervals --alternatives --studies 200

A study is two agents on the same games. The mean score of a game is lognormal (sigma 0.8), so that
games differ by factors; the standard deviation of its runs is about 0.3 of it. Around the mean,
runs are normal, lognormal (sigma 0.5, skewness 1.75), exponential (skewness 2) or, on request,
bimodal (three runs in ten fail). Every study has its own games. Both agents have the same
distributions, so that an interval of a difference (or of a probability of improvement) that
excludes 0 (or 1/2) is a false declaration. Options: `--effect 0.3`, the first agent's scores are
30% higher, in means and standard deviations; `--other-seeds 10`, the second agent has another
number of runs; `--wider 3`, the first agent's standard deviations are three times as large;
`--own-scale`, scores are divided by the second agent's mean in each game, as MinAtar's by DQN's,
while true values are divided by the true mean.

The true value of a statistic is that of infinitely many runs of the same games: a grid of 400
quantiles of each game. Prints the share of studies whose 95% interval covers it: every row for the
report's intervals, lowest and highest of all rows for the alternatives.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from benchmarks.command_line import count, parser
from proxrl.report import intervals, permutation, statistics
from proxrl.report.intervals import LEVEL
from proxrl.report.statistics import Resampled, resample, whole
from proxrl.types import Array

LEVELS, NOISE, QUANTILES = 0.8, 0.3, 400
EIGHTH = 8  # of the quantiles are enough for pairs of them
TOGETHER = 20  # studies that share the draws of a resample
LOW, HIGH = 0.93, 0.97  # where a coverage of 95% should be


def _bimodal() -> Any:
    generator = np.random.default_rng(0)
    drawn = np.where(generator.random(200_000) < 0.7, 1.0, -7.0 / 3.0)
    return stats.rv_histogram(np.histogram(drawn + 0.2 * generator.normal(size=200_000), 400))()


SCORES = {  # standardised before use
    "normal": stats.norm(),
    "lognormal": stats.lognorm(0.5),
    "exponential": stats.expon(),
    "bimodal": _bimodal(),
}
AGGREGATES: dict[str, Callable[[Resampled], Array]] = {
    "IQM": statistics.interquartile_mean,
    "median": statistics.median,
    "mean": statistics.mean,
    "gap": statistics.optimality_gap,
}
COMPARED = ("IQM", "median", "mean")
STATISTICS = (*AGGREGATES, *(f"Δ {name}" for name in COMPARED), "P(X > Y)")
METHODS = (
    "the report's",
    "Student's t, no test",
    "percentile bootstrap",
    "BCa",
    "bootstrap-t",
    "permutation test alone",
    "permutation test, not studentised",
)


@dataclass(frozen=True)
class Design:
    """What is simulated in a row."""

    scores: str
    seeds: int
    games: int
    studies: int
    resamples: int = 400
    permutations: int = 199
    effect: float = 0.0
    other_seeds: int = 0  # 0: the same
    wider: float = 1.0
    alternatives: bool = True  # besides the percentile bootstrap
    own_scale: bool = False

    @property
    def equal(self) -> bool:
        """Whether both agents have the same true values."""
        return self.effect == 0.0 and self.wider == 1.0


Found = dict[str, dict[str, Array]]  # statistic -> method -> whether each study is covered


def coverage(design: Design, seed: int = 0) -> dict[str, dict[str, float]]:
    """Coverage by statistic and method."""
    kind = list(SCORES).index(design.scores)
    generator = np.random.default_rng([seed, design.seeds, design.games, kind])
    parts = [
        _some(design, min(TOGETHER, design.studies - start), generator)
        for start in range(0, design.studies, TOGETHER)
    ]
    return {
        name: {
            method: float(np.concatenate([part[name][method] for part in parts]).mean())
            for method in parts[0][name]
        }
        for name in STATISTICS
    }


@dataclass(eq=False)
class _Studies:
    """One statistic of some studies."""

    truth: Array  # [studies]
    value: Array  # [studies]
    many: Array  # [resamples, studies]


def _some(design: Design, number: int, generator: np.random.Generator) -> Found:
    sizes = (design.seeds, design.other_seeds or design.seeds)
    drawn = [resample(np.zeros((n, design.games)), design.resamples, generator) for n in sizes]
    runs, truth = _draw(design, number, sizes, generator)
    found: dict[str, _Studies] = {}
    for name, function in AGGREGATES.items():
        values = [np.array([function(whole(one))[0] for one in agent]) for agent in runs]
        agents = runs if name in COMPARED else runs[:1]
        many = [
            np.stack([function(Resampled(one, part.counts)) for one in agent], axis=1)
            for agent, part in zip(agents, drawn, strict=False)
        ]
        true = truth[name]
        found[name] = _Studies(true[0], values[0], many[0])
        if name in COMPARED:
            found[f"Δ {name}"] = _Studies(
                true[0] - true[1], values[0] - values[1], many[0] - many[1]
            )
    pairs = list(zip(*runs, strict=True))
    found["P(X > Y)"] = _Studies(
        truth["P(X > Y)"][0],
        np.array([statistics.improvement(whole(a), whole(b))[0] for a, b in pairs]),
        np.stack(
            [
                statistics.improvement(Resampled(a, drawn[0].counts), Resampled(b, drawn[1].counts))
                for a, b in pairs
            ],
            axis=1,
        ),
    )
    covered: Found = {
        name: _intervals(design, name, one, drawn, runs) for name, one in found.items()
    }
    _add_tests(design, found, covered, drawn, pairs, generator)
    for name in ("IQM", "mean") if design.alternatives else ():
        errors = [_studentised(name, agent, part) for agent, part in zip(runs, drawn, strict=True)]
        one, both = found[name], found[f"Δ {name}"]
        (error, many), (other, others) = errors
        covered[name]["bootstrap-t"] = _bootstrap_t(one, error, many)
        covered[f"Δ {name}"]["bootstrap-t"] = _bootstrap_t(
            both, np.hypot(error, other), np.hypot(many, others)
        )
    return covered


def _draw(
    design: Design, number: int, sizes: tuple[int, int], generator: np.random.Generator
) -> tuple[list[Array], dict[str, Array]]:
    """Scores of both agents, [studies, runs, games] each, and true values, [2, studies]."""
    noise = SCORES[design.scores]
    centre, deviation = noise.mean(), noise.std()
    grid = (noise.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES) - centre) / deviation
    grid -= grid.mean()  # the tails beyond the last quantile
    level = generator.lognormal(0.0, LEVELS, (number, 1, design.games))
    width = NOISE * level * generator.lognormal(0.0, 0.3, (number, 1, design.games))
    factors, widths = (1.0 + design.effect, 1.0), (design.wider * width, width)
    runs, every = [], []
    for size, factor, wide in zip(sizes, factors, widths, strict=True):
        drawn = noise.rvs(size=(number, size, design.games), random_state=generator)
        runs.append(factor * (level + wide * (drawn - centre) / deviation))
        every.append(factor * (level + wide * grid[:, None]))
    if design.own_scale:
        runs = [agent / runs[1].mean(axis=1, keepdims=True) for agent in runs]
        every = [agent / level for agent in every]
    truth = {
        name: np.array([[function(whole(one))[0] for one in agent] for agent in every])
        for name, function in AGGREGATES.items()
    }
    half = np.full((1, number), 0.5)
    if not design.equal:
        few = [agent[:, EIGHTH // 2 :: EIGHTH] for agent in every]
        pairs = zip(*few, strict=True)
        half[0] = [statistics.improvement(whole(a), whole(b))[0] for a, b in pairs]
    return runs, {**truth, "P(X > Y)": half}


def _intervals(
    design: Design, name: str, one: _Studies, drawn: list[Resampled], runs: list[Array]
) -> dict[str, Array]:
    """The report's intervals without a test, percentiles and BCa."""
    samples = drawn[:1] if name in AGGREGATES else drawn
    tails = name in AGGREGATES and name != "IQM"
    hidden = statistics.hidden_variance(runs[0]) if name == "gap" else 0.0
    plain = intervals.interval(one.value, one.many, *samples, tails=tails, hidden=hidden)
    found = {
        "Student's t, no test": _covers(one, plain),
        "percentile bootstrap": _covers(one, intervals.percentiles(one.many)),
    }
    if design.alternatives:
        skewness = intervals.spread(one.many, *samples).skewness
        found["BCa"] = _covers(one, _bca(one, skewness / 6.0))
    return {"the report's": found["Student's t, no test"], **found}


def _covers(one: _Studies, ends: tuple[Array, Array]) -> Array:
    return np.asarray((ends[0] <= one.truth) & (one.truth <= ends[1]))


def _bca(one: _Studies, acceleration: Array) -> tuple[Array, Array]:
    """Bias-corrected and accelerated percentiles (Efron 1987)."""
    ordered = np.sort(one.many, axis=0)
    number = len(ordered)
    below = (ordered < one.value).mean(axis=0) + (ordered == one.value).mean(axis=0) / 2
    bias = ndtri(np.clip(below, 0.5 / number, 1 - 0.5 / number))
    ends = []
    for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        moved = bias + ndtri(tail)
        share = ndtr(bias + moved / (1 - acceleration * moved))
        at = np.clip((share * number).astype(int), 0, number - 1)
        ends.append(np.take_along_axis(ordered, at[None], axis=0)[0])
    return ends[0], ends[1]


def _studentised(name: str, runs: Array, drawn: Resampled) -> tuple[Array, Array]:
    """Standard errors of an IQM or a mean by formula: of each study, and of its resamples."""
    once = np.ones((1, *runs.shape[1:]), bool)
    function = permutation.iqm if name == "IQM" else _mean
    error = np.array([np.sqrt(function(one, once)[1][0]) for one in runs])
    many = np.stack([np.sqrt(function(one, drawn.counts)[1]) for one in runs], axis=1)
    return error, many


def _mean(pool: Array, counts: Array) -> tuple[Array, Array]:
    runs = counts.sum(axis=1)
    centre = (pool * counts).sum(axis=1) / runs
    squares = ((pool - centre[:, None]) ** 2 * counts).sum(axis=1)
    return centre.mean(axis=1), (squares / (runs - 1) / runs).sum(axis=1) / runs.shape[1] ** 2


def _bootstrap_t(one: _Studies, error: Array, many: Array) -> Array:
    """Percentiles of (T* - T) / error*, times the error; infinite where a resample has none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num((one.many - one.value) / many, nan=0.0, posinf=1e9, neginf=-1e9)
    low, high = intervals.percentiles(ratio)
    return _covers(one, (one.value - high * error, one.value - low * error))


def _add_tests(
    design: Design,
    found: dict[str, _Studies],
    covered: Found,
    drawn: list[Resampled],
    pairs: list[tuple[Array, Array]],
    generator: np.random.Generator,
) -> None:
    """The intervals that agree with a permutation test, and how often the test alone is wrong."""
    tests = {
        "Δ IQM": permutation.iqm_difference,
        "Δ median": permutation.median_difference,
        "Δ mean": permutation.mean_difference,
        "P(X > Y)": permutation.improvement,
    }
    plain = design.alternatives and design.equal
    extra = [_plain_difference] if plain else []
    values = np.array(
        [
            permutation.p_values(a, b, (*tests.values(), *extra), generator, design.permutations)
            for a, b in pairs
        ]
    )
    for name, p in zip(tests, values.T, strict=False):
        one = found[name]
        function = intervals.difference_interval
        if name == "P(X > Y)":
            function = intervals.improvement_interval
        ends = function(one.value, one.many, *drawn, p)
        covered[name]["the report's"] = _covers(one, ends)
        if design.equal:
            covered[name]["permutation test alone"] = p > 1 - LEVEL
    if plain:
        covered["Δ IQM"]["permutation test, not studentised"] = values[:, -1] > 1 - LEVEL


def _plain_difference(pool: Array, members: Array) -> tuple[Array, Array]:
    difference, variance = permutation.iqm_difference(pool, members)
    return difference, np.ones_like(variance)


def main(options: argparse.Namespace) -> None:
    error = np.sqrt(LEVEL * (1 - LEVEL) / options.studies)
    print(
        f"{options.studies} studies per row: standard error {error:.3f} if the coverage is 0.95\n"
    )
    head = ("scores", "seeds", "games", *STATISTICS)
    print("| " + " | ".join(head) + " |\n|---" + "|--:" * (len(head) - 1) + "|", flush=True)
    rows = []
    for scores in options.scores:
        for seeds in options.seeds:
            for games in options.games:
                design = Design(
                    *(scores, seeds, games, options.studies, options.resamples),
                    *(options.permutations, options.effect, options.other_seeds, options.wider),
                    *(options.alternatives, options.own_scale),
                )
                rows.append(coverage(design))
                cells = (f"{one['the report' + chr(39) + 's']:.3f}" for one in rows[-1].values())
                label = f"{seeds} and {design.other_seeds}" if design.other_seeds else f"{seeds}"
                print("| " + " | ".join((scores, label, f"{games}", *cells)) + " |", flush=True)
    print(
        f"\nlowest to highest of all rows (how many of {len(rows)} are in {LOW} to {HIGH}):\n\n"
        "| interval | " + " | ".join(STATISTICS) + " |"
    )
    print("|---" * (1 + len(STATISTICS)) + "|")
    for method in METHODS:
        if any(method in one for one in rows[0].values()):
            cells = (_range([row[name].get(method) for row in rows]) for name in STATISTICS)
            print(f"| {method} | " + " | ".join(cells) + " |")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument(
        "--studies", type=count, default=400, help="simulated studies in each row"
    )
    accepted.add_argument("--resamples", type=count, default=400)
    accepted.add_argument("--permutations", type=count, default=199)
    accepted.add_argument("--effect", type=float, default=0.0, help="0.3: the first is 30%% better")
    accepted.add_argument("--other-seeds", type=int, default=0, help="of the second agent")
    accepted.add_argument("--wider", type=float, default=1.0, help="the first's deviations")
    accepted.add_argument("--own-scale", action="store_true", help="divide by the second's mean")
    accepted.add_argument("--alternatives", action="store_true", help="BCa and others, too")
    accepted.add_argument("--scores", nargs="+", choices=list(SCORES), default=list(SCORES)[:3])
    accepted.add_argument("--seeds", nargs="+", type=count, default=[3, 5, 10])
    accepted.add_argument("--games", nargs="+", type=count, default=[2, 5, 26, 55])
    return accepted.parse_args(argv)


def _range(found: Sequence[float | None]) -> str:
    values = [value for value in found if value is not None]
    if not values:
        return ""
    inside = sum(LOW <= round(value, 3) <= HIGH for value in values)
    return f"{min(values):.3f}–{max(values):.3f} ({inside})"


if __name__ == "__main__":
    main(arguments())
