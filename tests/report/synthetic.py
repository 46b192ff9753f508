"""Run folders with synthetic curves, for tests and benchmarks.report only.

The curves are plausible in shape (saturating, with noise) but mean nothing.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from proxrl import presets
from proxrl.config import RunConfig, to_json
from proxrl.report.scores import PAPER, paper_games
from proxrl.runs.checkpoint import checkpoint_path, write
from proxrl.training.evaluate import protocol


def write_run(
    folder: Path,
    config: RunConfig,
    returns: Callable[[int], Sequence[float]],
    until: int | None = None,
    sync_distance: float = 1.0,
) -> Path:
    """A run folder as `train` leaves it; `returns(step)` are an evaluation's episodes."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(to_json(config), indent=2) + "\n")
    rules = config.evaluation
    stamp = protocol(config, rules.episodes, rules.epsilon, rules.min_steps)
    period, last = config.evaluation.period_steps, until or config.steps
    steps = [*range(period, last, period), last]
    with open(folder / "metrics.jsonl", "w") as file:
        for step in steps:
            scores = [float(score) for score in returns(step)]
            file.write(json.dumps(_line(step, scores, sync_distance, stamp)) + "\n")
    (folder / ".lock").touch()
    return folder


def write_checkpoint(folder: Path, config: RunConfig, step: int) -> Path:
    """A checkpoint without weights that agrees with the other files of the folder."""
    lines = {
        part: path.read_bytes() if (path := folder / f"{part}.jsonl").exists() else b""
        for part in ("metrics", "episodes")
    }
    logger = {part: len(content) for part, content in lines.items()}
    digests = {f"{part}_sha256": sha256(content).hexdigest() for part, content in lines.items()}
    path = checkpoint_path(folder / "checkpoints", step)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, {"step": step, "config": to_json(config), "logger": {**logger, **digests}})
    return path


def _line(step: int, scores: list[float], distance: float, stamp: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": step,
        "updates": step // 4,
        "train/epsilon": 0.01,
        "train/episode_return": sum(scores) / len(scores),
        "train/episode_length": 523.0712347,
        "train/loss": 0.0923421,
        "train/mean_value": 3.123456789,
        "train/parameter_distance": distance * 0.6,
        "train/value_distance": distance * 0.2,
        "train/sync_distance": distance,
        "train/episodes": 19,
        "train/syncs": 1,
        "eval/mean_return": sum(scores) / len(scores),
        "eval/std_return": float(np.std(scores)),
        "eval/returns": scores,
        "eval/lengths": [500] * len(scores),
        "protocol": stamp,
    }


def preset(agent: str, env: str, changes: dict[str, Any] | None = None, **top: Any) -> RunConfig:
    """A preset; for agents that proxrl does not have, DQN's under their name."""
    known = agent if agent in presets.AGENTS else "dqn"
    config = presets.make(known, env, changes, **top)
    if known != agent:
        config = config.override({"agent": agent})
        if agent.endswith("-pro"):
            config = config.override({"proximal.c": 0.05})
    return config


def write_study(
    root: Path,
    games: Iterable[str] = paper_games(),
    agents: Iterable[str] = ("dqn", "dqn-pro", "rainbow", "rainbow-pro"),
    seeds: Iterable[int] = range(5),
    steps: int = 30_000_000,
    period: int = 10_000,
) -> None:
    """A study shaped like the paper's: every agent on every game with every seed."""
    level = {"dqn": 0.75, "dqn-pro": 0.95, "rainbow": 1.3, "rainbow-pro": 1.55}
    for number, game in enumerate(games):
        low, high = PAPER.scores.get(game, (100.0, 2000.0))
        for agent in agents:
            index = list(level).index(agent)
            for seed in seeds:
                generator = np.random.default_rng([number, index, seed])
                skill = np.random.default_rng(number).lognormal(0.0, 0.9)
                top = skill * level[agent] * generator.lognormal(0.0, 0.12)
                top *= np.random.default_rng([number, index]).lognormal(0.0, 0.25)
                pace = steps * np.random.default_rng(number + 1000).uniform(0.1, 0.6)
                config = preset(
                    agent,
                    f"ALE/{game}-v5",
                    {"evaluation.period_steps": period},
                    seed=seed,
                    steps=steps,
                )
                noise = iter(generator.normal(1.0, 0.2, 2 * math.ceil(steps / period)))

                def returns(
                    step: int,
                    top: float = top,
                    pace: float = pace,
                    span: float = high - low,
                    low: float = low,
                    noise: Any = noise,
                ) -> list[float]:
                    mean = top * (1 - math.exp(-step / pace))
                    return [round(low + span * mean * next(noise), 1) for _ in range(2)]

                write_run(
                    root / f"{agent}_{game}_{seed}",
                    config,
                    returns,
                    sync_distance=(0.7 if agent.endswith("pro") else 1.0)
                    * float(skill**0.1)
                    * generator.uniform(0.9, 1.1),
                )
