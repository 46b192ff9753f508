"""Figures by matplotlib, in the paper's colours; the same plots give the same bytes.

An SVG has text as text and presentation attributes instead of inline styles, so that the page can
show it under a Content-Security-Policy without inline styles and recolour it for a dark screen.
Labels are never parsed as mathematics: a `$` in a name stays a `$`.
"""

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from proxrl.figures import drawing
from proxrl.report.figures.plot import Line, Panel, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
INK, MUTED, RULE, PAPER = "#1a202c", "#5a6475", "#e2e6ec", "#ffffff"
FEW_POINTS = 3  # of a curve, that are marked: a line between two points hides where they are
GAIN_WIDTH = 0.1  # gains below 10% are drawn nearly to scale, those above on a log axis
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
STYLE: Any = {
    "svg.hashsalt": "proxrl",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure in its two formats."""

    plot: Plot
    png: bytes
    svg: str


def render(plots: Sequence[Plot]) -> Iterator[Drawn]:
    """Draw each."""
    kinds = {"lines": _lines, "intervals": _intervals, "gains": _gains, "dots": _dots}
    with drawing(STYLE):
        for plot in plots:
            figure = kinds[plot.kind](plot)
            png, svg = io.BytesIO(), io.BytesIO()
            figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
            figure.set_layout_engine("none")  # computed once, reused for the second format
            figure.savefig(svg, format="svg", metadata={"Date": None})
            yield Drawn(plot, png.getvalue(), plain_svg(svg.getvalue(), plot.title))


def plain_svg(text: bytes, title: str) -> str:
    """matplotlib's SVG without inline styles, style sheets, metadata and unused ids."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    used = set(re.findall(rb'(?:url\(|href=")#(\w+)', text))
    for element in root.iter():
        for name in ("d", "x", "y", "transform"):
            if name in element.attrib:
                shorter = re.sub(r"\d+\.\d{2,}", _rounded, element.attrib[name])
                element.set(name, re.sub(r"\s*([MLCz])\s*", r"\1", shorter))
        for part in element.attrib.pop("style", "").split(";"):
            name, _, value = part.partition(":")
            if value and name.strip() != "font-family":
                element.set(name.strip(), value.strip())
        if element.get("id", "").encode() not in used:
            element.attrib.pop("id", None)
        elif element.tag == f"{{{SVG}}}path":  # a marker: its colours are those of its uses
            for name in ("fill", "stroke"):
                element.attrib.pop(name, None)
    root.attrib |= {
        "role": "img",
        "aria-label": title,
        "font-family": "DejaVu Sans, Verdana, Arial, sans-serif",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _rounded(number: re.Match[str]) -> str:
    """A tenth of a point is 0.04 mm."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


# -------------------------------------------------------------------------------------- the kinds


def _lines(plot: Plot) -> "Figure":
    many = len(plot.panels) > 6
    columns = min(len(plot.panels), 4 if many else 2)
    rows = math.ceil(len(plot.panels) / columns)
    one = len(plot.panels) == 1
    width, height = (5.0, 3.0) if one else (1.85, 1.6) if many else (2.55, 2.05)
    figure = _figure(width * columns, height * rows + (0.0 if one else 0.4))
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in list(grid.flat)[len(plot.panels) :]:
        ax.set_visible(False)
    for ax, panel in zip(grid.flat, plot.panels, strict=False):
        _panel(ax, plot, panel, small=many)
    if one:
        grid[0][0].set(xlabel=plot.x_label, ylabel=plot.y_label)
    else:
        figure.supxlabel(plot.x_label, fontsize=9)
        figure.supylabel(plot.y_label, fontsize=9)
    _legend(figure)
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
        seen = np.isfinite(line.y) & (line.x <= plot.options.get("x_max", np.inf))
        style |= {"marker": "o", "markersize": 4} if seen.sum() <= FEW_POINTS else {}
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
        ax.set_xlim(0 if panel.lines and panel.lines[0].x[0] >= 0 else None)
        most = 6 if len(plot.panels) == 1 else 4
        _ticks(ax, "x", most, quarters=True)
        if "x_max" in plot.options and (step := step_to(plot.options["x_max"], most)):
            ax.set_xticks(np.arange(0.0, plot.options["x_max"] + step / 2, step))
    _ticks(ax, "y", 4 if small else 6)
    if "x_max" in plot.options:
        ax.set_xlim(0, 1.01 * plot.options["x_max"])
        _fit_y(ax, panel.lines, plot.options["x_max"])
    if "y_range" in plot.options:
        ax.set_ylim(*plot.options["y_range"])
    if plot.options.get("zero"):
        ax.set_ylim(0, 1.08 * _largest(panel.lines) or 1.0)
    if small:
        ax.tick_params(labelsize=6.5, length=2, pad=2)


def _largest(lines: tuple[Line, ...]) -> float:
    parts = [values for line in lines for values in (line.y, line.high) if values is not None]
    return float(np.nanmax(np.concatenate(parts), initial=0.0)) if parts else 0.0


def _fit_y(ax: "Axes", lines: tuple[Line, ...], x_max: float) -> None:
    """Limits from the data inside the axes: published curves may extend beyond them."""
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
    """Horizontal intervals, one row per line; at most two panels side by side, sharing rows."""
    rows = max(len(panel.lines) for panel in plot.panels)
    columns = min(2, len(plot.panels))
    down = math.ceil(len(plot.panels) / columns)
    longest = max(len(line.name) for panel in plot.panels for line in panel.lines)
    names_width = min(3.2, 0.3 + 0.068 * longest)
    panels_width = (
        max(2.6, min(3.5, 5.2 - names_width)) if columns > 1 and names_width < 2.6 else 3.0
    )
    width = names_width + panels_width
    figure = _figure(width, (0.55 + 0.3 * rows) * down + 0.35)
    grid = figure.subplots(down, columns, squeeze=False)
    for ax in list(grid.flat)[len(plot.panels) :]:
        ax.set_visible(False)
    for ax, panel in zip(grid.flat, plot.panels, strict=False):
        for row, line in enumerate(panel.lines):
            if line.low is not None and line.high is not None and np.isfinite(line.low[0]):
                span = line.high[0] - line.low[0]
                style: dict[str, Any] = {"color": line.colour, "alpha": 0.45}
                ax.barh(row, span, left=line.low[0], height=0.56, **style)
                ax.plot([line.x[0]] * 2, [row - 0.28, row + 0.28], color=line.colour, linewidth=2)
            else:
                ax.plot(line.x[0], row, marker="D", markersize=5, color=line.colour)
        names = [line.name for line in panel.lines] if ax.get_subplotspec().is_first_col() else []
        ax.set_yticks(range(rows), [*names, *[""] * (rows - len(names))])
        ax.set_ylim(rows - 0.4, -0.6)
        ax.use_sticky_edges = False
        ax.margins(x=0.08)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.set_title(panel.title, loc="left")
        _ticks(ax, "x", 5 if columns == 1 else 3 if names_width > 2.6 else 4)
        if "range" in plot.options:
            ax.set_xlim(*plot.options["range"])
        if "reference" in plot.options:
            ax.axvline(plot.options["reference"], color=MUTED, linewidth=1, linestyle="--")
    figure.supxlabel(plot.x_label, fontsize=9)
    return figure


def _gains(plot: Plot) -> "Figure":
    """Figure 3 with the games on the vertical axis: bars, on a scale logarithmic above 10%."""
    final, area = plot.panels[0].lines
    figure, ax = _by_game(final.x.tolist())
    rows = range(len(final.x))
    worse = plot.options["negative"]
    colours = [final.colour if value > 0 else worse for value in final.y]
    ax.barh(rows, final.y, color=colours, height=0.72)
    for name, colour in zip(plot.options["names"], (final.colour, worse), strict=True):
        ax.barh(0, 0, color=colour, label=f"{name} ahead")
    dots: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": "", "color": INK}
    ax.plot(area.y, rows, markerfacecolor=PAPER, label="area under the curve", **dots)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_xscale("asinh", linear_width=GAIN_WIDTH)
    values = np.concatenate([final.y, area.y])
    ticks = gain_ticks(values)
    ax.set_xlim(*gain_limits(values))
    ax.set_xticks(ticks, [_percent(tick) for tick in ticks])
    ax.minorticks_off()
    at_edge: dict[str, Any] = {
        "transform": ax.get_yaxis_transform(),
        "fontsize": 8,
        "color": INK,
    }
    for row, value in zip(rows, final.y.tolist(), strict=True):
        ax.text(1.015, row, _percent(value, "+"), va="center", **at_edge)
    _legend(figure)
    return figure


def gain_limits(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Limits that contain the values and 0, with a margin, on the asinh axis."""
    bent = np.arcsinh(values / GAIN_WIDTH)
    low, high = float(np.nanmin(bent, initial=0.0)), float(np.nanmax(bent, initial=0.0))
    room = 0.06 * (high - low) or 1.0
    return GAIN_WIDTH * math.sinh(low - room), GAIN_WIDTH * math.sinh(high + room)


def gain_ticks(values: np.ndarray[Any, Any]) -> list[float]:
    """Ticks at 0 and at 1, 2 or 5 times powers of ten, inside the limits and not crowded."""
    low, high = gain_limits(values)
    bent = [math.asinh(one / GAIN_WIDTH) for one in (low, high)]
    apart = (bent[1] - bent[0]) / 8  # minimum distance between two ticks, as drawn
    sizes = [step * 10.0**power for power in range(-4, 8) for step in (1, 2, 5)]
    ticks = [0.0]
    for side in (-1.0, 1.0):
        last = 0.0
        for size in sizes:
            place = math.asinh(size / GAIN_WIDTH)
            if place - last >= apart and low <= side * size <= high:
                ticks.append(side * size)
                last = place
    return sorted(ticks)


def _dots(plot: Plot) -> "Figure":
    """One dot per game and series."""
    lines = plot.panels[0].lines
    place: dict[str, int] = {}
    for name in (name for line in lines for name in line.x.tolist()):
        place.setdefault(name, len(place))
    figure, ax = _by_game(list(place))
    for line in lines:
        at = [place[name] for name in line.x.tolist()]
        ax.plot(line.y, at, "o", markersize=4.5, color=line.colour, label=line.name)
    ax.axvline(plot.options["reference"], color=MUTED, linewidth=1, linestyle="--")
    ax.set_xlim(left=0)
    ax.set_xlabel(plot.y_label)
    _legend(figure)
    return figure


# ----------------------------------------------------------------------------------------- details


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.05, h_pad=0.06, wspace=0.03, hspace=0.03)
    return figure


def _by_game(games: list[str]) -> "tuple[Figure, Axes]":
    """Axes with one row per game, the first at the bottom."""
    figure = _figure(5.0, 0.55 + max(0.19 * len(games), 0.3 * min(len(games), 4)))
    ax = figure.subplots()
    ax.set_yticks(range(len(games)), games)
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.grid(visible=False, axis="y")
    ax.set_ylim(-0.6, len(games) - 0.4)
    return figure, ax


def _legend(figure: "Figure") -> None:
    """A legend above the axes, in one row if it fits; the figure grows by its height."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    if bars := [name for name, handle in handles.items() if hasattr(handle, "patches")]:
        handles = {name: handles[name] for name in dict.fromkeys([*bars, *handles])}
    if handles:
        width, count = figure.get_figwidth(), len(handles)
        size = 9 if count <= 5 else 8
        widths = [0.62 + 0.0077 * size * len(name) for name in handles]  # in inches, generous
        columns = next(n for n in range(count, 0, -1) if n == 1 or _fits(widths, n, width))
        figure.set_figheight(figure.get_figheight() + 0.1 + 0.18 * math.ceil(count / columns))
        where: Any = {"loc": "outside upper center", "ncols": columns, "fontsize": size}
        figure.legend(handles.values(), handles.keys(), **where)


def _fits(widths: list[float], columns: int, width: float) -> bool:
    """Whether a legend with so many columns, filled one after the other, is narrow enough."""
    return float(sum(max(part) for part in np.array_split(widths, columns))) <= width


def _percent(value: float, sign: str = "") -> str:
    digits = 0 if abs(value) >= 0.1 or value == 0 else 1
    text = f"{100 * value:{sign},.{digits}f}%" if value else "0%"
    return text.replace(".0%", "%").replace("-", "−")


def _ticks(ax: "Axes", which: str, most: int, quarters: bool = False) -> None:
    """At most so many intervals between ticks, of 1, 2 (2.5) or 5 times a power of ten."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = ax.xaxis if which == "x" else ax.yaxis
    steps = [1, 2, 2.5, 5, 10] if quarters else [1, 2, 5, 10]
    axis.set_major_locator(MaxNLocator(nbins=most, steps=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def step_to(end: float, most: int) -> float | None:
    """1, 2, 2.5 or 5 times a power of ten that leads from 0 to the end in at most so many steps."""
    for steps in range(most, 1, -1):
        step = end / steps
        if f"{step:.9e}".partition("e")[0].rstrip("0") in ("1.", "2.", "2.5", "5."):
            return step
    return None


def _short(value: float) -> str:
    """1.2M, 30k, 0.25: every digit of a tick."""
    size = abs(value)
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit * 0.9999999:
            return f"{value / unit:.6g}{letter}".replace("-", "−")
    return f"{value:.6g}".replace("-", "−")
