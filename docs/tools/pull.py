"""Draws docs/figures/pull-light.svg and pull-dark.svg: the pull in one picture.

    python docs/tools/pull.py

Not a sketch but a simulation in two dimensions: from one sync to the next, w follows a steady
direction and noise, 40 updates with the same random numbers in both panels; on the right it is also
pulled towards θ, with κ = 1 (the paper's DQN Pro).
"""

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from proxrl.report.figures.drawing import STYLE, plain_svg

FIGURES = Path(__file__).parents[1] / "figures"
UPDATES, SYNCS, KAPPA = 40, 4, 1.0
DRIFT, NOISE = np.array([0.05, 0.025]), 0.11
SCHEMES: dict[str, dict[str, str]] = {
    "light": {"ink": "#1a202c", "muted": "#5a6475", "path": "#1f77b4", "target": "#c0392b"},
    "dark": {"ink": "#e6e9ef", "muted": "#a2abba", "path": "#6fb7f2", "target": "#ff8f80"},
}


def simulate(kappa: float) -> tuple[Any, list[Any]]:
    """(θ of each period [syncs + 1, 2], w along each period)."""
    draw = np.random.default_rng(3)
    target, targets, paths = np.zeros(2), [np.zeros(2)], []
    for _ in range(SYNCS):
        w, path = target.copy(), [target.copy()]
        for _ in range(UPDATES):
            step = DRIFT + NOISE * draw.standard_normal(2)
            w = w + kappa / UPDATES * (target - w) + step
            path.append(w)
        paths.append(np.array(path))
        target = w
        targets.append(target)
    return np.array(targets), paths


def draw(colours: dict[str, str]) -> bytes:
    style = {"text.color": colours["ink"], "axes.titlesize": 11}
    with rc_context({**STYLE, **style}):
        figure = Figure(figsize=(8.2, 3.1), layout="constrained")
        figure.patch.set_alpha(0.0)
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        for ax, kappa in zip(axes, (0.0, KAPPA), strict=True):
            _panel(ax, kappa, colours)
        svg = io.BytesIO()
        tight: Any = {"bbox_inches": "tight", "pad_inches": 0.05}
        figure.savefig(svg, format="svg", metadata={"Date": None}, transparent=True, **tight)
    return svg.getvalue()


def _panel(ax: Any, kappa: float, colours: dict[str, str]) -> None:
    targets, paths = simulate(kappa)
    for path in paths:
        ax.plot(*path.T, color=colours["path"], linewidth=1.1, alpha=0.9, zorder=2)
    for one, other in itertools.pairwise(targets):
        arrow = {"arrowstyle": "-|>", "color": colours["target"], "linewidth": 1.6}
        ax.annotate("", other, one, arrowprops=arrow, zorder=3)
    ax.plot(*targets.T, "o", color=colours["target"], markersize=7, zorder=4)
    for number, place in enumerate(targets):
        label = "θ" + "₀₁₂₃₄"[number]
        ax.annotate(label, place, (9, -14), textcoords="offset points", fontsize=11)
    mean = np.linalg.norm(np.diff(targets, axis=0), axis=1).mean()
    title = "with the pull: w is drawn back to θ" if kappa else "without: w wanders from θ"
    ax.set_title(f"{title}\nmean target update {mean:.1f}", loc="left", color=colours["ink"])
    ax.set_aspect("equal")
    ax.axis("off")


def main() -> None:
    for name, colours in SCHEMES.items():
        text = plain_svg(draw(colours), "target updates without and with the pull")
        (FIGURES / f"pull-{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
