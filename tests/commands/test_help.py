"""`--help` at 80 columns."""

import contextlib

import pytest

from proxrl import cli, presets
from proxrl.commands.help import help_of
from proxrl.commands.view import EvalOptions
from proxrl.config import flatten

COMMANDS = [*([name] for name in cli.COMMANDS), ["train", "dqn-pro", "--env", "CartPole-v1"], []]


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with contextlib.suppress(SystemExit):
        cli.parse([*arguments, "--help"])()
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_help_fits_80_columns(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = said(arguments, capsys)
    assert text.startswith("usage: proxrl ")
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_the_help_of_a_preset_has_every_setting_with_its_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = " ".join(said(["train", "dqn-pro", "--env", "CartPole-v1"], capsys).split())
    assert "--print-config Print" in text, "no value needed"
    for path, value in flatten(presets.make("dqn-pro", "CartPole-v1")).items():
        if path == "agent":
            continue
        assert f"--{path.replace('_', '-')} " in text
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert f"(default: {value})" in text.partition(f"--{path.replace('_', '-')} ")[2][:400]


def test_text_is_wrapped_and_defaults_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = help_of("proxrl eval", EvalOptions)
    assert "usage: proxrl eval RUN [OPTIONS]" in text
    assert "  --episodes INT   Episodes to play. (default: 30)\n" in text
    assert "\n                   the run's evaluation.epsilon.\n" in text
    assert "  --json           Print the result" in text  # a switch has no value and no default
    assert "\n\n  proxrl eval RUN\n  proxrl eval RUN --episodes 100" in text


def test_help_is_also_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    cli.parse(["help"])()
    assert "usage: proxrl COMMAND" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.parse(["help", "eval"])
    assert "usage: proxrl eval RUN" in capsys.readouterr().out
