"""Environments with very short or endless episodes, non-deterministic ones, and ones that fail."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from proxrl import cli, presets
from proxrl.errors import EnvironmentFault
from proxrl.runs.folder import RunFolder
from proxrl.training.run import resume, train
from tests.end_to_end.runs import Listener, newest
from tests.end_to_end.victim import SMALL


class Bandit(gymnasium.Env[Any, Any]):
    """Episodes of one step: two frames per step."""

    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), float(action), True, False, {}


class Reusing(gymnasium.Env[Any, Any]):
    """A deterministic image, always in the same array."""

    observation_space = spaces.Box(0, 255, (12, 12), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.picture = np.zeros((12, 12), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.picture[:] = 0
        return self.picture, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.picture += 1
        return self.picture, 0.0, False, False, {}


gymnasium.register("proxrl-tests/Bandit-v0", entry_point=Bandit)


gymnasium.register("proxrl-tests/Reusing-v0", entry_point=Reusing)


def test_episodes_of_one_step_never_run_out_of_room(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 3000, "replay.capacity": 1000, "checkpoint.period_steps": 1000}
    config = presets.make("dqn", "proxrl-tests/Bandit-v0", settings)
    train(config, tmp_path / "run")
    assert newest(tmp_path / "run")[1]["step"] == 3000


class Flash(gymnasium.Env[Any, Any]):
    """Images, and episodes of one step: the replay holds about half of its capacity."""

    observation_space = spaces.Box(0, 255, (40, 40), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros((40, 40), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros((40, 40), np.uint8), 1.0, True, False, {}


gymnasium.register("proxrl-tests/Flash-v0", entry_point=Flash)


def test_a_warm_up_that_does_not_fit_ends_when_the_replay_is_full(tmp_path: Path) -> None:
    """The ring keeps 16 MB more frames than its capacity: 10,486 of these, too few here."""
    settings = {
        **SMALL,
        "replay.capacity": 30_000,
        "replay.warmup_steps": 25_000,
        "steps": 20_600,
        "learner.update_period_steps": 100,
        "evaluation.period_steps": 20_600,
        "checkpoint.period_steps": 20_600,
        "network.hidden": (8,),
    }
    train(presets.make("dqn", "proxrl-tests/Flash-v0", settings), tmp_path / "run")
    _, state = newest(tmp_path / "run")
    assert state["log"]["oldest"] > 0
    assert state["learner"]["updates"] > 0


class Endless(gymnasium.Env[Any, Any]):
    """A random walk that never ends: one episode spans many checkpoints and any history."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = np.zeros(2, np.float32)
        return self.place.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += (self.np_random.normal(size=2) + action).astype(np.float32)
        return self.place.copy(), float(self.place[0]), False, False, {}


gymnasium.register("proxrl-tests/Endless-v0", entry_point=Endless)


def test_an_episode_longer_than_the_replay_resumes_bit_identically(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 1200, "protocol.max_episode_steps": 2_000}
    config = presets.make("dqn-pro", "proxrl-tests/Endless-v0", settings)
    train(config, tmp_path / "whole")
    train(config.override({"steps": 1050}), tmp_path / "halves")
    listener = Listener()
    resume(tmp_path / "halves", {"steps": 1200}, display=listener)
    assert not any("not restorable" in line for line in listener.said)
    (arrays, state), (its_arrays, its_state) = (
        newest(tmp_path / name) for name in ("whole", "halves")
    )
    assert state["episodes"]["number"] == 1
    assert state["log"] == its_state["log"]
    assert state["generators"] == its_state["generators"]
    for name, array in arrays.items():
        assert array.tobytes() == its_arrays[name].tobytes(), name


def test_an_evaluation_without_a_time_limit_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxrl.training.evaluate.EPISODE_LIMIT", 70)
    settings = {**SMALL, "steps": 300, "protocol.max_episode_steps": None}
    listener = Listener()
    agent = train(
        presets.make("dqn", "proxrl-tests/Endless-v0", settings), tmp_path / "run", listener
    )
    said = [line for line in listener.said if "no time limit" in line]
    assert said == [
        "proxrl-tests/Endless-v0 declares no time limit: evaluation episodes are truncated after "
        "70 steps (set protocol.max_episode_steps)"
    ], "once"
    assert agent.evaluate(episodes=2).lengths == [70, 70]
    assert newest(tmp_path / "run")[1]["episodes"]["number"] == 1, "training is not affected"


