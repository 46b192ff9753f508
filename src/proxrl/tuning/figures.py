"""The figures of a search, in the style of the report's: PNG for papers, the same SVG in the page.

A trial is a point: filled if it finished (its final score), hollow if it was pruned (its last
evaluation before that). The same trials give the same bytes.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxrl.figures import drawing
from proxrl.report.figures.drawing import INK, MUTED, PAPER, STYLE, plain_svg
from proxrl.tuning.space import Parameter
from proxrl.tuning.table import shown
from proxrl.tuning.trials import Trial, best

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FINISHED, BEST = "#1f77b4", "#d1495b"
DARK = {FINISHED: "#6fb7f2", BEST: "#ff8fa0"}
WIDTH = 5.0


@dataclass(frozen=True)
class Picture:
    """A figure in its two formats."""

    id: str
    title: str
    caption: str
    png: bytes
    svg: str


def pictures(trials: Sequence[Trial], space: Sequence[Parameter], steps: int) -> list[Picture]:
    """Those that the trials allow: none without a score."""
    if not any(one.score is not None for one in trials):
        return []
    wanted: list[tuple[str, str, str, Callable[[], Figure]]] = [
        (
            "parameters",
            "Score against " + (space[0].name if len(space) == 1 else "each parameter"),
            "Final score of each finished trial; hollow: the last evaluation of a pruned trial, at "
            "an earlier step. Each trial has a seed of its own: neighbours differ by chance too.",
            lambda: _parameters(trials, space),
        ),
        (
            "history",
            "Optimisation history",
            "Final score by trial; the line is the best so far. Hollow: pruned.",
            lambda: _history(trials),
        ),
        (
            "intermediate",
            "Evaluations during training",
            "Mean return of each evaluation. Dashed: pruned; thick: the best trial.",
            lambda: _intermediate(trials, steps),
        ),
    ]
    made = []
    with drawing(STYLE):
        for name, title, caption, draw in wanted:
            figure = draw()
            png, svg = io.BytesIO(), io.BytesIO()
            figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
            figure.set_layout_engine("none")
            figure.savefig(svg, format="svg", metadata={"Date": None})
            made.append(
                Picture(name, title, caption, png.getvalue(), plain_svg(svg.getvalue(), title))
            )
    return made


def _parameters(trials: Sequence[Trial], space: Sequence[Parameter]) -> "Figure":
    figure = _figure(WIDTH, 3.1 * len(space))
    for ax, one in zip(figure.subplots(len(space), squeeze=False).flat, space, strict=True):
        places = {value: at for at, value in enumerate(one.choices)}

        def at(trial: Trial, one: Parameter = one, places: dict[Any, int] = places) -> Any:
            value = trial.values[one.path]
            return places[value] if one.choices else value

        _points(ax, trials, at)
        if one.choices:
            ax.set_xticks(range(len(places)), [shown(value) for value in places])
            ax.set_xlim(-0.5, len(places) - 0.5)
        elif one.log:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            ax.set_xlim(one.low / 1.15, one.high * 1.15)
        else:
            room = 0.04 * (one.high - one.low)
            ax.set_xlim(one.low - room, one.high + room)
        ax.set_xlabel("κ, pull per sync" if one.name == "kappa" else one.path)
        ax.set_ylabel("score")
    _legend(figure)
    return figure


def _history(trials: Sequence[Trial]) -> "Figure":
    figure = _figure(WIDTH, 3.1)
    ax = figure.subplots()
    _points(ax, trials, lambda trial: trial.number)
    numbers, tops = [], []
    for at, trial in enumerate(trials):
        top = best(trials[: at + 1])
        if top is not None:
            numbers.append(trial.number)
            tops.append(top.height)
    ax.step(numbers, tops, where="post", color=BEST, linewidth=1.3, zorder=1, label="best so far")
    ax.set(xlabel="trial", ylabel="score")
    ax.locator_params(axis="x", integer=True)
    _legend(figure)
    return figure


def _intermediate(trials: Sequence[Trial], steps: int) -> "Figure":
    figure = _figure(WIDTH, 3.1)
    ax = figure.subplots()
    top = best(trials)
    kinds: dict[str, dict[str, Any]] = {
        "pruned": {"color": MUTED, "linestyle": "--", "linewidth": 0.9, "alpha": 0.75},
        "failed": {"color": MUTED, "linestyle": ":", "linewidth": 0.9},
        "running": {"color": FINISHED, "linestyle": ":", "linewidth": 1.0},
        "finished": {"color": FINISHED, "linewidth": 1.0, "alpha": 0.65},
        "best": {"color": BEST, "linewidth": 2.0, "zorder": 3},
    }
    for kind, style in kinds.items():
        label = kind
        for trial in trials:
            its = "best" if trial is top else trial.outcome
            if its == kind and trial.evaluations:
                marker = "o" if len(trial.evaluations) == 1 else ""
                x, y = list(trial.evaluations), list(trial.evaluations.values())
                ax.plot(x, y, label=label, marker=marker, markersize=3, **style)
                label = ""
    ax.set(xlabel="agent steps", ylabel="evaluation return", xlim=(0, 1.01 * steps))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.locator_params(axis="x", nbins=6)
    _legend(figure)
    return figure


def _points(ax: "Axes", trials: Sequence[Trial], at: Callable[[Trial], Any]) -> None:
    top = best(trials)
    style: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6}
    groups: dict[str, dict[str, Any]] = {
        "pruned": {"markerfacecolor": PAPER, "markeredgecolor": MUTED},
        "finished": {"markerfacecolor": FINISHED, "markeredgecolor": FINISHED},
        "best": {"markerfacecolor": BEST, "markeredgecolor": INK, "markersize": 9, "marker": "D"},
    }
    for kind, its in groups.items():
        chosen = [one for one in trials if ("best" if one is top else one.outcome) == kind]
        chosen = [one for one in chosen if one.score is not None]
        if chosen:
            x, y = [at(one) for one in chosen], [one.height for one in chosen]
            ax.plot(x, y, label=kind, zorder=2, **{**style, **its})


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _legend(figure: "Figure") -> None:
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    where: Any = {"loc": "outside upper center", "ncols": len(handles)}
    figure.legend(handles.values(), handles.keys(), **where)
