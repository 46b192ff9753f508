"""The verdicts of docs/criteria.md, D: on reports of runs with the studies' settings, by hand."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proxrl.studies.definition import load
from proxrl.studies.expand import Job, expand
from tests.docs.tools import TOOLS, tool, write_comparisons

ablations = tool("ablations")

AS_IN_THE_PAPER = {  # the return of a variant that is not DQN's, or Rainbow's, 1
    "period": {"dqn-pro": 1.5},
    "polyak": {"dqn-pro": 1.5},
    "anneal": {"dqn-anneal-tenth": 1.2, "dqn-anneal-hundredth": 0.9, "dqn-pro": 1.5},
    "value-space": {"dqn-pro": 1.5},
    "larger-c": {"rainbow-pro-c-0.05": 0.5, "rainbow-pro-c-0.1": 0.8},
}
AGAINST = {
    "period": {"dqn-period-2000": 0.9, "dqn-pro": 0.95},
    "polyak": {"dqn-polyak-tau-0.05": 0.5, "dqn-pro": 0.8},
    "anneal": {"dqn-anneal-tenth": 0.8, "dqn-anneal-hundredth": 0.8, "dqn-pro": 1.2},
    "value-space": {"dqn-values": 1.2},
    "larger-c": {"rainbow-pro-c-0.05": 0.8, "rainbow-pro-c-0.1": 0.5},
}
INCONCLUSIVE = {
    "period": {},
    "polyak": {"dqn-polyak-tau-0.05": 1.5, "dqn-pro": 1.5},  # ahead of two of three
    "anneal": {"dqn-pro": 1.5},  # annealing helps nothing, harms nothing
    "value-space": {"dqn-pro": 1.0},
    "larger-c": {"rainbow-pro-c-0.05": 1.5},  # nothing to recover
}


def jobs_of(root: Path, name: str, seeds: int = 3) -> list[Job]:
    study = load(name)
    scale = study.scales["session"]
    return expand(study, scale, root, seeds=scale.seeds[:seeds])


def report(root: Path, name: str, levels: dict[str, float], seeds: int = 3) -> Path:
    """The comparisons of a study's runs, each with the return of its variant and some noise."""
    jobs = jobs_of(root, name, seeds)
    noise = {job: np.random.default_rng(n).normal() for n, job in enumerate(jobs)}
    return write_comparisons(
        root, jobs, lambda job, _: 100.0 * levels.get(job.variant, 1.0) + noise[job]
    )


def program(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "ablations.py"), name, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (AS_IN_THE_PAPER, "as in the paper"),
        (AGAINST, "against the paper"),
        (INCONCLUSIVE, "inconclusive"),
    ],
)
@pytest.mark.parametrize("name", AS_IN_THE_PAPER)
def test_reports_of_runs_that_differ_by_far(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    levels: dict[str, dict[str, float]],
    said: str,
) -> None:
    """No run of one side is among those of the other: the smallest p, 2/400, times up to 4."""
    claim = ablations.CLAIMS[name]
    folder = report(tmp_path, name, levels[name])
    assert {job.variant for job in jobs_of(tmp_path, name)} >= levels[name].keys()
    ablations.main(claim, folder)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{claim.words}: {said} (an indication: 6 runs per variant)"
    pairs = (*claim.condition, *claim.all_of, *claim.one_of, *claim.besides)
    assert [line.split(" | ")[0] for line in lines[2:-2]] == [
        f"| {x} against {y}" for x, y in pairs
    ]


def test_incomplete_runs_get_no_verdict(tmp_path: Path) -> None:
    said = program("larger-c", report(tmp_path, "larger-c", {}, seeds=2))
    assert said.returncode == 1
    assert "Rainbow Pro (c 0.05) against Rainbow Pro (c 0.025) (2 games, 4 runs)" in said.stderr
    assert (
        "not a folder written by `proxrl report`" in program("larger-c", tmp_path / "none").stderr
    )
    assert "usage:" in program("unknown", tmp_path).stderr


FIRST, SECOND = ("x", "a"), ("x", "b")
MAYBE, OTHER = ("b", "a"), ("c", "a")
NEEDED = ("a", "z")
CLAIM = ablations.Claim("words", (FIRST, SECOND), one_of=(MAYBE, OTHER), condition=(NEEDED,))
AHEAD = {FIRST: (0.9, 0.05), SECOND: (0.9, 0.05), NEEDED: (0.9, 0.05)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({MAYBE: (0.9, 0.025), OTHER: (0.1, 0.001)}, "as in the paper"),
        ({MAYBE: (0.9, 0.026)}, "inconclusive"),  # 0.052 when corrected
        ({MAYBE: (0.9, 0.001), SECOND: (0.9, 0.051)}, "inconclusive"),  # all of them
        ({SECOND: (0.1, 0.025)}, "against the paper"),
        ({SECOND: (0.1, 0.026)}, "inconclusive"),  # 0.052 when corrected
        ({MAYBE: (0.1, 0.05), OTHER: (0.1, 0.05)}, "against the paper"),
        ({MAYBE: (0.1, 0.05), OTHER: (0.1, 0.051)}, "inconclusive"),
        ({SECOND: (0.1, 0.001), NEEDED: (0.9, 0.051)}, "inconclusive"),
        ({MAYBE: (0.9, 0.001), NEEDED: (0.1, 0.001)}, "inconclusive"),
    ],
)
def test_the_criterion(changes: dict[tuple[str, str], tuple[float, float]], said: str) -> None:
    found = {MAYBE: (0.5, 1.0), OTHER: (0.5, 1.0), **AHEAD, **changes}
    rows = {
        pair: ablations.Row(value, 0.0, 1.0, p, games=2, runs=6)
        for pair, (value, p) in found.items()
    }
    assert ablations.verdict(CLAIM, rows) == said
