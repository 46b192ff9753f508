"""A run folder: one process at a time; small files may be missing or incomplete."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.runs.attempts import ATTEMPTS
from proxrl.runs.checkpoint import read, write
from proxrl.runs.copy import copy_finished
from proxrl.runs.folder import Progress, RunFolder, Superseded
from proxrl.runs.record import read_run
from tests.report.synthetic import preset, write_checkpoint, write_run


def test_whoever_takes_over_waits_for_the_lock(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    first.make()
    with first.locked():
        with pytest.raises(UserError, match="in use by another process"):
            second.take_over(patience_seconds=0.3)
        assert (first.attempt, second.attempt) == (1, 2)
        assert second.is_locked(), "not yet: it only asked"
        with pytest.raises(Superseded, match="attempt 2"):
            first.require_newest()
    second.take_over(patience_seconds=60.0)
    with second.locked():
        second.require_newest()
    about = json.loads((tmp_path / ATTEMPTS / f"{second.attempt}.json").read_text())
    assert about["pid"] == os.getpid()
    assert about["host"]


def test_someone_who_only_looks_does_not_keep_a_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = RunFolder(tmp_path)
    place.make()
    with open(tmp_path / ".lock") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        looked_enough = lambda _: fcntl.flock(look, fcntl.LOCK_UN)  # noqa: E731
        monkeypatch.setattr("proxrl.runs.folder.time.sleep", looked_enough)
        with place.locked():
            assert place.attempt == 1


def test_a_run_killed_after_its_last_checkpoint_is_not_complete_until_it_is_tidy(
    tmp_path: Path,
) -> None:
    config, place = preset("dqn", "CartPole-v1", steps=100), RunFolder(tmp_path / "run")
    assert not place.is_complete(config)
    place.make()
    place.write_config(config)
    write_checkpoint(place.path, config, 100)
    assert place.is_complete(config)
    place.replay.mkdir()
    assert not place.is_complete(config)
    assert place.is_complete(config.override({"checkpoint.keep_replay": True}))
    place.replay.rename(place.path / "replay.deleting")
    assert not place.is_complete(config.override({"checkpoint.keep_replay": True}))
    place.tidy(config)
    assert place.is_complete(config)


def test_a_checkpoint_under_the_name_of_another_step_is_not_used(tmp_path: Path) -> None:
    config, place = preset("dqn", "CartPole-v1", steps=100), RunFolder(tmp_path / "run")
    place.make()
    place.write_config(config)
    write_checkpoint(place.path, config, 50)
    older = place.checkpoints / "000000000050.safetensors"
    (place.checkpoints / "000000000100.safetensors").write_bytes(older.read_bytes())
    assert not place.is_complete(config)
    heard: list[str] = []
    found = place.newest_checkpoint(heard.append)
    assert found is not None
    assert found["step"] == 50
    assert heard == ["checkpoint 000000000100.safetensors holds step 50: using the previous one"]


FORGED: dict[str, dict[str, Any]] = {
    "no step": {"step": None},
    "a step that is an array": {"step": np.array([100, 100])},
    "a step that is a float": {"step": 100.0},
    "no logger": {"logger": None},
    "a list as logger": {"logger": [0, 0]},
    "no lengths": {"logger": {}},
    "a length that is text": {"logger": {"metrics": "0", "episodes": 0}},
    "a negative length": {"logger": {"metrics": -1, "episodes": 0}},
    "a digest that is an array": {
        "logger": {"metrics": 0, "episodes": 0, "metrics_sha256": np.zeros(2)}
    },
    "a config that is an array": {"config": {"seed": np.zeros(2)}},
    "a config that is a list": {"config": [1]},
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_run_with_a_forged_checkpoint_is_not_complete(forged: str, tmp_path: Path) -> None:
    """As in a sibling folder that a study looks into. The checksum of the file is right."""
    config, place = preset("dqn", "CartPole-v1", steps=100), RunFolder(tmp_path / "run")
    place.make()
    place.write_config(config)
    path = write_checkpoint(place.path, config, 100)
    assert place.is_complete(config)
    changed = {**read(path), **FORGED[forged]}
    write(path, {name: value for name, value in changed.items() if value is not None})
    assert not place.is_complete(config)


def test_progress_is_read_as_it_was_written_and_none_if_it_is_half_written(tmp_path: Path) -> None:
    place = RunFolder(tmp_path)
    assert place.progress() is None
    for progress in (Progress(5, None), Progress(10, 1.5)):
        place.write_progress(progress)
        assert place.progress() == progress
    (tmp_path / "progress.json").write_text('{"step": 1')
    assert place.progress() is None
    place.clear_progress()
    place.clear_progress()
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_a_log(tmp_path: Path) -> None:
    place = RunFolder(tmp_path)
    assert place.log_tail() == []
    place.run_log.write_bytes(b"one\ntwo\n\xff three\n")
    assert place.log_tail(2) == ["two", "\ufffd three"]


def test_names_that_are_not_utf_8_are_written_escaped(tmp_path: Path) -> None:
    config = preset("dqn", "CartPole-v1", {"evaluation.period_steps": 50}, steps=100)
    source = write_run(tmp_path / os.fsdecode(b"odd\xff"), config, lambda step: [1.0])
    copy_finished(source, tmp_path / "target")
    target = RunFolder(tmp_path / "target")
    assert target.log_tail() == [rf"copied from {tmp_path}/odd\udcff"]
    target.write_failure(f"{source} cannot be read")
    assert read_run(target.path, tmp_path).note == rf"{tmp_path}/odd\udcff cannot be read"


def test_a_run_that_lost_its_config_is_not_replaced_by_a_copy(tmp_path: Path) -> None:
    config = preset("dqn", "CartPole-v1", {"evaluation.period_steps": 50}, steps=100)
    source = write_run(tmp_path / "source", config, lambda step: [1.0, 3.0])
    target = write_run(tmp_path / "target", config, lambda step: [2.0])
    (target / "config.json").unlink()
    with pytest.raises(UserError, match="target exists: it is neither empty nor a run"):
        copy_finished(source, target)
    assert (target / "metrics.jsonl").read_text()


def test_a_finished_run_is_copied_as_a_whole(tmp_path: Path) -> None:
    config = preset("dqn", "CartPole-v1", {"evaluation.period_steps": 50}, steps=100)
    source = write_run(tmp_path / "source", config, lambda step: [1.0, 3.0])
    write_checkpoint(source, config, 100)
    (source / "replay").mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "log.txt").write_text("of an attempt that trained nothing\n")
    copy_finished(source, target)
    copy = RunFolder(target)
    assert copy.config() == config
    assert copy.is_complete(config)
    assert read_run(target, target).last_return == 2.0
    assert copy.log_tail() == [f"copied from {source}"]
    assert sorted(path.name for path in target.iterdir()) == [
        "checkpoints",
        "config.json",
        "log.txt",
        "metrics.jsonl",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]
