"""study.json: the metadata of a study's folder. Written by `proxrl study`; optional in a report."""

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from proxrl.config import RunConfig
from proxrl.files import read_bytes, write_text
from proxrl.runs.record import Run

STUDY = "study.json"
SEARCH = "tune.json"  # in the folder of `proxrl tune`


@dataclass(frozen=True)
class About:
    """The content of study.json."""

    title: str = ""
    figures: str = ""  # of the paper: "4 left"
    headline: tuple[str, ...] = ()  # variants that represent their agents, by folder
    study: str = ""
    scale: str = ""
    proxrl: str = ""  # version that wrote it

    def headline_configs(self, runs: Sequence[Run]) -> list[RunConfig]:
        """Configs of the runs in those folders, including unusable ones: duplicates count."""
        return [
            run.config
            for run in runs
            if run.config is not None and run.path.split(os.sep)[0] in self.headline
        ]


def write_about(folder: Path, about: About) -> None:
    """Replace study.json atomically."""
    unfinished = folder / f"{STUDY}.writing"
    write_text(unfinished, json.dumps(dataclasses.asdict(about), indent=2) + "\n")
    os.replace(unfinished, folder / STUDY)


def load_about(folder: Path) -> About:
    """Read study.json; raises `OSError`, or `ValueError` if it is damaged."""
    try:
        return msgspec.json.decode(read_bytes(folder / STUDY), type=About)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def read_about(folder: Path, say: Callable[[str], None]) -> About:
    """Read study.json; empty if there is none, empty with a warning if it is unreadable."""
    try:
        return load_about(folder)
    except FileNotFoundError:
        return About()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        say(f"{STUDY} is ignored: {why}")
        return About()
