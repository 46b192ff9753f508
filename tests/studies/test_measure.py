"""The resources of runs, measured in another process: same numbers, same errors."""

from pathlib import Path

import pytest

from proxrl import presets
from proxrl.errors import RunFailed, UserError
from proxrl.studies.measure import measure
from proxrl.training.preflight import requirements, set_up

CARTPOLE = presets.make("dqn", "CartPole-v1", {"device": "cpu"})


def test_the_numbers_are_those_of_the_run_and_only_what_is_asked_for_is_timed() -> None:
    rainbow = presets.make("rainbow", "CartPole-v1", {"device": "cpu"})
    first, second = measure([(CARTPOLE, False), (rainbow, True)])
    assert first == requirements(CARTPOLE, set_up(CARTPOLE))
    assert second._replace(seconds=None) == requirements(rainbow, set_up(rainbow))
    assert second.seconds is not None
    assert second.seconds > 0


def test_nothing_is_started_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", pytest.fail)
    assert measure([]) == []


def test_a_config_that_cannot_run_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match=r"unknown network\.kind resnet"):
        measure([(CARTPOLE.override({"network.kind": "resnet"}), False)])


def test_a_process_that_dies_is_reported_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFailed, match="cannot measure the requirements of the runs: exit code 3"):
        measure([(CARTPOLE.override({"env": "deadly:Pole-v0"}), False)])
