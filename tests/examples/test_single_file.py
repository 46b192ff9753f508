"""The single-file example runs, from the shell and as functions, with and without the pull."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest
import torch
from torch import nn

EXAMPLE = Path(__file__).parents[2] / "examples" / "dqn_pro_single_file.py"
SHORT = ["--steps", "900", "--warmup-steps", "100", "--target-period", "64"]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dqn_pro_single_file", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def weights(example: ModuleType, *words: str) -> torch.Tensor:
    network, returns = example.train(example.arguments([*SHORT, *words]))
    assert len(returns) > 5
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def test_it_repeats_itself_and_c_matters(example: ModuleType) -> None:
    pulled = weights(example)
    assert torch.equal(pulled, weights(example))
    assert not torch.equal(pulled, weights(example, "--c", "inf"))
    assert not torch.equal(pulled, weights(example, "--seed", "1"))


def test_infinite_c_is_the_same_loop_around_plain_adam(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = weights(example, "--c", "inf")
    monkeypatch.setattr(torch.optim.Adam, "distance", lambda _: 0.0, raising=False)
    monkeypatch.setattr(example, "Proximal", lambda adam, *_: adam)
    assert torch.equal(off, weights(example, "--c", "inf"))


def test_from_the_shell() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *SHORT], capture_output=True, text=True, check=True
    )
    assert "mean return of 20 episodes without exploration" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("c", ["0.064", "inf"])
def test_it_learns_cartpole(
    example: ModuleType, c: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeds 0, 1 and 2, fixed in advance; the median must pass."""
    scores = []
    for seed in ("0", "1", "2"):
        network, _ = example.train(example.arguments(["--seed", seed, "--c", c]))
        scores.append(example.evaluate(network))
    with capsys.disabled():
        print(f"\nthe single-file example with c = {c}, seeds 0, 1, 2: {scores}")
    assert median(scores) >= 200


def test_it_is_about_a_hundred_lines() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 120
