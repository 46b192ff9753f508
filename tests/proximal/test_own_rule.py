"""The rule that docs/rules.md writes: trained, logged, resumed, explained and refused."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxrl import cli, presets
from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.runs.folder import METRICS
from proxrl.runs.lines import read_lines
from proxrl.training.run import resume, train
from tests.end_to_end.runs import newest
from tests.end_to_end.victim import SMALL

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
HALF_LIFE = 4


@pytest.fixture(autouse=True)
def _fading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's example as fading.py."""
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    (tmp_path / "fading.py").write_text(found.group(1), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("fading", None)


def config(*options: str) -> RunConfig:
    """Syncs every 10 updates, 20 steps, after a warm-up of 100 steps."""
    settings = {
        **SMALL,
        "network.hidden": (16,),
        "target.period": 20,
        "evaluation.episodes": 1,
        "evaluation.period_steps": 20,
        "checkpoint.period_steps": 150,
        "proximal.rule": "fading:Fading",
        "proximal.options": options,
    }
    return presets.make("dqn-pro", "CartPole-v1", settings, steps=300)


def test_the_pages_rule_fades_logs_and_is_bit_identical_after_a_resume(tmp_path: Path) -> None:
    run = config(f"half_life={HALF_LIFE}")
    train(run, tmp_path / "whole")
    train(run.override({"steps": 150}), tmp_path / "resumed")
    resume(tmp_path / "resumed", {"steps": 300}, trust=True)
    whole, resumed = (newest(tmp_path / name) for name in ("whole", "resumed"))
    assert whole[0].keys() == resumed[0].keys()
    assert all((whole[0][name] == resumed[0][name]).all() for name in whole[0])
    assert whole[1]["learner"]["rule.syncs"] == resumed[1]["learner"]["rule.syncs"] > HALF_LIFE

    lines = [line for line in read_lines(tmp_path / "whole" / METRICS) if "rule/kappa" in line]
    first, *kappas = [line["rule/kappa"] for line in lines]  # the first is not a whole interval
    assert kappas[HALF_LIFE] == pytest.approx(kappas[0] / 2)
    assert kappas[0] < first <= run.pull_per_sync


def test_its_help_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["train", "dqn-pro", "--env", "CartPole-v1", "--proximal.rule", "fading:Fading"]
    with pytest.raises(SystemExit):
        cli.parse([*line, "--help"])
    out = capsys.readouterr().out
    assert "half_life=10  Syncs after which the pull is half as strong." in out
    assert "--proximal.adaptive.smoothing" in out


def test_an_invalid_option_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="half_life 0: must be at least 1"):
        train(config("half_life=0"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
