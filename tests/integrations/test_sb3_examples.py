"""Examples from Stable-Baselines3's documentation with the class replaced.

They use fewer steps; nothing else is changed.
"""

from pathlib import Path
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv, FakeImageEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize
from torch import nn

from proxrl.integrations.sb3_contrib import QRDQNPro
from proxrl.integrations.stable_baselines3 import DQNPro


@pytest.mark.parametrize("pro", [DQNPro, QRDQNPro])
def test_learn_save_load_predict(tmp_path: Path, pro: Any) -> None:
    env = gym.make("CartPole-v1")
    policy_kwargs = {"n_quantiles": 50} if issubclass(pro, QRDQN) else None
    model = pro("MlpPolicy", env, policy_kwargs=policy_kwargs, verbose=0)
    model.learn(total_timesteps=500, log_interval=4)
    model.save(tmp_path / "cartpole")
    del model

    model = pro.load(tmp_path / "cartpole")
    obs, _ = env.reset()
    for _ in range(20):
        action, _states = model.predict(obs, deterministic=True)
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()
    mean, _ = evaluate_policy(model, Monitor(env), n_eval_episodes=2)
    assert mean > 0.0


def test_eval_and_checkpoint_callbacks(tmp_path: Path) -> None:
    eval_env = Monitor(gym.make("CartPole-v1"))
    callbacks = [
        EvalCallback(
            eval_env,
            best_model_save_path=str(tmp_path),
            eval_freq=200,
            n_eval_episodes=2,
            verbose=0,
        ),
        CheckpointCallback(save_freq=200, save_path=str(tmp_path), save_replay_buffer=True),
    ]
    model = DQNPro("MlpPolicy", "CartPole-v1", pull_per_sync=1.0, buffer_size=1_000)
    model.learn(400, callback=callbacks)  # type: ignore[arg-type]
    best = DQNPro.load(tmp_path / "best_model")
    assert best.pull_per_sync == 1.0
    resumed = DQNPro.load(tmp_path / "rl_model_400_steps", env=model.get_env())
    resumed.load_replay_buffer(tmp_path / "rl_model_replay_buffer_400_steps")
    resumed.learn(200, reset_num_timesteps=False)
    assert resumed.num_timesteps >= 600


def test_normalised_vectorised_environments() -> None:
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=4, seed=0))
    model = DQNPro("MlpPolicy", env, c=0.2, train_freq=1, gradient_steps=-1, buffer_size=1_000)
    model.learn(400)
    assert model._n_updates == 400 - 100  # one update per transition after learning starts


def test_environments_in_subprocesses() -> None:
    env = make_vec_env("CartPole-v1", n_envs=2, vec_env_cls=SubprocVecEnv)
    DQNPro("MlpPolicy", env, c=0.2, buffer_size=1_000).learn(200)
    env.close()


class CustomCNN(BaseFeaturesExtractor):
    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 32) -> None:
        super().__init__(observation_space, features_dim)
        self.cnn = nn.Sequential(
            nn.Conv2d(observation_space.shape[0], 8, 8, stride=4), nn.ReLU(), nn.Flatten()
        )
        with torch.no_grad():
            flat = self.cnn(torch.as_tensor(observation_space.sample()[None]).float()).shape[1]
        self.linear = nn.Sequential(nn.Linear(flat, features_dim), nn.ReLU())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.linear(self.cnn(observations))  # type: ignore[no-any-return]


def test_a_custom_policy() -> None:
    model = DQNPro(
        "CnnPolicy",
        FakeImageEnv(screen_height=40, screen_width=40),
        c=0.2,
        buffer_size=200,
        learning_starts=20,
        policy_kwargs={
            "features_extractor_class": CustomCNN,
            "features_extractor_kwargs": {"features_dim": 16},
            "net_arch": [16],
            "optimizer_class": torch.optim.RMSprop,
            "optimizer_kwargs": {"alpha": 0.95},
        },
    )
    model.learn(60)
    assert isinstance(model.proximal.inner, torch.optim.RMSprop)


def test_the_papers_update_on_real_atari() -> None:
    gym.register_envs(ale_py)
    env = AtariWrapper(gym.make("BreakoutNoFrameskip-v4"))
    model = DQNPro("CnnPolicy", env, c=0.2, buffer_size=200, learning_starts=20, device="cpu")
    model.learn(40)
    assert model._n_updates == 5
    assert 0.0 < model.proximal.distance() < 1.0


def test_hindsight_replay_with_dict_observations() -> None:
    env = BitFlippingEnv(n_bits=4, continuous=False, max_steps=4)
    model = DQNPro(
        "MultiInputPolicy",
        env,
        c=0.2,
        buffer_size=1_000,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
    )
    model.learn(200)
    action, _ = model.predict(env.reset()[0], deterministic=True)
    assert np.asarray(action).shape == ()
