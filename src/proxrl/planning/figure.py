"""Figure 1: the error of PMPI's policy against beta, one panel per n, one curve per noise level.

    ||V* - V^{pi_K}||_inf  after K = 100 iterations, 30 seeds, n = 1 and n = 3      (Section 5.1)

The paper does not give the discount, the distribution of the noise, its magnitudes or the grid of
betas. Here: 0.99, Gaussian, standard deviations 0, 0.01, 0.03, 0.1, 0.3 and 1 (the goal of
FrozenLake is worth 1), and 41 betas from 0 to 1. All are arguments.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from proxrl.errors import UserError
from proxrl.figures import drawing
from proxrl.planning.mdp import MDP
from proxrl.planning.operators import check_steps
from proxrl.planning.pmpi import BetaRule, Noise, check_beta, iterate, policy_error
from proxrl.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BETAS: tuple[float, ...] = tuple(step / 40 for step in range(41))
LEVELS: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
BATCH_BYTES = 2**22  # seeds are batched while their action values fit in the cache
COLUMNS = (
    *("mdp", "discount", "iterations", "noise_kind", "greedy_error", "seeds"),
    *("n", "noise", "beta", "mean_error", "standard_error"),
)
TIE = 1e-9  # errors closer than this are equal; the smaller beta is then best
DENSE_STATES = 200  # below this, dense solves are faster than sparse ones

NoiseKind = Literal["gaussian", "uniform"]


@dataclass(frozen=True, eq=False)
class Figure1:
    """The data of the figure with its protocol."""

    mdp: str
    discount: float
    iterations: int
    noise_kind: NoiseKind
    greedy_error: float
    n: tuple[float, ...]
    levels: Array  # [levels], standard deviations
    betas: Array  # [betas], increasing
    errors: Array  # [n, levels, betas, seeds]

    @property
    def seeds(self) -> int:
        return int(self.errors.shape[-1])

    @cached_property
    def mean(self) -> Array:
        """[n, levels, betas]."""
        return np.asarray(self.errors.mean(axis=-1))

    @cached_property
    def standard_error(self) -> Array:
        """Of the mean over seeds, [n, levels, betas]; NaN for a single seed."""
        return standard_error(self.errors)

    @cached_property
    def best(self) -> Array:
        """Index of the best beta, [n, levels]; the smallest on ties."""
        least = self.mean.min(axis=-1, keepdims=True)
        return np.asarray((self.mean <= least + TIE).argmax(axis=-1))

    @cached_property
    def is_u_shaped(self) -> Array:
        """[n, levels]: some beta inside the grid beats both of its ends by more than two standard
        errors of the difference (each seed has the same noise at every beta)."""
        at_best = np.take_along_axis(self.errors, self.best[..., None, None], axis=2)
        gains = self.errors[:, :, [0, -1]] - at_best  # [n, levels, 2, seeds]
        uncertainty = np.nan_to_num(standard_error(gains))
        return np.asarray((gains.mean(axis=-1) > np.maximum(2.0 * uncertainty, TIE)).all(axis=-1))

    @cached_property
    def standstill(self) -> Array:
        """Claim C47, [n, levels]: 1 where beta = 1 beats every other beta of the grid by more than
        two standard errors of the paired difference, -1 where another beta beats it by as much, 0
        where neither is the case; -1 as well if the grid lacks beta = 1."""
        if self.betas[-1] != 1.0:
            return np.full(self.mean.shape[:2], -1)
        gains = self.errors[:, :, :-1] - self.errors[:, :, -1:]  # [n, levels, betas - 1, seeds]
        margin = np.maximum(2.0 * np.nan_to_num(standard_error(gains)), TIE)
        ahead = (gains.mean(axis=-1) > margin).all(axis=-1)
        behind = (gains.mean(axis=-1) < -margin).any(axis=-1)
        return np.asarray(ahead.astype(int) - behind)


def figure1(
    mdp: MDP,
    n: Sequence[float] = (1, 3),
    betas: Sequence[float] = BETAS,
    levels: Sequence[float] = LEVELS,
    seeds: int = 30,
    iterations: int = 100,
    noise_kind: NoiseKind = "gaussian",
    greedy_error: float = 0.0,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Figure1:
    """Run the experiment with seeds `seed`, `seed` + 1, ...; calls `progress(done, total)`."""
    if seeds < 1:
        raise UserError(f"seeds must be at least 1, got {seeds}")
    if not (len(n) and len(betas) and len(levels)):
        raise UserError("Figure 1 needs at least one n, one beta and one noise level")
    if seed < 0:
        raise UserError(f"seed must be non-negative, got {seed}")
    steps = tuple(check_steps(one) for one in n)
    grid, scales = np.unique(check_beta(betas)), np.unique(np.asarray(levels, dtype=np.float64))

    errors = policy_errors(
        mdp,
        steps,
        Noise(scales, noise_kind),
        range(seed, seed + seeds),
        iterations,
        greedy_error,
        beta=grid,
        progress=progress,
    )
    return Figure1(
        mdp.name, mdp.discount, iterations, noise_kind, greedy_error, steps, scales, grid, errors
    )


def policy_errors(
    mdp: MDP,
    n: Sequence[float],
    noise: Noise,
    seeds: range,
    iterations: int,
    greedy_error: float = 0.0,
    *,
    beta: Array | None = None,
    rule: Callable[[], BetaRule] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Array:
    """||V* - V^{pi_K}||_inf, [n, *levels, *betas, seeds]; seeds are batched to fit the cache."""
    as_sparse = mdp.to_sparse()
    few = mdp.nonzeros < 0.2 * mdp.actions * mdp.states**2
    planner = as_sparse if few else mdp
    evaluator = as_sparse if few and mdp.states > DENSE_STATES else mdp
    batch = (*np.shape(noise.scale), *(() if beta is None else beta.shape))
    seed_bytes = 8 * mdp.actions * mdp.states * math.prod(batch)
    together = min(len(seeds), max(1, BATCH_BYTES // seed_bytes))

    errors = np.empty((len(n), *batch, len(seeds)))
    done, total = 0, len(n) * math.ceil(len(seeds) / together) * iterations
    for panel, steps in enumerate(n):
        for start in range(0, len(seeds), together):
            some = seeds[start : start + together]
            outcome = iterate(
                planner,
                iterations=iterations,
                n=steps,
                beta=beta,
                rule=rule,
                noise=noise,
                greedy_error=greedy_error,
                seed=some,
                progress=partial(_advance, progress, done, total),
            )
            done += iterations
            here = slice(start, start + len(some))
            errors[panel, ..., here] = policy_error(evaluator, outcome.policy)
    return errors


def _advance(progress: Callable[[int, int], None], before: int, total: int, k: int) -> None:
    progress(before + k, total)


def write_csv(result: Figure1, path: Path) -> None:
    """One row per n, noise level and beta, each with its full protocol."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        protocol = (
            result.mdp,
            result.discount,
            result.iterations,
            result.noise_kind,
            result.greedy_error,
            result.seeds,
        )
        for panel, level, beta in np.ndindex(result.mean.shape):
            writer.writerow(
                (
                    *protocol,
                    f"{result.n[panel]:g}",
                    f"{result.levels[level]:g}",
                    f"{result.betas[beta]:g}",
                    f"{result.mean[panel, level, beta]:.10g}",
                    f"{result.standard_error[panel, level, beta]:.10g}",
                )
            )


