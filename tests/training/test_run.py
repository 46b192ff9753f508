"""A run is built once: preflight, training and the returned agent use the same objects."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proxrl import Agent, presets, resume, train
from proxrl.source import source_version
from proxrl.training import environments, preflight
from tests.end_to_end.runs import Listener
from tests.end_to_end.victim import SMALL


def test_train_makes_each_environment_and_the_network_once_even_when_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(name: str, original: Any) -> Any:
        def call(*arguments: Any, **words: Any) -> Any:
            made.append(name)
            return original(*arguments, **words)

        return call

    monkeypatch.setattr(environments, "make", counted("environment", environments.make))
    build = counted("network", preflight.build_network)
    monkeypatch.setattr(preflight, "build_network", build)
    monkeypatch.setattr("proxrl.training.agent.build_network", build)
    listener = Listener()
    changes = {**SMALL, "evaluation.episodes": 3, "evaluation.environments": 2}
    config = presets.make("dqn-pro", "CartPole-v1", changes, steps=300)
    agent = train(config, tmp_path / "run", listener)
    assert sorted(made) == 3 * ["environment"] + ["network"], "one to train in, two to score in"
    assert "of training" in listener.said[0], "it was calibrated"

    loaded = Agent.load(tmp_path / "run")
    assert agent.step == loaded.step == 300
    for name, weights in loaded.network.state_dict().items():
        assert torch.equal(agent.network.state_dict()[name], weights), name
    assert not any(weight.requires_grad for weight in agent.network.parameters())
    assert agent.evaluate(2) == loaded.evaluate(2), "its environment is still open"
    observation = np.array([0.1, 0.2, -0.1, 0.0], dtype=np.float32)
    assert agent.predict(observation) == loaded.predict(observation)


def test_being_watched_changes_no_bit(tmp_path: Path) -> None:
    """Calibration plays in the evaluation environment and updates a copy."""
    config = presets.make("rainbow-full-pro", "CartPole-v1", SMALL, steps=400)
    watched = train(config, tmp_path / "watched", Listener())
    alone = train(config, tmp_path / "alone")
    for name, weights in watched.network.state_dict().items():
        assert torch.equal(alone.network.state_dict()[name], weights), name
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert (tmp_path / "watched" / name).read_bytes() == (
            tmp_path / "alone" / name
        ).read_bytes()


def test_every_process_that_trained_a_run_is_recorded(tmp_path: Path) -> None:
    config = presets.make("dqn", "CartPole-v1", SMALL, steps=300)
    train(config, tmp_path / "run")
    resume(tmp_path / "run", {"steps": 400})
    lines = (tmp_path / "run" / "machine.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert (first["from_step"], second["from_step"]) == (0, 300)
    assert first["proxrl"] == second["proxrl"] == source_version()
    assert first["torch"] == metadata.version("torch")
    assert first["cpu"]
