"""What must not import torch, which takes seconds: reading commands, errors, a study's driver."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.synthetic import preset, write_checkpoint, write_run
from tests.studies.small import TEXT

# Runs the command line in this process, then fails if torch was imported.
PROGRAM = """
import sys
from proxrl import cli
code = 0
try:
    cli.main(sys.argv[1:])
except SystemExit as left:
    code = left.code or 0
assert "torch" not in sys.modules, "torch was imported"
sys.exit(code)
"""
CARTPOLE = ["train", "dqn", "--env", "CartPole-v1"]


def proxrl(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "torch was imported" not in done.stderr, done.stderr
    return done


def test_runs_and_report(tmp_path: Path) -> None:
    settings = {"evaluation.period_steps": 1000}
    for agent in ("dqn", "dqn-pro"):
        config = preset(agent, "CartPole-v1", settings, steps=4000)
        write_run(tmp_path / "runs" / agent, config, lambda step: [1.0, step / 100])
    listed = proxrl("runs", "runs", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("finished") == 2
    reported = proxrl("report", "runs", "--resamples", "20", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert (tmp_path / "runs" / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "unknown command"),
        (["train", "a2c", "--env", "CartPole-v1"], "unknown preset"),
        (["train", "dqn", "--env", "CartPol-v1"], "did you mean CartPole-v1"),
        (["train", "dqn", "--env", "Pendulum-v1"], "discrete actions"),
        ([*CARTPOLE, "--proximl.c", "1"], "did you mean --proximal.c?"),
        ([*CARTPOLE, "--learner.learning-rate", "-1"], "must be positive"),
        ([*CARTPOLE, "--folder", "/dev/null/x"], "cannot write to /dev/null/x"),
        (
            [*CARTPOLE, "--network.kind", "nothing"],
            "unknown network.kind nothing: choose",
        ),
        ([*CARTPOLE, "--proximal.rule", "nothing"], "unknown proximal.rule nothing: choose from"),
        (["resume", "nowhere"], "not a run folder"),
        (["eval", "nowhere"], "not a run folder"),
        (["play", "nowhere"], "not a run folder"),
        (["runs", "nowhere"], "not a folder"),
        (["report", "nowhere"], "does not exist"),
        (["study", "nothing"], "unknown study"),
    ],
)
def test_refusals(arguments: list[str], message: str, tmp_path: Path) -> None:
    refused = proxrl(*arguments, cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_resume_of_a_finished_run(tmp_path: Path) -> None:
    config = preset("dqn", "CartPole-v1", {"evaluation.period_steps": 1000}, steps=2000)
    run = write_run(tmp_path / "run", config, lambda step: [1.0])
    write_checkpoint(run, config, 2000)
    resumed = proxrl("resume", "run", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "run is finished at step 2,000: set more steps (--steps) to extend it" in resumed.stderr


def test_a_studys_driver_from_the_dry_run_to_the_report(tmp_path: Path) -> None:
    """Training and measuring happen in other processes."""
    (tmp_path / "poles.toml").write_text(TEXT)
    words = ["study", "poles.toml", "--scale", "tiny", "--seeds", "0", "--only", "dqn"]
    dry = proxrl(*words, "--dry-run", cwd=tmp_path)
    assert dry.returncode == 0, dry.stderr
    assert "calibrated with a few updates" in dry.stdout
    done = proxrl(*words, "--export", "results", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exported 1 run to results" in done.stdout
    assert "report (open it in a browser)" in done.stdout
