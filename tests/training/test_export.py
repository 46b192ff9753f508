"""Exported networks compute what `predict` and `q_values` do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proxrl import Agent, presets
from proxrl.agents.networks import build_network
from proxrl.errors import UserError
from proxrl.training.environments import scoring_environment

CASES = [
    ("dqn-pro", "CartPole-v1", {}),
    ("rainbow-full", "CartPole-v1", {}),  # categorical, dueling, noisy
    ("dqn", "MinAtar/Breakout-v1", {}),
    ("dqn", "FrozenLake-v1", {}),  # a discrete observation
    ("dqn", "ALE/Breakout-v5", {"network.kind": "nature"}),
    ("dqn-pro", "ALE/Breakout-v5", {}),  # nature-same
]


def agent_of(agent: str, env: str, changes: dict[str, Any]) -> Agent:
    config = presets.make(agent, env, changes)
    environment = scoring_environment(config)
    spec, actions = environment.observation, environment.actions
    network = build_network(spec, actions, config.network, 3, config.head)
    return Agent(network, config, [environment], 0)


def observations(agent: Agent, count: int) -> list[Any]:
    """As the environment gives them, random."""
    if agent.environment.raw_shape is None or agent.environment.raw_shape == ():
        return list(range(count))
    generator = np.random.default_rng(0)
    spec = agent.environment.observation
    if spec.stack > 1:  # states of pixels
        return list(generator.integers(0, 256, (count, *spec.state_shape)).astype(spec.dtype))
    shape = agent.environment.raw_shape
    return [(generator.normal(size=shape) > 0).astype(spec.dtype) for _ in range(count)]


@pytest.mark.parametrize(
    ("suffix", "agent", "env", "changes"),
    [
        pytest.param(
            suffix,
            *case,
            # .onnx takes seconds: in the fast suite only one case for each kind of layer
            marks=pytest.mark.slow if suffix == ".onnx" and case in (CASES[0], *CASES[3:5]) else (),
        )
        for suffix in (".onnx", ".pt2", ".pt")
        for case in CASES
    ],
)
def test_an_exported_network_has_the_same_values(
    suffix: str, agent: str, env: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    one = agent_of(agent, env, changes)
    file = tmp_path / f"policy{suffix}"
    seen = observations(one, 5)
    states, _ = one._states(seen if one.environment.raw_shape is None else np.array(seen))
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
        runtime = pytest.importorskip("onnxruntime")
        one.export(file)
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        (values,) = session.run(None, {"states": states})
    else:
        one.export(file)
        loaded: Any = torch.export.load(file).module() if suffix == ".pt2" else torch.jit.load(file)
        with torch.no_grad():
            values = loaded(torch.from_numpy(states)).numpy()
    assert values.shape == (5, one.environment.actions)
    expected = np.array([one.q_values(observation) for observation in seen])
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
    actions = [one.predict(observation)[0] for observation in seen]
    assert (values.argmax(1) + one.environment.first_action).tolist() == actions


def test_q_values_of_one_and_of_many() -> None:
    one = agent_of(*CASES[0])
    seen = np.array(observations(one, 4))
    assert one.q_values(seen).shape == (4, 2)
    assert one.q_values(seen[0]).shape == (2,)
    np.testing.assert_allclose(one.q_values(seen)[1], one.q_values(seen[1]), rtol=1e-5)
    with pytest.raises(UserError, match="an observation of CartPole-v1 has shape"):
        one.q_values(np.zeros(3))


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.onnx, \.pt2, \.pt"):
        agent_of(*CASES[0]).export(tmp_path / "policy.pkl")
