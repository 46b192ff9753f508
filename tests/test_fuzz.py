"""Odd command lines: exit code 2, one line, nothing written; or, if the odd value is valid, a
run. A sample, and all with `faults`."""

import io
import itertools
import random
import re
from pathlib import Path

import pytest
from rich.console import Console

from proxrl import cli, presets
from proxrl.config import flatten
from proxrl.runs.folder import RunFolder
from proxrl.studies.board import Board
from proxrl.studies.expand import Job
from proxrl.studies.table import Show

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
DEEP = f"FrozenLake-v1,x={'[' * 30_000}"
NAMES = ("\0", "x" * 300, "[/red]", "no:where", "\udcff", "~nobody/x")
COMMANDS = ("resume", "eval", "play", "runs", "report", "study", "frobnicate")

SMALL = {
    "--steps": "60",
    "--replay.capacity": "200",
    "--replay.warmup-steps": "40",
    "--replay.batch-size": "8",
    "--network.hidden": "8",
    "--evaluation.period-steps": "60",
    "--evaluation.episodes": "1",
    "--logging.tensorboard": "False",
}


def train_with(option: str, value: str) -> list[str]:
    """A short training with one odd setting."""
    words = [word for pair in SMALL.items() if pair[0] != option for word in pair]
    return ["train", "dqn", "--env", "CartPole-v1", *words, option, value, "--folder", "run"]


SMALL_PLAN = {"--env": "FrozenLake-v1", "--iterations": "2", "--seeds": "1", "--beta": "0.5"}
OF_PLAN = (
    *("--env", "--mdp", "--discount", "--n", "--beta", "--c", "--noise", "--noise-kind"),
    *("--greedy-error", "--iterations", "--seeds", "--seed", "--garnets", "--mdps"),
)
OF_TUNE = ("--env", "--trials", "--search", "--steps", "--pruner", "--seeds")
OF_DEMO = ("--game", "--steps", "--seed")


def plan_with(option: str, value: str) -> list[str]:
    """A small figure with one odd setting."""
    words = [word for pair in SMALL_PLAN.items() if pair[0] != option for word in pair]
    return ["plan", *words, option, value]


LINES = [
    *(plan_with(option, value) for option in OF_PLAN for value in ODD[:4]),
    *(["tune", "dqn-pro", *pair] for pair in itertools.product(OF_TUNE, ODD[:6])),
    *(["demo", *pair] for pair in itertools.product(OF_DEMO, ODD[:4])),
    *(
        train_with(option, value)
        for place, option in enumerate(OPTIONS)
        for value in (ODD[place % len(ODD)], ODD[(place + 3) % len(ODD)], ODD[(place + 6) % 10])
        if option not in ("--agent", "--env")
    ),
    *([command, name] for command in COMMANDS for name in NAMES),
    *(["train", name, "--env", "CartPole-v1"] for name in NAMES),
    *(["train", "dqn", "--env", name] for name in (*NAMES, DEEP)),
]
VALID = {("--learner.annealed-rate", "None")}
SAMPLE = random.Random(0).sample(LINES, 25)


def require_refused_or_run(
    line: list[str], home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    try:
        cli.main(line)
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    said = capsys.readouterr().err.strip()
    assert max(map(len, said.splitlines())) < 600, said
    if code == 0:
        assert tuple(line[-4:-2]) in VALID, said
        assert RunFolder(home / "run").is_complete(RunFolder(home / "run").config())
        return
    assert code == 2, said
    *before, error = said.splitlines()
    assert error.startswith("proxrl: ")
    assert [one for one in before if not one.startswith(("dqn on ", "settings: "))] == []
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
    require_refused_or_run(line, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("command", [["train", "dqn", "--env"], ["tune", "dqn-pro", "--env"]])
def test_arguments_nested_too_deeply_are_refused_in_one_line(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_refused_or_run([*command, DEEP], tmp_path, monkeypatch, capsys)


def test_a_config_with_arguments_nested_too_deeply_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.write_config(presets.make("dqn", "FrozenLake-v1").override({"env": DEEP}))
    for command in ("resume", "eval", "play"):
        with pytest.raises(SystemExit, match="2"):
            cli.main([command, str(run.path)])
        said = capsys.readouterr().err
        assert said.startswith("proxrl: ")
        assert len(said.splitlines()) == 1
        assert len(said) < 600


@pytest.mark.faults
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_odd_line_is_refused_in_one_line(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_refused_or_run(line, tmp_path, monkeypatch, capsys)


def test_no_console_interprets_markup() -> None:
    """Names come from users and folders: `[/red]` in one would be an error, `[x]` would vanish."""
    consoles = [
        (path.name, words)
        for path in Path(cli.__file__).parent.rglob("*.py")
        for words in re.findall(r"\bConsole\(([^()]*)\)", path.read_text())
    ]
    assert len(consoles) > 10
    assert [name for name, words in consoles if "markup=False" not in words] == []


def test_brackets_in_titles_and_names_are_shown() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, markup=False)
    config = presets.make("dqn", "CartPole-v1")
    board = Board([Job("dqn [x]", "CartPole-v1", 0, config, Path("nowhere"))])
    with Show("poles [/red] [x]", console) as show:
        show(board, None, "")
    assert "poles [/red] [x]" in screen.getvalue()
    assert "dqn [x]" in screen.getvalue()
