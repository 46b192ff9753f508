"""Environments given as ids with keyword arguments, as factories and as objects."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv
from gymnasium.wrappers import TransformReward

from proxrl import Agent, Callback, presets, resume, train
from proxrl.envs import given, make
from proxrl.envs.given import arguments_of, with_arguments
from proxrl.errors import EnvironmentFault, UserError
from tests.end_to_end.victim import SMALL

MODULE = """
import gymnasium

def make_lake(size=4, render_mode=None):
    return gymnasium.make(
        "FrozenLake-v1", map_name=f"{size}x{size}", is_slippery=False, render_mode=render_mode
    )

not_a_factory = 3
"""


@pytest.fixture
def my_lakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "my_lakes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_lakes", raising=False)
    import my_lakes  # type: ignore[import-not-found]

    return my_lakes


def slippery(config: Any) -> bool:
    made = make(config.env, config.protocol)._env.unwrapped  # type: ignore[attr-defined]
    assert isinstance(made, FrozenLakeEnv)
    return len(made.P[0][0]) > 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"is_slippery": False}, "FrozenLake-v1,is_slippery=false"),
        ({"is_slippery": True, "map_name": "8x8"}, "FrozenLake-v1,is_slippery=true,map_name=8x8"),
        ({"success_rate": 0.5}, "FrozenLake-v1,success_rate=0.5"),
        ({"desc": None, "n": 3}, "FrozenLake-v1,desc=null,n=3"),
    ],
)
def test_keyword_arguments_are_part_of_the_name(arguments: dict[str, Any], text: str) -> None:
    assert with_arguments("FrozenLake-v1", arguments) == text
    assert arguments_of(text) == ("FrozenLake-v1", arguments)


@pytest.mark.parametrize(
    "value", [["SF", "HG"], "a,b", "3", "true", {"a": 1, "b": 2}, object(), (1, 2)]
)
def test_arguments_that_a_config_cannot_hold_are_rejected(value: object) -> None:
    with pytest.raises(UserError, match="pass a function that makes the environment instead"):
        with_arguments("FrozenLake-v1", {"desc": value})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_that_are_nested_too_deeply_are_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (nested(30_000), endless):
        with pytest.raises(
            UserError, match=r"env_kwargs: desc = \[.* cannot be written"
        ) as refused:
            with_arguments("FrozenLake-v1", {"desc": value})
        assert len(str(refused.value)) < 200
    with pytest.raises(UserError, match=r"desc = \[+\.\.\. is nested too deeply") as refused:
        arguments_of("FrozenLake-v1,desc=" + "[" * 30_000)
    assert len(str(refused.value)) < 200


def test_an_id_with_keyword_arguments_is_made_with_them(tmp_path: Path) -> None:
    config = presets.make("dqn", "FrozenLake-v1", SMALL, env_kwargs={"is_slippery": False})
    assert config.env == "FrozenLake-v1,is_slippery=false"
    assert not slippery(config)
    assert slippery(presets.make("dqn", "FrozenLake-v1"))
    assert config == presets.make("dqn", "FrozenLake-v1,is_slippery=False", SMALL).override(
        {"env": config.env}
    )
    agent = train(config.override({"steps": 150}), tmp_path / "run")
    assert agent.evaluate(1).protocol["env"] == config.env, "scores are not mixed with others"
    assert Agent.load(tmp_path / "run").config == agent.config


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("FrozenLake-v1,slippery", "'slippery' must be KEY=VALUE"),
        ("FrozenLake-v1,no_such=1", "no_such"),
        ("ALE/Breakout-v5,mode=1", "suite atari take no arguments"),
        ("my_lakes:not_a_factory", "not_a_factory"),
        ("python:forgotten", "unknown in this process: pass it to presets.make again"),
    ],
)
def test_mistakes_are_named(env: str, message: str, my_lakes: Any) -> None:
    with pytest.raises(UserError, match=message):
        make(env, presets.make("dqn", "CartPole-v1").protocol)


def test_an_importable_function_is_named_and_works_in_other_processes(my_lakes: Any) -> None:
    config = presets.make("dqn", my_lakes.make_lake)
    assert config.env == "my_lakes:make_lake"
    assert not slippery(config)
    large = presets.make("dqn", "my_lakes:make_lake,size=8")
    assert make(large.env, large.protocol).observation.shape == (64,)
    with_pictures = make(config.env, config.protocol, pictures=True)
    with_pictures.reset(np.random.SeedSequence(0))
    assert with_pictures.render().ndim == 3


def test_a_local_function_is_registered_and_resumes_after_the_same_call(tmp_path: Path) -> None:
    class Stop(Callback):
        def on_step(self, run: Any) -> bool:
            return bool(run.step < 120)

    def lake() -> "gymnasium.Env[Any, Any]":
        return gymnasium.make("FrozenLake-v1", desc=["SF", "HG"])

    config = presets.make("dqn", lake, SMALL, steps=200)
    assert config.env.startswith("python:test_a_local_function")
    train(config, tmp_path / "run", callbacks=[Stop()])
    given._factories.clear()
    with pytest.raises(UserError, match="unknown in this process"):
        resume(tmp_path / "run")
    presets.make("dqn", lake)
    assert resume(tmp_path / "run").step == 200
    train(config, tmp_path / "whole")
    for name in ("metrics.jsonl", "episodes.jsonl"):
        one, other = (tmp_path / run / name for run in ("run", "whole"))
        assert one.read_bytes() == other.read_bytes()


def test_a_name_can_stand_for_another_environment_later() -> None:
    first = presets.make("dqn", lambda: gymnasium.make("CartPole-v1"))
    second = presets.make("dqn", lambda: gymnasium.make("Acrobot-v1"))
    assert first.env == second.env
    assert make(second.env, second.protocol).observation.shape == (6,)


def test_an_object_of_gymnasium_make_is_its_id_and_arguments(
    recwarn: pytest.WarningsRecorder,
) -> None:
    made = gymnasium.make("FrozenLake-v1", is_slippery=False, render_mode="rgb_array")
    config = presets.make("dqn", made)
    assert config.env == "FrozenLake-v1,map_name=4x4,is_slippery=false"
    assert not slippery(config)
    assert presets.make("dqn", gymnasium.make("CartPole-v1")).env == "CartPole-v1"
    assert not [one for one in recwarn if "environment object" in str(one.message)]


def test_an_object_with_wrappers_is_copied_with_a_warning(tmp_path: Path) -> None:
    made = TransformReward(gymnasium.make("CartPole-v1"), lambda reward: 10 * float(reward))
    with pytest.warns(UserWarning, match="pass a function that makes the environment") as warned:
        config = presets.make("dqn", made, SMALL, steps=150)
    assert warned[0].filename == __file__
    assert config.env == "python:TransformReward-TimeLimit-CartPoleEnv"
    one, other = (make(config.env, config.protocol) for _ in range(2))
    one.reset(np.random.SeedSequence(1))
    assert one.step(0).reward == 10.0
    with pytest.raises(EnvironmentFault, match="ResetNeeded"):
        other.step(0)
    agent = train(config, tmp_path / "run")
    assert agent.evaluate(1).mean >= 10


def test_a_time_limit_of_the_object_is_kept() -> None:
    made = gymnasium.make("CartPole-v1", max_episode_steps=7)
    with pytest.warns(UserWarning, match="environment object"):
        config = presets.make("dqn", made)
    limited = make(config.env, config.protocol)
    limited.reset(np.random.SeedSequence(1))
    ends = [limited.step(step % 2).game_over for step in range(7)]
    assert ends == 6 * [False] + [True]


def test_an_object_that_cannot_be_copied_is_named() -> None:
    class Stuck(gymnasium.Wrapper):  # type: ignore[type-arg]
        def __deepcopy__(self, memo: object) -> None:
            raise TypeError("cannot pickle 'socket' object")

    with (
        pytest.warns(UserWarning, match="environment object"),
        pytest.raises(UserError, match=r"cannot copy Stuck-TimeLimit-CartPoleEnv .*'socket'.*pass"),
    ):
        presets.make("dqn", Stuck(gymnasium.make("CartPole-v1")))


@pytest.mark.parametrize("wrong", [None, 3, ["CartPole-v1"]])
def test_what_is_no_environment_is_rejected(wrong: object) -> None:
    with pytest.raises(UserError, match="must be a Gymnasium id, a function"):
        presets.make("dqn", wrong)
    with pytest.raises(UserError, match=r"returned NoneType: must be a gymnasium\.Env"):
        presets.make("dqn", lambda: None)
    with pytest.raises(UserError, match="env_kwargs are for an environment id"):
        presets.make("dqn", lambda: None, env_kwargs={"a": 1})
