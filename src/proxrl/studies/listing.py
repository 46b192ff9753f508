"""`proxrl study --list`: the built-in studies and their number of runs."""

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxrl.studies.definition import BUILT_IN, load
from proxrl.studies.expand import combinations

LIST_WIDTH = 110  # columns that the table needs


def print_list(console: Console) -> None:
    """A table, or three lines for each study where that does not fit."""
    if console.width < LIST_WIDTH:
        _print_narrow_list(console)
        return
    table = Table(
        "study", "figure", "what", title="built-in studies and their number of runs at each scale"
    )
    studies = [load(name) for name in BUILT_IN]
    scales = dict.fromkeys(name for study in studies for name in study.scales)
    for name in scales:
        table.add_column(name, justify="right", no_wrap=True)
    for study in studies:
        runs = [
            f"{len(combinations(study, study.scales[name])):,}"
            if name in study.scales and not study.plan
            else "–"
            for name in scales
        ]
        table.add_row(study.name, study.figures, study.title, *runs)
    console.print(table)
    console.print("memory, disk and time of a study: proxrl study NAME --scale SCALE --dry-run")


def _print_narrow_list(console: Console) -> None:
    """Three lines for each study."""
    for study in map(load, BUILT_IN):
        figures = f" (figure {study.figures})" if study.figures else ""
        console.print(Text.assemble((study.name, "bold"), figures))
        console.print(textwrap.indent(textwrap.fill(study.title, console.width - 4), "  "))
        if study.plan is None:
            runs = [
                f"{len(combinations(study, scale)):,} {name}"
                for name, scale in study.scales.items()
            ]
            console.print(f"  runs: {', '.join(runs)}", highlight=False)
    console.print("memory, disk and time: proxrl study NAME --scale SCALE --dry-run")
