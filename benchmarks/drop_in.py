"""The drop-in for Stable-Baselines3: DQN against `DQNPro` on MinAtar (its cost: overhead.py).

    python -m benchmarks.drop_in                # train missing runs, then plot (12 runs)
    python -m benchmarks.drop_in --plot-only

Two games, three seeds, one thread; settings of proxrl's MinAtar preset except for the length, fixed
in advance, with c from kappa = 1. One run per core at a time. A finished run is one line of
results/drop-in/minatar.jsonl and is not repeated while its settings stay the same; an interrupted
run starts again. Returns are those of training episodes, including exploration.
"""

import argparse
import contextlib
import json
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import gymnasium
import minatar.gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

import proxrl
from benchmarks.command_line import parser
from benchmarks.minatar_cnn import MinAtarCNN
from proxrl import presets
from proxrl.integrations.stable_baselines3 import DQNPro, calls_per_sync
from proxrl.proximal import distance
from proxrl.training.resources import available_cores

GAMES = ("Breakout", "SpaceInvaders")
SEEDS = (0, 1, 2)
AGENTS: dict[str, type[DQN]] = {"DQN": DQN, "DQNPro": DQNPro}
STEPS = 100_000
DECAY = 0.5  # of the steps; the preset's 100,000 would be all of them
BINS = 30  # points of a curve
RESULTS = Path("results/drop-in/minatar.jsonl")
FIGURE = Path("docs/figures/drop-in.png")
PRESET = presets.make("dqn-pro", "MinAtar/Breakout-v1", {"proximal.c": 0.0625})  # kappa = 1


def make_env(game: str) -> gymnasium.Env[Any, Any]:
    if f"MinAtar/{game}-v1" not in gymnasium.registry:
        minatar.gym.register_envs()
    protocol = PRESET.protocol
    env = gymnasium.make(
        f"MinAtar/{game}-v1",
        sticky_action_prob=protocol.sticky_actions,
        max_episode_steps=protocol.max_episode_steps,
    )
    space = gymnasium.spaces.Box(0, 1, env.observation_space.shape, np.uint8)
    return Monitor(
        gymnasium.wrappers.TransformObservation(env, lambda seen: seen.astype(np.uint8), space)
    )


def settings_of(agent: str) -> dict[str, Any]:
    """The arguments of Stable-Baselines3's DQN."""
    learner = PRESET.learner
    settings = {
        "learning_rate": learner.learning_rate,
        "buffer_size": PRESET.replay.capacity,
        "learning_starts": PRESET.replay.warmup_steps,
        "batch_size": PRESET.replay.batch_size,
        "gamma": learner.discount,
        "train_freq": learner.update_period_steps,
        "gradient_steps": learner.updates_per_step,
        "target_update_interval": PRESET.target.period,
        "exploration_fraction": DECAY,
        "exploration_final_eps": PRESET.exploration.final_epsilon,
        "adam_epsilon": learner.adam_epsilon,
        "sticky_actions": PRESET.protocol.sticky_actions,
        "max_episode_steps": PRESET.protocol.max_episode_steps,
        "network": MinAtarCNN.__name__,
        "steps": STEPS,
    }
    return settings | ({"pull_per_sync": PRESET.pull_per_sync} if agent == "DQNPro" else {})


def make_model(
    agent: str, env: gymnasium.Env[Any, Any], seed: int, kind: type[Any] | None = None
) -> Any:
    """`kind`: another class with the arguments of this agent."""
    settings = settings_of(agent)
    for name in ("steps", "sticky_actions", "max_episode_steps", "network"):
        del settings[name]
    return (kind or AGENTS[agent])(
        "CnnPolicy",
        env,
        policy_kwargs={
            "features_extractor_class": MinAtarCNN,
            "net_arch": [],
            "normalize_images": False,
            "optimizer_kwargs": {"eps": settings.pop("adam_epsilon")},
        },
        device="cpu",
        seed=seed,
        **settings,
    )


# ------------------------------------------------------------------------------------- learning


