"""The figures for papers: every `Plot` as PNG and SVG, in the paper's colours.

The same plots give the same bytes: no dates, fixed element ids (`svg.hashsalt`).
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proxrl.report.plot import Line, Panel, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MUTED = "#555555"
GAIN_WIDTH = 0.1  # gains below 10% are drawn nearly to scale, those above on a log axis
STYLE: Any = {
    "svg.hashsalt": "proxrl",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
}


def save_all(plots: list[Plot], folder: Path) -> list[Path]:
    """ID.png and ID.svg for every plot; figures of an earlier report are removed."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.png"), *folder.glob("*.svg")):
        old.unlink()
    written = []
    with rc_context(STYLE):
        for plot in plots:
            figure = draw(plot)
            for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
                path = folder / f"{plot.id}.{kind}"
                figure.savefig(path, dpi=150, metadata=metadata)
                figure.set_layout_engine("none")  # found once, it holds for the second format
                written.append(path)
    return written


def draw(plot: Plot) -> "Figure":
    """One figure."""
    kinds = {"lines": _lines, "intervals": _intervals, "gains": _gains, "dots": _dots}
    return kinds[plot.kind](plot)


# -------------------------------------------------------------------------------------- the kinds


def _lines(plot: Plot) -> "Figure":
    many = len(plot.panels) > 6
    columns = min(len(plot.panels), 7 if len(plot.panels) > 20 else 4)
    rows = math.ceil(len(plot.panels) / columns)
    if len(plot.panels) == 1:
        figure = _figure(6.6, 4.4)
    else:
        figure = _figure(*((2.15, 1.72) if many else (3.1, 2.7)), columns, rows, legend=0.7)
    grid = figure.subplots(rows, columns, squeeze=False)
    for place, ax in enumerate(grid.flat):
        if place >= len(plot.panels):
            ax.set_visible(False)
            continue
        _panel(ax, plot, plot.panels[place], small=many)
    if len(plot.panels) == 1:
        grid[0][0].set(xlabel=plot.x_label, ylabel=_label(plot.y_label))
    else:
        figure.supxlabel(plot.x_label, fontsize=9)
        figure.supylabel(_label(plot.y_label), fontsize=9)
    _legend(figure, columns=4 if len(plot.panels) > 1 else 2)
    return figure


def _panel(ax: "Axes", plot: Plot, panel: Panel, small: bool) -> None:
    width = 1.1 if small else 1.7
    for line in panel.lines:
        style: dict[str, Any] = {"color": line.colour, "label": line.name}
        if plot.options.get("markers") and line.dash == "solid":
            errors = None
            if line.low is not None and line.high is not None:
                errors = [line.y - line.low, line.high - line.y]
            ax.errorbar(line.x, line.y, errors, marker="o", capsize=3, linewidth=width, **style)
            continue
        ax.plot(line.x, line.y, linewidth=width, linestyle=DASHES[line.dash], **style)
        if line.low is not None and line.high is not None and np.isfinite(line.low).any():
            ax.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.18, linewidth=0)
    ax.set_title(panel.title, loc="left", fontsize=8 if small else 10, pad=3)
    if plot.options.get("log_x"):
        ax.set_xscale("log")
        ticks = sorted({float(x) for line in panel.lines for x in line.x})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        ax.minorticks_off()
    else:
        ax.xaxis.set_major_formatter(lambda value, _: _short(value))
        ax.set_xlim(0 if panel.lines and panel.lines[0].x[0] >= 0 else None)
    ax.yaxis.set_major_formatter(lambda value, _: _short(value))
    if "x_max" in plot.options:
        ax.set_xlim(0, plot.options["x_max"])
        _fit_y(ax, panel.lines, plot.options["x_max"])
    if "y_range" in plot.options:
        ax.set_ylim(*plot.options["y_range"])
    if plot.options.get("zero"):
        ax.set_ylim(bottom=0)
    if small:
        ax.locator_params(nbins=4)
        ax.tick_params(labelsize=6.5, length=2, pad=2)


def _fit_y(ax: "Axes", lines: tuple[Line, ...], x_max: float) -> None:
    """Limits by what is inside the axes: a published curve may go on to the right of them."""
    parts = [
        values[line.x <= x_max]
        for line in lines
        for values in (line.y, line.low, line.high)
        if values is not None
    ]
    inside = np.concatenate(parts) if parts else np.empty(0)
    inside = inside[np.isfinite(inside)]
    if len(inside):
        room = 0.05 * (inside.max() - inside.min()) or 0.5
        ax.set_ylim(inside.min() - room, inside.max() + room)


