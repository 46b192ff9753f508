"""What a figure shows, as plain data: drawn by drawing.py, written as CSV."""

import csv
import io
import math
import re
from dataclasses import dataclass, field
from typing import Any

from proxrl.report.baselines import Baseline
from proxrl.report.series import Series
from proxrl.types import Array


@dataclass(frozen=True, eq=False)
class Line:
    """A curve with its band, or (one point) a value with its interval."""

    name: str
    colour: str
    dash: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure. `kind`: lines, intervals (horizontal, one row per line), gains or dots."""

    id: str
    title: str
    caption: str
    kind: str
    panels: tuple[Panel, ...]
    x_label: str = ""
    y_label: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    unjoined: tuple[Panel, ...] | None = None  # the panels with every point, if `panels` joins some

    def csv(self) -> str:
        """Every point, with its interval."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("panel", "series", "x", "y", "low", "high"))
        for panel in self.unjoined or self.panels:
            for line in panel.lines:
                columns = [line.x, line.y, line.low, line.high]
                for at in range(len(line.x)):
                    numbers = ("" if one is None else _plain(one[at]) for one in columns)
                    writer.writerow((panel.title, line.name, *numbers))
        return text.getvalue()


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    return f"{value:.6g}" if math.isfinite(value) else ""


def series_line(series: Series, x: Array, y: Array, low: Array, high: Array) -> Line:
    return Line(series.name, series.colour, series.dash, x, y, low, high)


def baseline_line(one: Baseline, x: Array, y: Array, spread: Array | None = None) -> Line:
    """A published curve; `spread` is the half-width of its band."""
    band = (None, None) if spread is None else (y - spread, y + spread)
    return Line(one.name, one.colour, one.dash, x, y, *band)


def slug(name: str) -> str:
    """A safe part of a file name: config.json may contain any agent name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "agent"