class Recorder(BaseCallback):
    """Returns of finished episodes, and ||w - theta|| just before each sync, for either agent."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: list[tuple[int, float]] = []
        self.distances: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        model: Any = self.model
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append((self.num_timesteps, float(info["episode"]["r"])))
        if (model._n_calls + 1) % calls_per_sync(model) == 0:  # SB3 syncs right after callbacks
            online, target = model.q_net.parameters(), model.q_net_target.parameters()
            self.distances.append((self.num_timesteps, distance(list(online), list(target))))
        return True


def train(agent: str, game: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    model = make_model(agent, make_env(game), seed)
    recorder = Recorder()
    start = time.perf_counter()
    model.learn(STEPS, callback=recorder)
    tail = [value for step, value in recorder.returns if step > 0.9 * STEPS]
    return {
        "agent": agent,
        "game": game,
        "seed": seed,
        "settings": settings_of(agent),
        "c": getattr(model, "c", None),  # None: plain Stable-Baselines3
        "score": float(np.mean(tail)),  # mean return of training episodes in the last 10% of steps
        "episodes": len(recorder.returns),
        "returns": binned(recorder.returns),
        "target_distances": binned(recorder.distances),
        "seconds": round(time.perf_counter() - start, 1),
        "threads": 1,
        "torch": torch.__version__,
        "stable_baselines3": stable_baselines3.__version__,
        "proxrl": proxrl.__version__,
    }


def binned(values: list[tuple[int, float]]) -> list[float | None]:
    """Means over `BINS` equal intervals of steps; None for empty intervals."""
    bins: list[list[float]] = [[] for _ in range(BINS)]
    for step, value in values:
        bins[min(BINS - 1, (step - 1) * BINS // STEPS)].append(value)
    return [round(float(np.mean(each)), 4) if each else None for each in bins]


def finished() -> list[dict[str, Any]]:
    """Existing runs with the current settings."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    runs = []
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):  # a line truncated by a crash
            runs.append(json.loads(line))
    return [run for run in runs if run.get("settings") == settings_of(run["agent"])]


def train_missing() -> None:
    done = {(run["agent"], run["game"], run["seed"]) for run in finished()}
    wanted = [(agent, game, seed) for seed in SEEDS for game in GAMES for agent in AGENTS]
    missing = [run for run in wanted if run not in done]
    if not missing:
        return
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(missing)} of {len(wanted)} runs to train", flush=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(available_cores(), mp_context=context) as pool:
        for future in as_completed(pool.submit(train, *run) for run in missing):
            result = future.result()
            with RESULTS.open("a") as file:
                file.write("\n" * _ends_torn() + json.dumps(result) + "\n")
            print("{game} {agent} seed {seed}: {score:.2f}".format(**result), flush=True)


def _ends_torn() -> bool:
    return RESULTS.stat().st_size > 0 and not RESULTS.read_text().endswith("\n")


def plot() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    runs = finished()
    figure, axes = plt.subplots(2, len(GAMES), figsize=(5 * len(GAMES), 6), sharex=True)
    at = (np.arange(BINS) + 0.5) * STEPS / BINS / 1000
    for column, game in enumerate(GAMES):
        for agent, colour in zip(AGENTS, ("tab:gray", "tab:blue"), strict=True):
            chosen = [run for run in runs if (run["agent"], run["game"]) == (agent, game)]
            if not chosen:
                continue
            for row, key in enumerate(("returns", "target_distances")):
                curves = np.array([run[key] for run in chosen], dtype=float)  # [seeds, bins]
                axes[row, column].plot(at, curves.T, color=colour, alpha=0.3, linewidth=0.8)
                mean = np.nanmean(curves, axis=0)
                label = f"{agent} ({len(chosen)} seeds)"
                axes[row, column].plot(at, mean, color=colour, label=label)
        axes[0, column].set_title(f"MinAtar {game}")
        axes[1, column].set_xlabel("agent steps, thousands")
    axes[0, 0].set_ylabel("return of training episodes")
    axes[1, 0].set_ylabel("‖w − θ‖ before a sync")
    axes[0, 0].legend(frameon=False)
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=110)
    print(f"wrote {FIGURE}")
    for game in GAMES:
        for agent in AGENTS:
            chosen = [run for run in runs if (run["agent"], run["game"]) == (agent, game)]
            if not chosen:
                continue
            scores = ", ".join(f"{run['score']:.2f}" for run in chosen)
            mean = np.mean([run["score"] for run in chosen])
            area, moved = (
                np.nanmean(np.array([run[key] for run in chosen], dtype=float))
                for key in ("returns", "target_distances")
            )
            print(
                f"{game:<14}{agent:<8}scores {scores}, mean {mean:.2f}; over the whole run "
                f"{area:.2f}; mean target update {moved:.3f}"
            )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("--plot-only", action="store_true", help="train nothing")
    return accepted.parse_args(argv)


def main(plot_only: bool) -> None:
    if not plot_only:
        train_missing()
    plot()


if __name__ == "__main__":
    main(arguments().plot_only)
