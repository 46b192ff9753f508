"""`proxrl presets`: tables of the suites and their presets."""

from typing import Any

from rich.console import Console
from rich.table import Table

from proxrl.config import flatten
from proxrl.suites import any as other
from proxrl.suites import presets
from proxrl.suites.registry import all_suites
from proxrl.suites.suite import AGENTS, Suite

Column = dict[str, dict[str, Any]]  # agent -> settings by dotted name
HIDDEN = ("agent", "env", "proximal.c")
COMPARED = (
    ("rainbow", "dqn"),
    ("rainbow-full", "rainbow"),
    ("dqn-authors", "dqn"),
    ("rainbow-authors", "rainbow"),
)
NOTHING = "–"
NAME_WIDTH, VALUE_WIDTH = 31, 14  # characters of a column, with its border


def show_presets(console: Console | None = None) -> None:
    """Print the ids and settings of each suite, and the differences between agents."""
    console = console or Console(markup=False)
    suites = (*all_suites(), *other.COLUMNS)
    columns = [_column(suite) for suite in suites]

    at_once = max(1, (console.width - NAME_WIDTH) // VALUE_WIDTH)

    def show(title: str, first: str, rows: dict[str, list[str]]) -> None:
        for start in range(0, len(suites), at_once):  # no wider than the terminal
            part = slice(start, start + at_once)
            table = Table(title=title)
            table.add_column(first, no_wrap=True)
            for suite in suites[part]:
                table.add_column(suite.shown_ids)
            for name, values in rows.items():
                table.add_row(name, *values[part])
            console.print(table)

    show(
        "presets: X-pro differs from X in proximal.c, X-pro-adaptive in proximal.rule",
        "preset",
        {agent: [_c(column, agent) for column in columns] for agent in AGENTS},
    )
    paths = [path for path in columns[0]["dqn"] if path not in HIDDEN]
    varied = [path for path in paths if len({str(one["dqn"][path]) for one in columns}) > 1]
    show("dqn: settings that depend on the environment", "setting", _rows(columns, "dqn", varied))
    for agent, base in COMPARED:
        both = [column for column in columns if agent in column and base in column]
        differ = [
            path for path in paths if any(one[agent][path] != one[base][path] for one in both)
        ]
        show(f"{agent}: differences from {base}", "setting", _rows(columns, agent, differ))
    for suite in all_suites():
        console.print(
            f"{suite.shown_ids}: suite {suite.name}, e.g. {suite.base.env}", highlight=False
        )
    console.print("every setting: proxrl train PRESET --env ID --help", highlight=False)


def _column(suite: Suite) -> Column:
    env = suite.base.env
    return {agent: flatten(presets.of_suite(suite, agent, env)) for agent in suite.agents}


def _rows(columns: list[Column], agent: str, paths: list[str]) -> dict[str, list[str]]:
    return {
        path: [_format(column[agent][path]) if agent in column else NOTHING for column in columns]
        for path in paths
    }


def _c(column: Column, agent: str) -> str:
    if agent not in column:
        return NOTHING
    rule = column[agent]["proximal.rule"]
    return f"c = {column[agent]['proximal.c']:g}" if rule == "parameters" else rule


def _format(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
