"""What a study's folder says of itself: study.json, beside the folders of its variants.

Written by `proxrl study`; a folder of runs need not have one.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from proxrl.config import RunConfig
from proxrl.report.runs import Run

STUDY = "study.json"


@dataclass(frozen=True)
class About:
    """What the report takes from it; empty where it says nothing."""

    title: str = ""
    figures: str = ""  # of the paper: "4 left"
    headline: tuple[str, ...] = ()  # variants that stand for their agents, by folder

    def headline_configs(self, runs: Sequence[Run]) -> list[RunConfig]:
        """Of runs in those folders, also of unusable ones: a duplicate tells the series too."""
        return [
            run.config
            for run in runs
            if run.config is not None and run.path.split(os.sep)[0] in self.headline
        ]


def read_about(folder: Path, say: Callable[[str], None]) -> About:
    """Nothing if there is no such file; nothing and a warning if it cannot be read."""
    try:
        return msgspec.json.decode((folder / STUDY).read_bytes(), type=About)
    except FileNotFoundError:
        return About()
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        say(f"{STUDY} is left out: {why}")
        return About()
