"""Adaptive beta compared with beta = 0 and with the best fixed beta, by noise magnitude.

    ||V* - V^{pi_K}||_inf / (max v* - min v*)  after K = 100 iterations

A magnitude is a standard deviation in units of the span of v*, so that problems can be compared.
*The oracle* is the beta with the smallest mean error among `BETAS`, chosen for each problem, n and
magnitude in hindsight, on the reported runs themselves. Unlike the adaptive rule it knows the
result. All methods use the same noise for the same seed, so differences are paired.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxrl.errors import UserError
from proxrl.figures import drawing
from proxrl.planning.adaptive import AdaptiveBeta
from proxrl.planning.figure import NoiseKind, policy_errors, save_figure, standard_error
from proxrl.planning.mdp import MDP, from_gymnasium, garnet
from proxrl.planning.operators import check_steps, optimal
from proxrl.planning.pmpi import BetaRule, Noise
from proxrl.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAINS = (1, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.075, 0.05, 0.035, 0.025, 0.015)
BETAS = tuple(1.0 - gain for gain in (*GAINS, 0.01, 0.0))  # finer where the noise is large
GARNET_SEEDS = 10  # noise seeds for each random MDP
ALLOWANCE = 1.1  # goal: at most this factor times the oracle's error
TIE = 1e-9  # errors closer than this are equal
METHODS = {  # colour-blind safe
    "beta_0": (r"$\beta = 0$", "#d55e00", "s"),
    "oracle": (r"best fixed $\beta$ (oracle)", "#7f7f7f", "o"),
    "adaptive": (r"adaptive $\beta_k$", "#0072b2", "D"),
}
NAMES = {"FrozenLake-v1": "FrozenLake 4x4", "FrozenLake8x8-v1": "FrozenLake 8x8", "Taxi-v4": "Taxi"}


@dataclass(frozen=True, eq=False)
class Problem:
    """One panel: an MDP, or several that are averaged."""

    name: str
    mdps: tuple[MDP, ...]
    seeds: range


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors on one problem, in units of the span of v*, with their protocol."""

    problem: Problem
    iterations: int
    noise_kind: NoiseKind
    n: tuple[float, ...]
    levels: Array  # [levels], standard deviations in units of the span
    fixed: Array  # [mdps, n, levels, betas, seeds]
    adapted: Array  # [mdps, n, levels, seeds]

    @cached_property
    def samples(self) -> dict[str, Array]:
        """Each method's errors, [n, levels, samples]: seeds of one MDP, or means of many MDPs."""
        means = _sampled(self.fixed).mean(axis=-1)  # [n, levels, betas]
        at = self.best_beta(means)[..., None, None]
        oracle = np.take_along_axis(_sampled(self.fixed), at, axis=2)[:, :, 0]
        return {
            "beta_0": _sampled(self.fixed)[:, :, 0],
            "oracle": oracle,
            "adaptive": _sampled(self.adapted),
        }

    def best_beta(self, means: Array | None = None) -> Array:
        """Index of the oracle's beta, [n, levels]; the smallest on ties."""
        means = _sampled(self.fixed).mean(axis=-1) if means is None else means
        return np.asarray((means <= means.min(axis=-1, keepdims=True) + TIE).argmax(axis=-1))

    @cached_property
    def oracle_of_each(self) -> Array:
        """[n, levels]: mean error of the best beta of each MDP by itself, for many MDPs a stronger
        oracle."""
        return np.asarray(self.fixed.mean(axis=-1).min(axis=-1).mean(axis=0))

    @cached_property
    def mean(self) -> dict[str, Array]:
        """[n, levels] for each method."""
        return {name: one.mean(axis=-1) for name, one in self.samples.items()}

    @cached_property
    def standard_error(self) -> dict[str, Array]:
        """Standard errors of the means, [n, levels]; NaN for a single sample."""
        return {name: standard_error(one) for name, one in self.samples.items()}

    @cached_property
    def not_worse(self) -> Array:
        """[n, levels]: above beta = 0 by no more than two standard errors of the difference."""
        return ~_worse(self.samples["adaptive"], self.samples["beta_0"])

    @cached_property
    def near_oracle(self) -> Array:
        """[n, levels]: the mean error is at most `ALLOWANCE` times the oracle's."""
        return np.asarray(self.mean["adaptive"] <= ALLOWANCE * self.mean["oracle"] + TIE)

    @cached_property
    def worse_mdps(self) -> Array:
        """[n, levels]: number of MDPs in which adaptive is significantly worse than beta = 0."""
        return np.asarray(_worse(self.adapted, self.fixed[..., 0, :]).sum(axis=0))


