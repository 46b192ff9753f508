"""A run folder from someone else executes no code, and neither do modules in the current folder."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

from proxrl import cli, presets
from proxrl.envs import make
from proxrl.errors import UserError
from proxrl.extras import MODULES
from proxrl.plugins import current_folder, imported, named_code
from proxrl.runs.folder import RunFolder
from proxrl.training.agent import Agent
from proxrl.training.run import resume, train
from tests.conftest import Once
from tests.end_to_end.victim import SMALL
from tests.report.synthetic import preset, write_run

LAB = """
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from torch import nn

from proxrl.proximal.rules import Rule

Path(__file__).with_name("executed").touch()
gymnasium.register("LabPole-v0", entry_point=CartPoleEnv, max_episode_steps=60)


def tiny(spec, outputs, hidden):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, outputs))


class Idle(Rule):
    pass
"""
NAMES = {
    "env": "foreign_lab:LabPole-v0",
    "network.kind": "foreign_lab:tiny",
    "proximal.rule": "foreign_lab:Idle",
}


@pytest.fixture(scope="module")
def a_run(once: Once) -> Path:
    settings = {**SMALL, "steps": 150, "evaluation.episodes": 1, "checkpoint.keep_replay": False}
    config = presets.make("dqn", "CartPole-v1", settings)
    return once("trusted-run", lambda folder: train(config, folder / "run")) / "run"


@pytest.fixture
def forget() -> Iterator[None]:
    yield
    sys.modules.pop("foreign_lab", None)


@pytest.fixture
def foreign(
    a_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None
) -> Callable[[str], Path]:
    """A run whose config was edited to name code in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign_lab.py").write_text(LAB)

    def make(setting: str) -> Path:
        place = RunFolder(tmp_path / "run")
        place.make()
        place.write_config(RunFolder(a_run).config().override({setting: NAMES[setting]}))
        (place.path / "checkpoints").mkdir()
        for path in (a_run / "checkpoints").iterdir():
            (place.path / "checkpoints" / path.name).write_bytes(path.read_bytes())
        for name in ("metrics.jsonl", "episodes.jsonl"):
            (place.path / name).write_bytes((a_run / name).read_bytes())
        return place.path

    return make


