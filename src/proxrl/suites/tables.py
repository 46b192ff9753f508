"""Reference scores that come with the package; data/README.md says where from."""

import csv
from importlib import resources


def read_table(name: str) -> list[dict[str, str]]:
    with (resources.files("proxrl.suites") / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