def problems(seeds: int, seed: int, garnets: int, discount: float = 0.99) -> tuple[Problem, ...]:
    """FrozenLake 4x4 and 8x8, Taxi, and `garnets` random MDPs, numbered from `seed`."""
    tables = [(name, from_gymnasium(env, discount)) for env, name in NAMES.items()]
    chosen = [Problem(name, (mdp,), range(seed, seed + seeds)) for name, mdp in tables]
    if garnets:
        many = tuple(random_mdp(number) for number in range(seed, seed + garnets))
        few = range(seed, seed + min(seeds, GARNET_SEEDS))
        chosen.append(Problem(f"{garnets} random MDPs", many, few))
    return tuple(chosen)


def random_mdp(number: int) -> MDP:
    """Garnet: 10 to 50 states, 2 to 5 actions, 1 to 5 successors, discount 0.9, 0.95 or 0.99."""
    generator = np.random.default_rng([16, number])
    states, actions = int(generator.integers(10, 51)), int(generator.integers(2, 6))
    branching = int(generator.integers(1, 6))
    return garnet(states, actions, branching, float(generator.choice([0.9, 0.95, 0.99])), generator)


def compare(
    chosen: Sequence[Problem],
    n: Sequence[float] = (1, 3),
    levels: Sequence[float] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0),
    iterations: int = 100,
    noise_kind: NoiseKind = "gaussian",
    rule: Callable[[], BetaRule] = AdaptiveBeta,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Comparison]:
    """Run the comparison on each problem; calls `progress(percent, 100)`."""
    if not (len(n) and len(levels)):
        raise UserError("the comparison needs at least one n and one noise level")
    steps = tuple(check_steps(one) for one in n)
    scales = np.unique(np.asarray(levels, dtype=np.float64))
    work = [[mdp.nonzeros * len(problem.seeds) for mdp in problem.mdps] for problem in chosen]
    done, total = 0, sum(map(sum, work))
    results = []
    for problem, parts in zip(chosen, work, strict=True):
        fixed, adapted = [], []
        for mdp, part in zip(problem.mdps, parts, strict=True):
            span = _span(mdp)
            noise = Noise(scales * span, noise_kind)
            run = partial(policy_errors, mdp, steps, noise, problem.seeds, iterations)
            hear = partial(_advance, progress, done, part, total)
            fixed.append(run(beta=np.array(BETAS), progress=hear) / span)
            adapted.append(run(rule=rule) / span)
            done += part
        results.append(
            Comparison(
                problem, iterations, noise_kind, steps, scales, np.stack(fixed), np.stack(adapted)
            )
        )
    return results


def save(results: Sequence[Comparison], folder: Path) -> list[Path]:
    """Write adaptive.png, .svg and .csv to `folder`, deterministically."""
    written = save_figure(draw(results), folder, "adaptive")
    table = folder / "adaptive.csv"
    write_csv(results, table)
    return [*written, table]


