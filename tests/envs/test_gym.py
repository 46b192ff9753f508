"""Any Gymnasium environment: conversion of observations, and one-line errors."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from proxrl.config import ProtocolConfig
from proxrl.envs import make
from proxrl.envs.gym import Gym
from proxrl.errors import EnvironmentFault, UserError
from proxrl.types import End

PLAIN = ProtocolConfig()


class Toy(gymnasium.Env[Any, Any]):
    """Observes samples of a space; ends on request."""

    def __init__(self, observation: "spaces.Space[Any]", action: "spaces.Space[Any]") -> None:
        self.observation_space, self.action_space = observation, action
        self.asked: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.asked.append(action)
        over = len(self.asked) == 2
        return self.observation_space.sample(), 1.0, False, over, {}


def toy(observation: "spaces.Space[Any]", action: "spaces.Space[Any] | None" = None) -> Gym:
    return Gym("Toy-v0", Toy(observation, action or spaces.Discrete(2)), PLAIN)


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Box(-1, 1, (4,)), (4,), "float32"),
        (spaces.Box(-1, 1, (2, 3)), (6,), "float32"),
        (spaces.Discrete(5), (5,), "float32"),
        (spaces.MultiBinary(3), (3,), "float32"),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (3,))}), (5,), "float32"),
        (spaces.Box(0, 255, (96, 96, 3), np.uint8), (96, 96, 3), "uint8"),
        (spaces.Box(0, 255, (40, 50), np.uint8), (40, 50), "uint8"),
        (spaces.Box(0, 255, (3, 40, 50), np.uint8), (40, 50, 3), "uint8"),
        (spaces.Box(0, 1, (40, 50, 3)), (40, 50, 3), "float32"),
        (spaces.Box(-np.inf, np.inf, (4, 5, 6)), (120,), "float32"),
    ],
)
def test_observations(space: "spaces.Space[Any]", shape: tuple[int, ...], dtype: str) -> None:
    environment = toy(space)
    assert (environment.observation.shape, environment.observation.dtype) == (shape, dtype)
    now = environment.reset(np.random.SeedSequence(0))
    assert now.observation.shape == shape
    assert now.observation.dtype == dtype


def test_a_discrete_state_becomes_one_hot() -> None:
    environment = make("FrozenLake-v1", PLAIN)
    now = environment.reset(np.random.SeedSequence(0))
    assert now.observation.tolist() == [1.0] + [0.0] * 15


@pytest.mark.parametrize("state", [np.array(-1), np.array(7)])
def test_a_discrete_state_in_an_array_is_checked_too(state: Any) -> None:
    """NumPy would take -1 for the last state."""
    environment = toy(spaces.Discrete(5))
    environment._env.reset = lambda seed: (np.array(3), {})  # type: ignore[method-assign]
    assert environment.reset(np.random.SeedSequence(0)).observation.tolist() == [0, 0, 0, 1, 0]
    environment._env.reset = lambda seed: (state, {})  # type: ignore[method-assign]
    with pytest.raises(EnvironmentFault, match=rf"is {state}: must be in Discrete\(5\)"):
        environment.reset(np.random.SeedSequence(0))


def test_truncation_is_not_termination_and_actions_may_start_anywhere() -> None:
    environment = toy(spaces.Box(-1, 1, (2,)), spaces.Discrete(3, start=-1))
    environment.reset(np.random.SeedSequence(0))
    environment.step(0)
    now = environment.step(2)
    assert (now.end, now.game_over) == (End.TRUNCATED, True)
    assert environment._env.asked == [-1, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("ALE/Brekout-v5", "did you mean ALE/Breakout-v5"),
        ("CartPol-v1", "did you mean CartPole-v1"),
        ("MinAtar/Brakout-v1", "did you mean MinAtar/Breakout-v1"),
        ("Pendulum-v1", "only discrete actions"),
        ("no_such_module:Name-v0", "cannot import no_such_module"),
    ],
)
def test_an_invalid_environment_is_a_one_line_error(env: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make(env, PLAIN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "protocol",
    [
        ProtocolConfig(frame_skip=4),
        ProtocolConfig(life_loss_terminal=True),
        ProtocolConfig(sticky_actions=0.25),
        ProtocolConfig(frame_size=64),
        ProtocolConfig(grayscale=False),
    ],
)
def test_unsupported_protocol_settings_are_rejected(protocol: ProtocolConfig) -> None:
    with pytest.raises(UserError, match="not by CartPole-v1"):
        make("CartPole-v1", protocol)
