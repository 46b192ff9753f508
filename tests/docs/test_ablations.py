"""The verdicts of docs/evidence.md, D: on reports of runs with the studies' settings, by hand."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proxrl.studies.definition import load
from proxrl.studies.expand import expand
from tests.docs.tools import TOOLS, tool, write_comparisons

ablations = tool("ablations")

SUPPORT = {  # the return of a variant that is not DQN's 1: what each claim says
    "period": {"dqn-pro": 1.5},
    "polyak": {"dqn-pro": 1.5},
    "anneal": {"dqn-anneal-tenth": 1.2, "dqn-anneal-hundredth": 1.2, "dqn-pro": 1.5},
    "value-space": {"dqn-pro": 1.5},
    "larger-c": {"rainbow-pro-c-0.05": 0.5},
}


def report(root: Path, name: str, levels: dict[str, float], seeds: int = 3) -> Path:
    """The comparisons of a study's runs, each with the return of its variant and some noise."""
    study = load(name)
    scale = study.scales["session"]
    jobs = expand(study, scale, root, seeds=scale.seeds[:seeds])
    noise = {job: np.random.default_rng(n).normal() for n, job in enumerate(jobs)}
    return write_comparisons(
        root, jobs, lambda job, _: 100.0 * levels.get(job.variant, 1.0) + noise[job]
    )


def program(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "ablations.py"), name, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", SUPPORT)
def test_runs_that_are_as_the_paper_says_and_their_opposite(tmp_path: Path, name: str) -> None:
    """No run of one side is among those of the other: the smallest p, 2/400, times up to 6."""
    claim = ablations.CLAIMS[name]
    levels = SUPPORT[name]
    said = program(name, report(tmp_path / "as", name, levels))
    assert said.stdout.splitlines()[-1] == f"{claim.words}: in the paper's direction", said.stderr
    turned = {variant: 2.0 - level for variant, level in levels.items()}
    said = program(name, report(tmp_path / "against", name, turned))
    assert said.stdout.splitlines()[-1] == f"{claim.words}: against the paper", said.stderr
    table = said.stdout.splitlines()[2:-2]
    assert len(table) == len(claim.ahead) + len(claim.not_behind)


def test_incomplete_runs_get_no_verdict(tmp_path: Path) -> None:
    said = program("larger-c", report(tmp_path, "larger-c", {}, seeds=2))
    assert said.returncode == 1
    assert "incomplete: Rainbow Pro (c 0.05) against Rainbow Pro (c 0.025)" in said.stderr
    assert (
        "not a folder written by `proxrl report`" in program("larger-c", tmp_path / "none").stderr
    )
    assert "usage:" in program("unknown", tmp_path).stderr


@pytest.mark.parametrize(
    ("differences", "p", "said"),
    [
        ((0.1, 0.2, 0.1), (0.05, 0.9, 0.9), "in the paper's direction"),
        ((0.1, 0.2, 0.1), (0.06, 0.9, 0.01), "inconclusive"),  # only of the two that must be ahead
        ((0.1, -0.2, 0.1), (0.01, 0.06, 0.9), "inconclusive"),
        ((0.1, -0.2, 0.1), (0.01, 0.05, 0.9), "against the paper"),
        ((0.1, 0.2, -0.1), (0.01, 0.9, 0.06), "in the paper's direction"),
        ((0.1, 0.2, -0.1), (0.01, 0.9, 0.05), "against the paper"),
    ],
)
def test_the_criterion(differences: tuple[float, ...], p: tuple[float, ...], said: str) -> None:
    pairs = (("x", "a"), ("x", "b"), ("y", "c"))
    claim = ablations.Claim("words", pairs[:2], not_behind=pairs[2:])
    found = ablations.verdict(
        claim, dict(zip(pairs, differences, strict=True)), dict(zip(pairs, p, strict=True))
    )
    assert found == said