def write_csv(results: Sequence[Comparison], path: Path) -> None:
    """One row per problem, n and magnitude, each with its full protocol."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        protocol = ("version", "problem", "mdps", "discount", "iterations", "noise_kind")
        seeds = ("first_seed", "seeds", "n", "noise_over_span")
        errors = [f"{name}_{what}" for name in METHODS for what in ("error", "standard_error")]
        verdicts = (
            *("oracle_beta", "not_worse_than_beta_0", "within_10_percent", "worse_mdps"),
            "error_with_the_best_beta_of_each_mdp",
        )
        writer.writerow((*protocol, *seeds, *errors, *verdicts))
        for result in results:
            for at in np.ndindex(result.near_oracle.shape):
                writer.writerow(_row(result, at))


@drawing()
def draw(results: Sequence[Comparison]) -> "Figure":
    """One column per problem, one row per n; bands are one standard error."""
    from matplotlib.figure import Figure

    rows, columns = len(results[0].n), len(results)
    figure = Figure(figsize=(0.8 + 2.7 * columns, 1.1 + 2.3 * rows), layout="constrained", dpi=160)
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
    for column, result in enumerate(results):
        for row in range(rows):
            _panel(grid[row, column], result, row)
        grid[0, column].set_title(result.problem.name, fontsize=11)
    for row, steps in enumerate(results[0].n):
        name = r"\infty" if steps == np.inf else f"{steps:g}"
        grid[row, 0].set_ylabel(f"$n = {name}$\nerror / span of $v^\\star$")
    figure.supxlabel(r"standard deviation of the noise / span of $v^\star$", fontsize=10)
    seeds = " or ".join(str(one) for one in sorted({len(one.problem.seeds) for one in results}))
    noise = {"gaussian": "Gaussian", "uniform": "uniform"}[results[0].noise_kind]
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(METHODS),
        frameon=False,
        title=f"Policy after {results[0].iterations} iterations of PMPI, {noise} noise, "
        f"{seeds} seeds for each MDP",
    )
    return figure


def _panel(ax: "Axes", result: Comparison, row: int) -> None:
    places = np.arange(len(result.levels))  # equally spaced: no common scale includes 0
    for name, (label, colour, marker) in METHODS.items():
        mean, uncertainty = result.mean[name][row], np.nan_to_num(result.standard_error[name][row])
        ax.plot(
            *(places, mean),
            color=colour,
            marker=marker,
            markersize=4.5,
            linewidth=1.6,
            label=label,
            clip_on=False,
            zorder=3,
        )
        ax.fill_between(
            places, mean - uncertainty, mean + uncertainty, color=colour, alpha=0.2, linewidth=0
        )
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.4)  # 0 and four orders of magnitude
    ax.set_ylim(bottom=0.0)
    ax.set_xticks(places, [f"{level:g}" for level in result.levels])
    ax.tick_params(labelsize=8.5)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _row(result: Comparison, at: tuple[int, ...]) -> tuple[object, ...]:
    from proxrl import __version__

    mdps = result.problem.mdps
    discounts = sorted({mdp.discount for mdp in mdps})
    seeds = result.problem.seeds
    errors = [
        f"{kind[name][at]:.10g}"
        for name in METHODS
        for kind in (result.mean, result.standard_error)
    ]
    return (
        *(__version__, result.problem.name, len(mdps), " ".join(f"{one:g}" for one in discounts)),
        *(result.iterations, result.noise_kind, seeds[0], len(seeds)),
        *(f"{result.n[at[0]]:g}", f"{result.levels[at[1]]:g}", *errors),
        f"{BETAS[result.best_beta()[at]]:g}",
        *(bool(result.not_worse[at]), bool(result.near_oracle[at]), int(result.worse_mdps[at])),
        f"{result.oracle_of_each[at]:.10g}",
    )


def _sampled(errors: Array) -> Array:
    """[mdps, ..., seeds] to [..., samples]: seeds of a single MDP, or means of several MDPs."""
    return errors[0] if len(errors) == 1 else np.moveaxis(errors.mean(axis=-1), 0, -1)


def _worse(errors: Array, others: Array) -> Array:
    """Whether the mean over the last axis is larger by more than two paired standard errors."""
    difference = errors - others
    uncertainty = np.nan_to_num(standard_error(difference))
    return np.asarray(difference.mean(axis=-1) > np.maximum(2.0 * uncertainty, TIE))


def _span(mdp: MDP) -> float:
    values = optimal(mdp).values
    span = float(values.max() - values.min())
    if span <= 0.0:
        raise UserError(f"{mdp.name}: v* is constant, so there is nothing to compare")
    return span


def _advance(
    progress: Callable[[int, int], None], before: int, part: int, whole: int, done: int, total: int
) -> None:
    progress(100 * (before * total + part * done) // (whole * total), 100)
