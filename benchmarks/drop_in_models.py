"""Models of other libraries with the pull, on MinAtar Breakout: what overhead.py trains."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn
from torch.optim import Optimizer

from benchmarks.drop_in import PRESET, make_env, make_model
from benchmarks.minatar_cnn import MinAtarCNN
from proxrl.integrations.sb3_contrib import QRDQNPro
from proxrl.integrations.tianshou import DQNPro
from proxrl.proximal import Proximal
from proxrl.proximal.anchor import Anchor

STEPS = 2_000  # in the replay


@dataclass(frozen=True)
class Model:
    """`train(optimizer, updates)` trains it with another optimizer than its own."""

    where: str
    proximal: Proximal  # with a fixed c
    anchor: Anchor
    train: Callable[[Optimizer, int], None]
    updates: int = 50  # of a block; adaptive pulls measure every 10


def dqn() -> Model:
    model = make_model("DQNPro", make_env("Breakout"), seed=0)
    return _stable_baselines3("DQN of Stable-Baselines3", model, model.q_net_target)


def quantile_dqn() -> Model:
    model = make_model("DQNPro", make_env("Breakout"), seed=0, kind=QRDQNPro)
    made = _stable_baselines3("QR-DQN of sb3-contrib", model, model.quantile_net_target)
    return replace(made, updates=10)  # ten times as slow as DQN


def _stable_baselines3(where: str, model: Any, target: nn.Module) -> Model:
    model.learn(STEPS)

    def train(optimizer: Optimizer, updates: int) -> None:
        model.policy.optimizer = optimizer
        model.train(gradient_steps=updates, batch_size=PRESET.replay.batch_size)

    return Model(where, model.proximal, target, train)


class Network(nn.Module):
    """MinAtar's network with the signature of Tianshou's."""

    def __init__(self, space: Any, actions: int) -> None:
        super().__init__()
        self.body, self.last = MinAtarCNN(space), nn.Linear(128, actions)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        return self.last(self.body(torch.as_tensor(obs, dtype=torch.float32))), state


def tianshou_dqn() -> Model:
    """On random play."""
    env = make_env("Breakout")
    policy = DiscreteQLearningPolicy(
        model=Network(env.observation_space, int(env.action_space.n)),
        action_space=env.action_space,
    )
    algorithm = DQNPro(
        policy=policy,
        optim=AdamOptimizerFactory(lr=PRESET.learner.learning_rate),
        target_update_freq=round(PRESET.updates_per_sync),
    )
    buffer = _random_play(env)

    def train(optimizer: Optimizer, updates: int) -> None:
        algorithm.optim._optim = optimizer
        with policy_within_training_step(policy):
            for _ in range(updates):
                algorithm.update(buffer=buffer, sample_size=PRESET.replay.batch_size)

    return Model("DQN of Tianshou", algorithm.proximal, algorithm._anchor, train)


def _random_play(env: Any) -> ReplayBuffer:
    buffer, actions = ReplayBuffer(STEPS), np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    for _ in range(STEPS):
        action = int(actions.integers(env.action_space.n))
        following, reward, terminated, truncated, _ = env.step(action)
        step = {"obs": seen, "act": action, "rew": reward, "obs_next": following, "info": {}}
        buffer.add(Batch(**step, terminated=terminated, truncated=truncated))  # type: ignore[arg-type]
        seen = env.reset()[0] if terminated or truncated else following
    return buffer