@pytest.mark.parametrize("setting", NAMES)
@pytest.mark.parametrize("command", ["eval", "play", "resume"])
def test_code_that_a_folder_names_is_not_imported_without_consent(
    command: str, setting: str, foreign: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = foreign(setting)
    with pytest.raises(SystemExit) as left:
        cli.main([command, str(folder)])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert f"asks to import {setting} {NAMES[setting]}: pass --trust" in said
    assert said.count("\n") == 1
    assert not Path("executed").exists()


@pytest.mark.parametrize("setting", NAMES)
def test_the_same_from_python(setting: str, foreign: Callable[[str], Path]) -> None:
    folder = foreign(setting)
    for load in (Agent.load, resume):
        with pytest.raises(UserError, match=rf"asks to import {setting} .*trust=True in Python"):
            load(folder)
    assert not Path("executed").exists()


@pytest.mark.parametrize("command", ["runs", "report"])
@pytest.mark.parametrize("setting", NAMES)
def test_commands_that_only_read_import_nothing(
    command: str, setting: str, foreign: Callable[[str], Path]
) -> None:
    foreign(setting)
    cli.main([command, "run", *(["--resamples", "10"] if command == "report" else [])])
    assert not Path("executed").exists()


@pytest.fixture
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign_lab.py").write_text(LAB)
    settings = {**SMALL, "steps": 150, "evaluation.episodes": 1, "network.kind": "foreign_lab:tiny"}
    train(presets.make("dqn", "foreign_lab:LabPole-v0", settings), "run")
    return tmp_path / "run"


def test_with_consent_it_is_imported(own_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["eval", "run", "--episodes", "1", "--trust"])
    agent = Agent.load("run", trust=True)
    assert agent.step == 150
    cli.main(["resume", "run", "--steps", "160", "--trust"])
    assert "proxrl eval run --trust" in capsys.readouterr().out, "the printed command works"
    assert resume(own_run, {"steps": 170}, trust=True).step == 170


def test_naming_it_again_is_consent_and_naming_a_part_is_not(
    own_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, env = "--network.kind=foreign_lab:tiny", ("--env", "foreign_lab:LabPole-v0")
    cli.main(["resume", "run", "--steps", "160", network, *env])
    assert "finished" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        cli.main(["resume", "run", "--steps", "170", network])
    assert left.value.code == 2
    assert "asks to import" in capsys.readouterr().err


def test_an_id_with_two_modules_names_code_too() -> None:
    config = presets.make("dqn", "CartPole-v1").override({"env": "a:b:CartPole-v1"})
    assert named_code(config) == {"env": "a:b:CartPole-v1"}


def test_only_an_environment_may_be_one_that_this_process_has_been_given() -> None:
    """`python:NAME` as a network would import a module called python."""
    config = presets.make("dqn", "CartPole-v1")
    assert named_code(config.override({"env": "python:make"})) == {}
    for setting, name in (
        ("env", "python:evil:X-v0"),
        ("network.kind", "python:f"),
        ("proximal.rule", "python:f"),
    ):
        assert named_code(config.override({setting: name})) == {setting: name}


# --------------------------------------------------------------------------- the current folder


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (["-m", "proxrl"], ["report", ".", "--resamples", "10"]),
        (["-c", "from proxrl.cli import main; main()"], ["runs", "."]),
    ],
)
def test_modules_beside_you_are_not_executed(
    start: list[str], words: list[str], tmp_path: Path
) -> None:
    """As the installed command starts, and as `python -m proxrl`: none of the dependencies, and no
    module of the standard library that a report imports after the first."""
    config = preset("dqn", "CartPole-v1", {"evaluation.period_steps": 1000}, steps=2000)
    write_run(tmp_path / "run", config, lambda step: [1.0])
    optional = {name for names in MODULES.values() for name in names}
    standard = {"csv", "fnmatch", "html", "json", "statistics", "tempfile", "random", "secrets"}
    for module in {"torch", "numpy", "minatar", "optuna", "ray", *optional, *standard}:
        (tmp_path / f"{module}.py").write_text(f"open('executed-{module}', 'w')\nraise SystemExit")
    safe = ["-P"] if start[0] == "-c" else []  # a script's path has its own folder instead
    done = subprocess.run(
        [sys.executable, *safe, *start, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert [path.name for path in tmp_path.glob("executed-*")] == []
    assert done.returncode == 0, done.stderr


def test_the_current_folder_is_searched_last_and_only_during_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "msgspec.py").write_text("raise RuntimeError")
    (tmp_path / "foreign_lab.py").write_text("import sys\npath = list(sys.path)\n")
    monkeypatch.delitem(sys.modules, "msgspec")
    before = list(sys.path)
    assert imported("foreign_lab:path", "network") == [*before, str(tmp_path)]
    assert sys.path == before
    assert imported("msgspec:Struct", "network"), "the installed one"


def test_a_current_folder_that_was_deleted_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    before = list(sys.path)
    with current_folder():
        assert sys.path == before


# ------------------------------------------------------------------------------ the command line


def test_an_option_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The preset would be that of the first environment, the run that of the second."""
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "dqn", "--env", "CartPole-v1", "--env=ALE/Pong-v5"])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said == "proxrl: --env is given 2 times: CartPole-v1, ALE/Pong-v5\n"


@pytest.mark.parametrize("option", [["--folder", ""], ["--folder="]])
def test_an_empty_folder_is_refused(
    option: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "dqn", "--env", "CartPole-v1", *option])
    assert left.value.code == 2
    assert capsys.readouterr().err == "proxrl: empty value after --folder\n"
    with pytest.raises(UserError, match="is empty"):
        train(presets.make("dqn", "CartPole-v1"), "")
    assert list(tmp_path.iterdir()) == []


def test_an_installed_environment_finds_nothing_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id of Gymnasium's own, whose entry point imports a package that is not installed."""
    (tmp_path / "not_installed_physics.py").write_text("open('executed', 'w')")
    monkeypatch.chdir(tmp_path)
    gymnasium.register("Physics-v0", entry_point=_needs_physics)
    try:
        with pytest.raises(UserError, match="not_installed_physics"):
            make("Physics-v0", presets.make("dqn", "CartPole-v1").protocol)
    finally:
        del gymnasium.registry["Physics-v0"]
    assert not (tmp_path / "executed").exists()


def _needs_physics() -> None:
    importlib.import_module("not_installed_physics")


def test_a_name_that_cannot_be_printed_is_refused(tmp_path: Path) -> None:
    """It could erase the line that asks for consent."""
    place = RunFolder(tmp_path / "run")
    place.make()
    place.write_config(presets.make("dqn", "CartPole-v1").override({"env": "x:\x1b[2JCartPole-v1"}))
    with pytest.raises(UserError, match="not printable") as refused:
        place.config()
    assert "\x1b" not in str(refused.value)
