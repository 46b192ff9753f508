"""`proxrl train --seeds`: a study of one agent on one environment."""

from collections.abc import Sequence
from pathlib import Path

from proxrl.config import RunConfig, differences
from proxrl.studies.command import StudyOptions, run_study
from proxrl.studies.definition import FOLLOWS_FROM, Scale, Study, Variant

NAME, SCALE = "train", "seeds"


def train_seeds(
    config: RunConfig, preset: RunConfig, seeds: Sequence[int], folder: Path, jobs: int | None
) -> None:
    """Train a run for each seed, as many at a time as fit, and make a report.

    The same call continues what was interrupted, and adds seeds. `preset`: what the config is
    based on.
    """
    settings = {
        path: value
        for path, (_, value) in differences(preset, config).items()
        if path not in FOLLOWS_FROM
    }
    study = Study(
        name=NAME,
        title=f"{config.agent} on {config.env}, {len(seeds)} {'seeds' if seeds[1:] else 'seed'}",
        figures="",
        written_for=None,
        headline=(),
        variants=(Variant(config.agent, config.agent, settings),),
        scales={},
        plan=None,
    )
    scale = Scale(
        name=SCALE,
        env="{game}",
        games=(config.env,),
        seeds=tuple(seeds),
        steps=config.steps,
        settings={},
        plan={},
    )
    run_study(StudyOptions(study=NAME, folder=folder, jobs=jobs), study, scale)
