"""Runs of the evidence are of one version: the first steps of one have the bits of the stored run.

With the compiled layers these do not depend on the CPU: the stored runs were made on several kinds.
"""

import dataclasses
import json
from pathlib import Path

import pytest

from proxrl import train
from proxrl.config import RunConfig
from proxrl.native import library
from proxrl.runs.folder import RunFolder

STORED = Path(__file__).parents[2] / "results" / "rules-laptop"


@pytest.mark.skipif(library() is None, reason="the stored runs used the compiled layers")
@pytest.mark.parametrize(
    ("variant", "game"), [("dqn-pro-adaptive", "Seaquest"), ("dqn-pro-kappa-1", "Breakout")]
)
def test_the_first_interval_is_that_of_the_stored_run(
    variant: str, game: str, tmp_path: Path
) -> None:
    stored = STORED / variant / game / "seed0"
    config: RunConfig = RunFolder(stored).config()
    steps = config.evaluation.period_steps
    train(dataclasses.replace(config, steps=steps), tmp_path / "run")
    expected = (stored / "metrics.jsonl").read_text().splitlines()[0]
    (found,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(found) == json.loads(expected)
