"""Helpers: start victims, and check that two runs are bit-identical."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proxrl.config import RunConfig
from proxrl.replay import Gather, ReplayLog
from proxrl.replay.log import ring_sizes
from proxrl.runs.checkpoint import checkpoint_path, checkpoint_steps, read, split
from proxrl.runs.folder import RunFolder
from proxrl.training import returns
from proxrl.training.progress import Display
from proxrl.types import Array, ObservationSpec
from tests import forking

VICTIM = "tests.end_to_end.victim"


def live(name: str, folder: Path, *fault: str) -> "subprocess.CompletedProcess[str]":
    """Run a victim in a forked process."""
    return forking.run(VICTIM, name, str(folder), *fault, cwd=forking.ROOT)


def begin(name: str, folder: Path, *fault: str) -> "subprocess.Popen[str]":
    """Start a victim in a new interpreter."""
    return subprocess.Popen(
        [sys.executable, "-m", VICTIM, name, str(folder), *fault],
        cwd=forking.ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


class Listener(Display):
    """A display that records its messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


def newest(folder: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """(arrays by name, the rest) of a run's newest checkpoint."""
    place = RunFolder(folder)
    steps = checkpoint_steps(place.checkpoints)
    return split(read(checkpoint_path(place.checkpoints, steps[-1])))


def memory(config: RunConfig, folder: Path, spec: ObservationSpec) -> dict[str, Array]:
    """All transitions alive in a run's replay, in order."""
    state = newest(folder)[1]
    log = ReplayLog(
        RunFolder(folder).log(state["log_start"]),
        spec,
        config.replay.capacity,
        config.checkpoint.period_steps,
        reopen=True,
    )
    log.load(state["log"])
    steps = np.arange(log.oldest, log.steps)
    batch = Gather(log, len(steps), 1, 0.99, torch.device("cpu"))(steps)
    return {
        name: value if isinstance(value, np.ndarray) else value.numpy().copy()
        for name, value in batch._asdict().items()
        if value is not None
    }


def assert_same_bits(config: RunConfig, one: Path, other: Path, spec: ObservationSpec) -> None:
    """Final weights, moments, generators, counters, metrics and replay."""
    (arrays, state), (its_arrays, its_state) = newest(one), newest(other)
    assert state == its_state
    assert arrays.keys() == its_arrays.keys()
    for name, array in arrays.items():
        assert array.tobytes() == its_arrays[name].tobytes(), name
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    mine, its = (memory(config, folder, spec) for folder in (one, other))
    for name, array in mine.items():
        assert array.tobytes() == its[name].tobytes(), f"replay {name}"


def assert_long_enough(config: RunConfig, folder: Path, spec: ObservationSpec) -> None:
    """Check that a fault could show in this run."""
    _, state = newest(folder)
    _, frame_ring, step_ring = ring_sizes(
        spec, config.replay.capacity, config.checkpoint.period_steps
    )
    assert state["log"]["frames"] >= 2 * frame_ring, "the frame ring wraps twice"
    assert state["log"]["steps"] >= 2 * step_ring, "the step ring wraps twice"
    assert config.steps // config.checkpoint.period_steps >= 10, "checkpoints"
    assert state["learner"]["updates"] // config.updates_per_sync >= 5, "syncs"
    assert config.steps // config.evaluation.period_steps >= 3, "evaluations"
    assert state["learner"]["updates"] >= 500, "updates"
    assert returns.KEY in (folder / "metrics.jsonl").read_text(), "training returns per period"