@drawing()
def draw(result: Figure1) -> "Figure":
    """Panels side by side; bands are one standard error, dots mark the best beta."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = len(result.n)
    figure = Figure(figsize=(1.4 + 3.9 * panels, 4.2), layout="constrained", dpi=160)
    axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    # viridis without its palest part: ordered also for colour-blind readers.
    colours = colormaps["viridis"](np.linspace(0.0, 0.88, len(result.levels)))
    for panel, ax in enumerate(axes):
        _panel(ax, result, panel, colours)
    axes[0].set_ylabel(r"error  $\|V^\star - V^\pi\|_\infty$")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside right center",
        title="noise\n(std. dev.)",
        frameon=False,
        reverse=True,
    )
    noise = {"gaussian": "Gaussian", "uniform": "uniform"}[result.noise_kind]
    figure.suptitle(
        f"{result.mdp}: policy after {result.iterations} iterations of PMPI, {noise} noise, "
        rf"$\gamma$ = {result.discount:g}, {result.seeds} seed{'s' * (result.seeds > 1)}",
        fontsize=10.5,
    )
    return figure


def save(result: Figure1, folder: Path) -> list[Path]:
    """Write figure1.png, .svg and .csv to `folder`, deterministically."""
    written = save_figure(draw(result), folder, "figure1")
    table = folder / "figure1.csv"
    write_csv(result, table)
    return [*written, table]


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write NAME.png and NAME.svg to `folder`, without dates, for reproducible bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with drawing({"svg.hashsalt": "proxrl"}):
        figure.savefig(png, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]


def _panel(ax: "Axes", result: Figure1, panel: int, colours: Array) -> None:
    for level, colour in enumerate(colours):
        mean, uncertainty = result.mean[panel, level], result.standard_error[panel, level]
        best = result.best[panel, level]
        label = f"{result.levels[level]:g}"
        ax.plot(result.betas, mean, color=colour, linewidth=1.8, label=label, zorder=2)
        ax.fill_between(
            result.betas,
            mean - uncertainty,
            mean + uncertainty,
            color=colour,
            alpha=0.22,
            linewidth=0,
        )
        ax.plot(
            *(result.betas[best], mean[best]),
            marker="o",
            markersize=7,
            color=colour,
            markeredgecolor="white",
            markeredgewidth=1.4,
            clip_on=False,
            zorder=3,
        )
    steps = r"\infty" if result.n[panel] == math.inf else f"{result.n[panel]:g}"
    ax.set_title(f"$n = {steps}$", fontsize=11)
    ax.set_xlabel(r"$\beta = 1/(1+c)$      (dot: best $\beta$)")
    ax.margins(x=0.02)
    ax.set_ylim(bottom=0.0)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def standard_error(samples: Array) -> Array:
    """Over the last axis; NaN for a single sample."""
    count = samples.shape[-1]
    if count == 1:
        return np.full(samples.shape[:-1], np.nan)
    return np.asarray(samples.std(axis=-1, ddof=1) / math.sqrt(count))
