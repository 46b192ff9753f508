"""Environments that misbehave: one line and exit code 2, or the same bits; never a traceback."""

import os
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.envs import checks
from proxrl.runs.folder import RunFolder
from tests.envs.zoo import ZOO, id_of

SAMPLE = (
    "floats-in-uint8",
    "image-broadcasts",
    "vector-nan-late",
    "discrete-negative",
    "reward-nan",
    "reward-a-string",
    "raises-at-birth",
    "exits-late",
    "changes-folder",
    "close-raises",
)
SETTINGS = (
    "--steps 240 --threads 1 --network.hidden 8 --network.kind mlp --replay.warmup-steps 32 "
    "--replay.batch-size 8 --evaluation.period-steps 120 --evaluation.episodes 1 --protocol.stack "
    "1 --checkpoint.period-steps 120 --logging.tensorboard False --folder run"
)


def trained(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Train in a folder of its own; returns the exit code."""
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr(checks, "_warned", set())
    try:
        cli.main(["train", "dqn", "--env", id_of(name), *SETTINGS.split(" ")])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def require_fate(
    name: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    animal = ZOO[name]
    code = trained(name, home / "wild", monkeypatch)
    errors = capsys.readouterr().err
    assert os.getcwd() == str(home / "wild")
    warnings = [record.message for record in caplog.records]
    assert animal.says in errors + "".join(warnings)
    assert len(warnings) <= 1
    assert "Traceback" not in errors
    place = RunFolder(home / "wild" / "run")
    if animal.fate == "harmless":
        assert code == 0, errors
        assert trained("tame", home / "tame", monkeypatch) == 0
        for file in ("metrics.jsonl", "episodes.jsonl"):
            wild, tame = (home / one / "run" / file for one in ("wild", "tame"))
            assert wild.read_text().replace(name, "tame") == tame.read_text()
        return
    assert code == 2, errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith("proxrl: ")
    assert animal.says in last
    assert name in last
    if animal.fate == "refused":
        assert errors.strip() == last, "one line"
        assert not place.path.exists(), "nothing is written"
    else:
        assert place.failure.read_text().strip() == last.removeprefix("proxrl: ")
        assert "of episode" in last
        state = place.newest_checkpoint(say=print)
        assert state is not None
        assert state["step"] == 120, "nothing is lost"


@pytest.mark.parametrize("name", SAMPLE)
def test_a_misbehaving_environment_is_named(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    require_fate(name, tmp_path, monkeypatch, capsys, caplog)


@pytest.mark.faults
@pytest.mark.parametrize("name", ZOO)
def test_the_whole_zoo(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    require_fate(name, tmp_path, monkeypatch, capsys, caplog)
