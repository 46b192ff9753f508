"""The switches of Rainbow: each pair in all four states, and (slow) all 64 combinations.

Each combination trains for 200 updates with finite values, and the same run stopped half-way and
resumed is bit-identical.
"""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from proxrl import presets
from proxrl.runs.folder import METRICS
from proxrl.runs.lines import read_lines
from proxrl.training.run import resume, train
from tests.end_to_end.runs import newest
from tests.end_to_end.victim import SMALL

SWITCHES = {
    "categorical": ("head.kind", "categorical"),
    "prioritised": ("replay.sampling", "prioritised"),
    "n-step": ("replay.n_step", 3),
    "double": ("learner.double", True),
    "dueling": ("network.dueling", True),
    "noisy": ("network.noisy", True),
}
# A pairwise covering array: any two switches are off, on and different, both ways, in some row.
PAIRWISE = [
    ("categorical", "prioritised", "n-step", "double", "dueling", "noisy"),
    ("categorical", "prioritised", "n-step"),
    ("categorical", "double", "dueling"),
    ("prioritised", "double", "noisy"),
    ("n-step", "dueling", "noisy"),
    (),
]
ALL = [on for size in range(7) for on in itertools.combinations(SWITCHES, size)]
STEPS = 200 * 2 + 100  # an update every 2 steps after a warm-up of 100


def exact_with(on: tuple[str, ...], folder: Path) -> None:
    settings = {
        **SMALL,
        "network.hidden": (16,),
        "target.period": 50,
        "evaluation.period_steps": 250,
        "evaluation.episodes": 1,
        **dict(SWITCHES[name] for name in on),
    }
    config = presets.make("dqn-pro", "CartPole-v1", settings, steps=STEPS)
    train(config, folder / "whole")
    train(config.override({"steps": STEPS // 2}), folder / "resumed")
    resume(folder / "resumed", {"steps": STEPS})

    (arrays, state), (its_arrays, its_state) = (
        newest(folder / name) for name in ("whole", "resumed")
    )
    assert state["learner"]["updates"] >= 200
    assert state["generators"] == its_state["generators"]
    assert arrays.keys() == its_arrays.keys()
    for name, array in arrays.items():
        assert np.isfinite(array).all(), name
        assert array.tobytes() == its_arrays[name].tobytes(), name
    lines = [line for line in read_lines(folder / "whole" / METRICS) if "train/loss" in line]
    assert lines
    assert all(math.isfinite(line["train/loss"]) for line in lines)


def test_any_two_switches_meet_in_all_four_states() -> None:
    for one, other in itertools.combinations(SWITCHES, 2):
        assert len({(one in on, other in on) for on in PAIRWISE}) == 4, (one, other)


@pytest.mark.parametrize("on", PAIRWISE, ids=lambda on: "+".join(on) or "none")
def test_in_pairs(on: tuple[str, ...], tmp_path: Path) -> None:
    exact_with(on, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("on", ALL, ids=lambda on: "+".join(on) or "none")
def test_all_combinations(on: tuple[str, ...], tmp_path: Path) -> None:
    exact_with(on, tmp_path)


def test_switches_make_a_difference(tmp_path: Path) -> None:
    """Every switch has an effect."""
    found = set()
    for name, (path, value) in {**SWITCHES, "none": ("seed", 0)}.items():
        config = presets.make(
            "dqn-pro", "CartPole-v1", {**SMALL, "network.hidden": (16,), path: value}, steps=300
        )
        train(config, tmp_path / name)
        arrays, _ = newest(tmp_path / name)
        found.add(arrays["online.body.layers.0.weight"].tobytes())
    assert len(found) == len(SWITCHES) + 1
