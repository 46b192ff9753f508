"""Real training with the presets' settings: `make test-slow` prints every seed.

Seeds 0, 1 and 2 were fixed in advance; the median must pass. The score is the mean return of the
evaluation episodes in the last 5% of the run's steps (at least one evaluation), and for CartPole of
20 fresh episodes.
"""

import multiprocessing
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from proxrl import presets
from proxrl.runs.folder import METRICS
from proxrl.runs.lines import read_lines
from proxrl.training.run import train

SEEDS = (0, 1, 2)


def learn(job: tuple[str, str, int, dict[str, Any], Path]) -> tuple[float, float]:
    """(mean of the last 5%, mean of 20 fresh episodes) of one run."""
    agent, env, seed, settings, folder = job
    config = presets.make(agent, env, {**settings, "logging.tensorboard": False}, seed=seed)
    trained = train(config.override({"threads": 1}), folder / f"{seed}")
    lines = read_lines(folder / f"{seed}" / METRICS)
    last = [line for line in lines if line["step"] >= 0.95 * config.steps]
    final = fmean(value for line in last for value in line["eval/returns"])
    return final, trained.evaluate(20).mean


def learn_all(
    agent: str, env: str, settings: dict[str, Any], folder: Path
) -> list[tuple[float, float]]:
    jobs = [(agent, env, seed, settings, folder) for seed in SEEDS]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return pool.map(learn, jobs, chunksize=1)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["dqn", "dqn-pro", "rainbow-pro"])
def test_cartpole_is_solved(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = [fresh for _, fresh in learn_all(agent, "CartPole-v1", {}, tmp_path)]
    with capsys.disabled():
        print(f"\n{agent} on CartPole-v1, seeds {SEEDS}: {scores}, median {median(scores):.1f}")
    assert median(scores) >= 475


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "bar"), [("dqn", 7), ("dqn-pro", 7), ("rainbow-pro", 8)])
def test_minatar_breakout_is_learnt(
    agent: str, bar: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = learn_all(agent, "MinAtar/Breakout-v1", {"steps": 500_000}, tmp_path)
    scores = [final for final, _ in runs]
    with capsys.disabled():
        print(f"\n{agent} on MinAtar/Breakout-v1 at 500,000 steps, seeds {SEEDS}: {scores}")
    assert median(scores) > bar
