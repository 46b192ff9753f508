"""The completion script, in bash itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.commands.completion import _command_lines, script

TRY = """
source ./script
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_tyro_proxrl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    folder = tmp_path_factory.mktemp("completion")
    (folder / "script").write_text(script("bash"))
    (folder / "try").write_text(TRY)
    return folder


def test_every_command_is_completed() -> None:
    assert set(_command_lines()) == set(cli.COMMANDS)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tr"], ["train"]),
        (["train", "dqn-pro"], ["dqn-pro", "dqn-pro-adaptive"]),
        (["train", "dqn", "--proximal.ru"], ["--proximal.rule"]),
        (["train", "dqn", "--device", "c"], ["cpu", "cuda"]),
        (["resume", "runs/x", "--ste"], ["--steps"]),
        (["resume", "runs/x", "--age"], [""]),
        (["eval", "runs/x", "--se"], ["--seed"]),
        (["study", "--li"], ["--list"]),
    ],
)
def test_bash_completes(words: list[str], offered: list[str], bash: Path) -> None:
    done = subprocess.run(
        ["bash", "try", "proxrl", *words], cwd=bash, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == offered, done.stderr


def test_zsh_has_a_script_too(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["completion", "zsh"])
    assert "#compdef proxrl" in capsys.readouterr().out
