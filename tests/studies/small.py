"""A study that is small enough to kill often, and helpers for its tests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from proxrl.runs.attempts import ATTEMPTS, newest_attempt
from proxrl.runs.checkpoint import checkpoint_path, checkpoint_steps, read, split
from proxrl.runs.folder import RunFolder
from tests import forking

STEPS = 3_000
LONG_STEPS = 9_000  # long enough to remove a node after a run's first checkpoint


def text(steps: int = STEPS) -> str:
    """The study's definition."""
    return f"""
title = "two agents that balance a pole"

[variants.dqn]
preset = "dqn"

[variants.dqn-pro]
preset = "dqn-pro"

[scales.tiny]
env = "{{game}}"
games = ["CartPole-v1"]
seeds = [0, 1]
steps = {steps}
threads = 1
device = "cpu"
network.hidden = [32]
replay.capacity = 400
replay.warmup_steps = 100
replay.batch_size = 8
target.period = 200
exploration.decay_steps = 500
evaluation.period_steps = 1_000
evaluation.episodes = 2
checkpoint.period_steps = 200
logging.tensorboard = false
protocol.max_episode_steps = 80
"""


TEXT = text()
RUNS = [f"{agent}/CartPole-v1/seed{seed}" for seed in (0, 1) for agent in ("dqn", "dqn-pro")]


def command(home: Path, *options: str, name: str = "poles", steps: int = STEPS) -> list[str]:
    """The command line of the study in `home`; writes its file if missing."""
    home.mkdir(parents=True, exist_ok=True)
    if not (home / f"{name}.toml").exists():
        (home / f"{name}.toml").write_text(text(steps))
    return ["study", f"{name}.toml", "--scale", "tiny", *options]


def begin(home: Path, *options: str, steps: int = STEPS) -> forking.Process:
    """Start the study; its processes are forked."""
    return forking.start("proxrl", *command(home, *options, steps=steps), cwd=home, merge=True)


def run_study(
    home: Path, *options: str, name: str = "poles", steps: int = STEPS
) -> "subprocess.CompletedProcess[str]":
    """Run the study to its end; its processes are forked."""
    return forking.run("proxrl", *command(home, *options, name=name, steps=steps), cwd=home)


def execute(home: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the study to its end; each of its processes is a new interpreter."""
    return subprocess.run(
        [sys.executable, "-m", "proxrl", *command(home, *options)],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def run_folders(home: Path) -> dict[str, Path]:
    return {name: home / "runs" / "poles-tiny" / name for name in RUNS}


def step_of(folder: Path) -> int:
    return RunFolder(folder).newest_step() or 0


def pid_of(folder: Path) -> int:
    """The pid of the process that last started to train there."""
    about = json.loads((folder / ATTEMPTS / f"{newest_attempt(folder)}.json").read_text())
    return int(about["pid"])


def wait_until(happened: Callable[[], bool], process: forking.Process | None) -> None:
    """Wait without a time limit, but fail if it can no longer happen."""
    while not happened():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"it ended before: {process.communicate()[0]}")
        time.sleep(0.02)


def assert_same_bits(one: Path, other: Path) -> None:
    """Compare metrics, episodes and the whole final checkpoint. What it says about the one before
    may differ in one way: a run that was stopped late, and continued, has a later one there."""
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), (name, other)
    (arrays, state), (its_arrays, its_state) = (_final(folder) for folder in (one, other))
    before, its_before = (each.pop("previous_log") for each in (state, its_state))
    assert its_before == before or before["steps"] < its_before["steps"] < state["step"]
    assert state == its_state
    assert arrays.keys() == its_arrays.keys()
    for name, array in arrays.items():
        assert array.tobytes() == its_arrays[name].tobytes(), name


def _final(folder: Path):  # type: ignore[no-untyped-def]
    steps = RunFolder(folder).config().steps
    kept = checkpoint_steps(folder / "checkpoints")
    assert kept == [steps], f"{folder}: a finished run keeps its last checkpoint alone"
    return split(read(checkpoint_path(folder / "checkpoints", steps)))
