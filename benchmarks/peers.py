"""One training process of one library, timed after warm-up; prints a JSON line.

    python -m benchmarks.peers proxrl atari --threads 2
    python -m benchmarks.peers sb3 minatar --threads 1 --profile

Both get the same environment protocol, network, batch, update period, replay size and torch.
Stable-Baselines3 gets its memory-optimised replay and the faster of the documented Atari wrappers
(Gymnasium's, which reads grayscale screens from the emulator). It always computes the norm of the
gradient, in order to clip it at 10; proxrl's presets do not clip. Exploration is at its final value
for both, so that both ask their network at every step.
"""

import argparse
import atexit
import cProfile
import json
import pstats
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks.command_line import count, parser
from benchmarks.machine import matmul_gflops
from proxrl import presets
from proxrl.runs.folder import RunFolder
from proxrl.training.loop import Trainer
from proxrl.training.resources import available_cores

ENVS = {"atari": "ALE/Breakout-v5", "minatar": "MinAtar/Breakout-v1", "cartpole": "CartPole-v1"}
WARMUP = {"atari": 2_000, "minatar": 5_000, "cartpole": 2_000}
TIMED = {"atari": 1_200, "minatar": 8_000, "cartpole": 6_000}  # agent steps
SETTLE = 200  # agent steps with updates before the clock starts
CAPACITY = 50_000
NETWORKS = {"atari": "nature", "minatar": "minatar", "cartpole": "mlp"}  # as SB3 has them


def warm_run(agent: str, suite: str, threads: int, network: str | None = None) -> Trainer:
    """A run past its warm-up, exploring as little as it ever will, in a folder that goes away."""
    config = presets.make(
        agent,
        ENVS[suite],
        {
            "replay.capacity": CAPACITY,
            "replay.warmup_steps": WARMUP[suite],
            "exploration.decay_steps": 0,
            "logging.tensorboard": False,
            "evaluation.period_steps": 10**9,
            "threads": threads,
            **({} if network is None else {"network.kind": network}),
        },
    )
    place = tempfile.mkdtemp(prefix="proxrl-bench-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = RunFolder(place)
    folder.write_config(config)
    run = Trainer(config, folder)
    while run.step < WARMUP[suite] + SETTLE:
        run.advance()
    return run


def time_proxrl(suite: str, threads: int, network: str) -> Callable[[], float]:
    """Prepared up to the point where the clock starts."""
    run = warm_run("dqn-pro", suite, threads, network)

    def timed() -> float:
        start, first = time.perf_counter(), run.step
        while run.step < first + TIMED[suite]:
            run.advance()
            if run.checkpoint_is_due:
                run.save()
        return TIMED[suite] / (time.perf_counter() - start)

    return timed


def time_sb3(suite: str, threads: int) -> Callable[[], float]:
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(threads)
    config = presets.make("dqn", ENVS[suite])
    model = DQN(
        "MlpPolicy" if suite == "cartpole" else "CnnPolicy",
        _sb3_env(suite),
        learning_rate=config.learner.learning_rate,
        buffer_size=CAPACITY,
        learning_starts=WARMUP[suite],
        batch_size=config.replay.batch_size,
        train_freq=config.learner.update_period_steps,
        gradient_steps=1,
        target_update_interval=config.target.period,
        exploration_fraction=1e-9,
        exploration_initial_eps=config.exploration.final_epsilon,
        exploration_final_eps=config.exploration.final_epsilon,
        optimize_memory_usage=True,
        replay_buffer_kwargs={"handle_timeout_termination": False},
        policy_kwargs=_sb3_policy(suite, config.learner.adam_epsilon),
        device="cpu",
        seed=0,
    )

    class Clock(BaseCallback):
        start = 0.0
        rate = 0.0

        def _on_step(self) -> bool:
            steps = self.num_timesteps - WARMUP[suite] - SETTLE
            if steps == 0:
                self.start = time.perf_counter()
            if steps == TIMED[suite]:
                self.rate = TIMED[suite] / (time.perf_counter() - self.start)
            return steps < TIMED[suite]

    clock = Clock()

    def timed() -> float:
        model.learn(10**9, callback=clock)
        return clock.rate

    return timed


def _sb3_env(suite: str) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    if suite == "cartpole":
        return DummyVecEnv([lambda: gymnasium.make(ENVS[suite])])
    if suite == "minatar":
        import minatar.gym

        minatar.gym.register_envs()

        def make_minatar() -> Any:
            env = gymnasium.make(ENVS[suite], sticky_action_prob=0.1)
            space = gymnasium.spaces.Box(0, 1, env.observation_space.shape, np.uint8)
            return gymnasium.wrappers.TransformObservation(
                env, lambda state: state.astype(np.uint8), space
            )

        return DummyVecEnv([make_minatar])
    import ale_py

    gymnasium.register_envs(ale_py)

    def make_atari() -> Any:
        raw = gymnasium.make(ENVS[suite], frameskip=1, repeat_action_probability=0.25)
        env = gymnasium.wrappers.AtariPreprocessing(
            raw, noop_max=0, frame_skip=4, screen_size=84, grayscale_newaxis=True
        )
        return gymnasium.wrappers.TransformReward(env, lambda reward: float(np.sign(reward)))

    return VecFrameStack(DummyVecEnv([make_atari]), 4)


def _sb3_policy(suite: str, adam_epsilon: float) -> dict[str, Any]:
    policy: dict[str, Any] = {"optimizer_kwargs": {"eps": adam_epsilon}}
    if suite == "cartpole":
        policy |= {"net_arch": list(presets.make("dqn", ENVS[suite]).network.hidden)}
    if suite == "minatar":
        from benchmarks.minatar_cnn import MinAtarCNN

        policy |= {
            "features_extractor_class": MinAtarCNN,
            "net_arch": [],
            "normalize_images": False,
        }
    return policy


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("peer", choices=["proxrl", "sb3"])
    accepted.add_argument("suite", choices=list(ENVS))
    accepted.add_argument("--threads", type=count, default=available_cores(), help="all cores")
    accepted.add_argument("--network", help="of proxrl; else the one that both have")
    accepted.add_argument("--profile", action="store_true", help="print where the time went")
    options = accepted.parse_args(argv)
    if options.network and options.peer == "sb3":
        accepted.error("--network is for proxrl only")
    return options


def main(options: argparse.Namespace) -> None:
    suite, threads = options.suite, options.threads
    if options.peer == "proxrl":
        timed = time_proxrl(suite, threads, options.network or NETWORKS[suite])
    else:
        timed = time_sb3(suite, threads)
    profile = cProfile.Profile() if options.profile else None
    rate = profile.runcall(timed) if profile else timed()
    result = {"peer": options.peer, "suite": suite, "threads": threads, "steps_per_second": rate}
    result["matmul_gflops"] = matmul_gflops()
    print(json.dumps(result))
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    main(arguments())
