"""`proxrl demo`: the study `demo`, with options for game, steps and seed."""

from dataclasses import replace
from pathlib import Path

from proxrl.errors import UserError
from proxrl.runs.folder import RunFolder
from proxrl.runs.record import run_folders
from proxrl.studies.command import StudyOptions, run_study
from proxrl.studies.definition import load

MIN_STEPS = 4_000  # warm-up and a few syncs


def run_demo(env: str, steps: int, seed: int, folder: Path) -> None:
    """Train both agents, make the report, and print its limits."""
    if steps < MIN_STEPS:
        raise UserError(f"invalid --steps {steps}: the demo needs at least {MIN_STEPS:,}")
    for path in run_folders(folder):
        there = RunFolder(path).config()
        if (there.env, there.seed) != (env, seed):
            raise UserError(
                f"{folder} has the demo on {there.env} with seed {there.seed}: "
                "choose another --folder"
            )
    study = load("demo")
    scale = study.scales["session"]
    if env != scale.env.replace("{game}", scale.games[0]):
        scale = replace(scale, env="{game}", games=(env,))
    settings = {**scale.settings, "evaluation.period_steps": max(1, steps // 20)}
    scale = replace(scale, seeds=(seed,), steps=steps, settings=settings)
    run_study(StudyOptions(study=study.name, folder=folder), study, scale)
    print(
        "One seed and a small budget: either agent may score higher. In our own longer runs on\n"
        "MinAtar no variant of DQN Pro scored significantly higher than DQN (docs/evidence.md).\n"
        "Train longer: proxrl train dqn-pro --env MinAtar/Asterix-v1"
    )
