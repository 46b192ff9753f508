"""What a figure shows, as plain data: for figures.py on paper and page.js on a screen."""

from dataclasses import dataclass, field
from typing import Any

from proxrl.report.series import Series
from proxrl.types import Array


@dataclass(frozen=True, eq=False)
class Line:
    """A curve with its band, or (one point) a value with its interval."""

    name: str
    colour: str
    dark: str
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
    """A figure. `kind`: lines, intervals (values across, one row a line) or gains (bars)."""

    id: str
    title: str
    caption: str
    kind: str
    panels: tuple[Panel, ...]
    x_label: str = ""
    y_label: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def series_line(series: Series, x: Array, y: Array, low: Array, high: Array) -> Line:
    return Line(series.name, series.colour, series.dark, series.dash, x, y, low, high)