def _intervals(plot: Plot) -> "Figure":
    """Values across, one row a line; panels share the rows."""
    rows = max(len(panel.lines) for panel in plot.panels)
    count = len(plot.panels)
    longest = max(len(line.name) for panel in plot.panels for line in panel.lines)
    width = 0.075 * longest + (2.5 * count if count > 1 else 5.0)
    figure = _figure(width, 0.9 + 0.33 * rows + 0.2 * (count > 1))
    for ax, panel in zip(figure.subplots(1, count, squeeze=False)[0], plot.panels, strict=True):
        for row, line in enumerate(panel.lines):
            if line.low is not None and line.high is not None and np.isfinite(line.low[0]):
                ax.barh(
                    row,
                    line.high[0] - line.low[0],
                    left=line.low[0],
                    height=0.56,
                    color=line.colour,
                    alpha=0.45,
                )
                ax.plot([line.x[0]] * 2, [row - 0.28, row + 0.28], color=line.colour, linewidth=2)
            else:
                ax.plot(line.x[0], row, marker="D", markersize=5, color=line.colour)
        names = [line.name for line in panel.lines] if ax.get_subplotspec().is_first_col() else []
        ax.set_yticks(range(rows), names or [""] * rows)
        ax.set_ylim(rows - 0.4, -0.6)
        ax.use_sticky_edges = False
        ax.margins(x=0.08)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.set_title(panel.title)
        ax.locator_params(axis="x", nbins=5)
        if "range" in plot.options:
            ax.set_xlim(*plot.options["range"])
        if "reference" in plot.options:
            ax.axvline(plot.options["reference"], color=MUTED, linewidth=1, linestyle="--")
        ax.xaxis.set_major_formatter(lambda value, _: _short(value))
    figure.supxlabel(plot.x_label, fontsize=9)
    return figure


def _gains(plot: Plot) -> "Figure":
    """Bars on an axis that is logarithmic beyond 10%, as the paper's Figure 3."""
    final, area = plot.panels[0].lines
    games = len(final.x)
    figure = _figure(max(4.5, 1.3 + 0.2 * games), 4.2)
    ax = figure.subplots()
    worse = plot.options["negative"][0]
    colours = [final.colour if value > 0 else worse for value in final.y]
    ax.bar(range(games), final.y, color=colours, width=0.72)
    for name, colour in zip(plot.options["names"], (final.colour, worse), strict=True):
        ax.bar(0, 0, color=colour, label=f"final gain, {name} ahead")
    ax.plot(
        range(games),
        area.y,
        linestyle="",
        marker="o",
        markersize=4,
        markerfacecolor="white",
        markeredgecolor="#222222",
        label="gain in area under the curve",
    )
    ax.axhline(0, color="#222222", linewidth=0.8)
    ax.set_yscale("asinh", linear_width=GAIN_WIDTH)
    values = np.concatenate([final.y, area.y])
    ticks = gain_ticks(values)
    ax.set_ylim(*gain_limits(values))
    ax.set_yticks(ticks, [f"{100 * tick:g}%".replace("-", "−") for tick in ticks])
    ax.minorticks_off()
    ax.set_xticks(range(games), final.x.tolist(), rotation=90 if games > 8 else 0)
    ax.tick_params(axis="x", length=0, labelsize=8 if games > 8 else 9)
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.01)
    ax.set_ylabel("gain")
    ax.set_title(plot.title, loc="left")
    ax.legend(loc="upper left")
    return figure


def gain_limits(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    """A little more than the values and 0 take up, on the bent axis."""
    bent = np.arcsinh(values / GAIN_WIDTH)
    low, high = float(np.nanmin(bent, initial=0.0)), float(np.nanmax(bent, initial=0.0))
    room = 0.06 * (high - low) or 1.0
    return GAIN_WIDTH * math.sinh(low - room), GAIN_WIDTH * math.sinh(high + room)


def gain_ticks(values: np.ndarray[Any, Any]) -> list[float]:
    """0 and, inside the limits on both sides, 10%, 20%, 50%, 100%, 200% and so on; only the powers
    of ten when there would be many."""
    low, high = gain_limits(values)
    largest = max(-low, high)
    powers = range(max(0, math.floor(math.log10(largest / 0.1))) + 1)
    steps = (1, 2, 5) if len(powers) <= 2 else (1,)
    sizes = [step * 10**power / 10 for power in powers for step in steps]
    down = [-size for size in reversed(sizes) if low <= -size]
    return [*down, 0.0, *(size for size in sizes if size <= high)]


def _dots(plot: Plot) -> "Figure":
    lines = plot.panels[0].lines
    games = len(lines[0].x)
    figure = _figure(max(4.5, 1.3 + 0.2 * games), 3.6)
    ax = figure.subplots()
    place = {name: number for number, name in enumerate(lines[0].x.tolist())}
    for line in lines:
        at = [place.setdefault(name, len(place)) for name in line.x.tolist()]
        ax.plot(at, line.y, "o", markersize=4.5, color=line.colour, label=line.name)
    ax.axhline(plot.options["reference"], color=MUTED, linewidth=1, linestyle="--")
    ax.set_xticks(range(len(place)), list(place), rotation=90)
    ax.tick_params(axis="x", length=0, labelsize=8)
    ax.set_ylabel(plot.y_label)
    ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    ax.set_title(plot.title, loc="left")
    ax.legend(loc="lower right", ncols=len(lines))
    return figure


# ----------------------------------------------------------------------------------------- details


def _figure(
    width: float, height: float, columns: int = 1, rows: int = 1, legend: float = 0.0
) -> "Figure":
    from matplotlib.figure import Figure

    size = (width * columns + 0.4 * (columns > 1), height * rows + legend)
    figure = Figure(figsize=size, layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.04, h_pad=0.04, wspace=0.03, hspace=0.02)
    return figure


def _legend(figure: "Figure", columns: int) -> None:
    """Above the axes, where it covers no curve."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)


def _label(text: str) -> str:
    """θ_new with a subscript."""
    return re.sub(r"θ_(\w+)", r"$\\theta_{\\mathrm{\1}}$", text)


def _short(value: float) -> str:
    """1.2M, 30k, 0.25."""
    size = abs(value)
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit * 0.9999999:
            return f"{value / unit:.3g}{letter}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")