def test_the_time_limit_of_a_preset_is_said_before_training(tmp_path: Path) -> None:
    listener = Listener()
    settings = {**SMALL, "steps": 150, "evaluation.period_steps": 150}
    assert presets.make("dqn", "proxrl-tests/Endless-v0").protocol.max_episode_steps == 27_000
    settings["protocol.max_episode_steps"] = 80
    train(presets.make("dqn", "proxrl-tests/Endless-v0", settings), tmp_path / "run", listener)
    said = (
        "proxrl-tests/Endless-v0 declares no time limit: episodes are truncated after 80 steps "
        "(protocol.max_episode_steps)"
    )
    assert listener.said.count(said) == 1


def test_eval_of_an_environment_without_a_time_limit_says_so_before_it_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**SMALL, "steps": 150, "protocol.max_episode_steps": 80}
    train(presets.make("dqn", "proxrl-tests/Endless-v0", settings), tmp_path / "run")
    capsys.readouterr()
    cli.main(["eval", str(tmp_path / "run"), "--episodes", "1", "--json"])
    out, error = capsys.readouterr()
    assert json.loads(out)["lengths"] == [80]
    assert "declares no time limit: episodes are truncated after 80 steps" in error


def test_an_environment_with_a_time_limit_of_its_own_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxrl.training.evaluate.EPISODE_LIMIT", 70)
    gymnasium.register("Limited-v0", Endless, max_episode_steps=90)
    settings = {**SMALL, "steps": 150, "protocol.max_episode_steps": None}
    listener = Listener()
    agent = train(presets.make("dqn", "Limited-v0", settings), tmp_path / "run", listener)
    assert agent.evaluate(episodes=1).lengths == [90]
    assert not any("time limit" in line for line in listener.said)


def test_an_environment_that_reuses_its_array_is_restorable(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 310}
    train(presets.make("dqn", "proxrl-tests/Reusing-v0", settings), tmp_path / "run")
    listener = Listener()
    resume(tmp_path / "run", {"steps": 450}, display=listener)
    assert not any("not restorable" in line for line in listener.said)


class Moody(gymnasium.Env[Any, Any]):
    """Ignores its seed: not reproducible."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)
    generator = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> Any:
        return self.generator.uniform(-1, 1, 2).astype(np.float32)


gymnasium.register("proxrl-tests/Moody-v0", entry_point=Moody)


def test_an_environment_that_does_not_repeat_itself_is_named(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 330}
    train(presets.make("dqn", "proxrl-tests/Moody-v0", settings), tmp_path / "run")
    listener = Listener()
    resume(tmp_path / "run", {"steps": 600}, display=listener)
    named = [line for line in listener.said if "not restorable" in line]
    assert len(named) == 1
    assert "proxrl-tests/Moody-v0" in named[0]
    assert newest(tmp_path / "run")[1]["step"] == 600


class Crash(gymnasium.Env[Any, Any]):
    """Raises an unexpected error after a while."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps > 200:
            raise KeyError("a fault of the environment's own")
        return np.zeros(2, np.float32), 0.0, False, self.steps % 20 == 0, {}


def test_an_unforeseen_fault_is_shown_as_a_failure(tmp_path: Path) -> None:
    gymnasium.register("Crash-v0", Crash)
    message = (
        r"Crash-v0: step\(\) raised KeyError: .*own. \(.*, line \d+\), at step 1 of episode 11"
    )
    with pytest.raises(EnvironmentFault, match=message) as caught:
        train(presets.make("dqn", "Crash-v0", {**SMALL, "steps": 400}), tmp_path / "run")
    assert isinstance(caught.value.__cause__, KeyError)
    assert "KeyError" in RunFolder(tmp_path / "run").failure.read_text()
