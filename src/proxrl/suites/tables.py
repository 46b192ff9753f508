"""Reference scores shipped with the package; see data/README.md for sources."""

import csv
from importlib import resources


def read_table(name: str) -> list[dict[str, str]]:
    with (resources.files("proxrl.suites") / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
