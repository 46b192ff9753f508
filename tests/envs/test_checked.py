"""Environments of third-party suites that are not Gymnasium's: checked on every step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from proxrl.config import ProtocolConfig
from proxrl.envs import Episodes, make
from proxrl.errors import EnvironmentFault, UserError
from proxrl.suites import ANY, register_suite, registry
from proxrl.types import Array, End, ObservationSpec, TimeStep

GOOD = TimeStep(np.zeros(3, np.float32), 1.0, End.NO, game_over=False)


class Foreign:
    """An `Environment` whose third step can be replaced."""

    observation = ObservationSpec((3,), "float32")
    actions = 2
    first_action = 0
    raw_shape = (3,)
    third: Callable[[], Any] = staticmethod(lambda: GOOD)

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        return GOOD._replace(reward=0.0)

    def step(self, action: int) -> Any:
        self.steps += 1
        return type(self).third() if self.steps == 3 else GOOD

    def encode(self, raw: Any) -> Array:
        return np.asarray(raw, np.float32)

    def render(self) -> Array:
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        raise RuntimeError("not closable")


def made(env: str, protocol: ProtocolConfig, pictures: bool) -> Foreign:
    return Foreign()


@pytest.fixture(autouse=True)
def suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    spec = EnvSpec("Foreign-v0", entry_point=lambda: None)
    monkeypatch.setitem(gymnasium.registry, "Foreign-v0", spec)
    register_suite(replace(ANY, name="foreign", ids="Foreign-v0", make=f"{__name__}:made"))


def bad(**changes: Any) -> Callable[[], Any]:
    return staticmethod(lambda: GOOD._replace(**changes))


@pytest.mark.parametrize(
    ("third", "message"),
    [
        (bad(reward=float("nan")), "the reward is nan"),
        (bad(reward=None), "the reward is None"),
        (bad(reward="1"), "the reward is the string"),
        (bad(observation=np.zeros(3)), "the observation is float64 of shape (3,): its spec decla"),
        (bad(observation=np.zeros(2, np.float32)), "of shape (2,)"),
        (bad(observation=np.full(3, np.inf, np.float32)), "the value inf"),
        (bad(observation=[0.0] * 3), "the observation is of type list"),
        (bad(end=7), "end is 7"),
        (bad(end=End.TRUNCATED), "game_over is False at a truncated step"),
        (bad(game_over=None), "game_over is None"),
        (staticmethod(lambda: (0, 0.0, False)), "step() returned of type tuple"),
        (staticmethod(lambda: {}["k"]), "step() raised KeyError: 'k' (test_checked.py, line"),
    ],
)
def test_what_it_returns_is_checked(
    third: Callable[[], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Foreign, "third", third)
    episodes = Episodes(make("Foreign-v0", ANY.base.protocol), 0, (0,))
    episodes.begin()
    for _ in range(2):
        episodes.step(0)
    with pytest.raises(EnvironmentFault) as found:
        episodes.step(0)
    assert str(found.value).startswith("Foreign-v0: ")
    assert message in str(found.value)
    assert str(found.value).endswith(", at step 3 of episode 1")
    episodes.environment.close()  # logged only


def test_a_valid_one_is_passed_through() -> None:
    environment = make("Foreign-v0", ANY.base.protocol)
    assert (environment.actions, environment.raw_shape) == (2, (3,))
    for _ in range(5):
        step = environment.step(1)
    assert step.reward == 1.0
    assert environment.render().shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("actions", 0, "has 0 actions"), ("observation", None, "is not an ObservationSpec")],
)
def test_what_it_declares_is_checked(
    name: str, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Foreign, name, value)
    with pytest.raises(UserError, match=message):
        make("Foreign-v0", ANY.base.protocol)
