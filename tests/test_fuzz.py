"""Odd command lines: exit code 2, one line, nothing written. A sample, and all with `faults`."""

import random
from pathlib import Path

import pytest

from proxrl import cli, presets
from proxrl.config import flatten

ODD = (
    "9" * 400,
    "-" + "9" * 30,
    "nan",
    "\0",
    "[/red]",
    "../..",
    "$HOME",
    "é\ud800",
    "1e999",
    "None",
)
OPTIONS = [f"--{path.replace('_', '-')}" for path in flatten(presets.make("dqn", "CartPole-v1"))]
NAMES = ("\0", "x" * 300, "[/red]", "no:where", "\udcff", "~nobody/x")
COMMANDS = ("resume", "eval", "play", "runs", "report", "study", "frobnicate")

# The folder cannot be created, so that nothing is trained even where the odd value is valid.
LINES = [
    *(
        ["train", "dqn", "--env", "CartPole-v1", option, value, "--folder", "/dev/null/x"]
        for place, option in enumerate(OPTIONS)
        for value in (ODD[place % len(ODD)], ODD[(place + 3) % len(ODD)], ODD[(place + 6) % 10])
        if option not in ("--agent", "--env")
    ),
    *([command, name] for command in COMMANDS for name in NAMES),
    *(["train", name, "--env", "CartPole-v1"] for name in NAMES),
    *(["train", "dqn", "--env", name] for name in NAMES),
]
SAMPLE = random.Random(0).sample(LINES, 25)


def require_refused(
    line: list[str], home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    with pytest.raises(SystemExit) as left:
        cli.main(line)
    error = capsys.readouterr().err.strip()
    assert left.value.code == 2, error
    assert error.startswith("proxrl: ")
    assert "\n" not in error
    assert list(home.iterdir()) == []


def test_there_are_two_hundred() -> None:
    assert len(LINES) >= 200


@pytest.mark.parametrize("line", SAMPLE, ids=range(len(SAMPLE)))
def test_an_odd_line_is_refused_in_one_line(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_refused(line, tmp_path, monkeypatch, capsys)


@pytest.mark.faults
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_odd_line_is_refused_in_one_line(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_refused(line, tmp_path, monkeypatch, capsys)
