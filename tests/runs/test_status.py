"""The list, the study and the report show the same status."""

import fcntl
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.runs.folder import RunFolder
from proxrl.runs.record import read_run
from proxrl.runs.status import status_of
from proxrl.studies.board import SHOWN, Board
from proxrl.studies.expand import Job
from tests.report.synthetic import preset, write_checkpoint, write_run

CONFIG = preset("dqn", "CartPole-v1", {"evaluation.period_steps": 1000}, steps=4000)


def write(folder: Path, until: int) -> RunFolder:
    return RunFolder(write_run(folder, CONFIG, lambda step: [step / 100], until))


def test_the_status_of_a_folder(tmp_path: Path) -> None:
    place = write(tmp_path / "run", 2000)
    assert status_of(place, CONFIG, 2000) == "stopped"
    place.write_failure("the loss became nan")
    assert status_of(place, CONFIG, 2000) == "failed"
    with open(tmp_path / "run" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status_of(place, CONFIG, 2000) == "running", "it was resumed after the failure"
    assert status_of(place, CONFIG, 4000) == "failed", "after its last evaluation: not saved"
    place.failure.unlink()
    assert status_of(place, CONFIG, 4000) == "finished"


def test_the_list_says_what_the_report_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "finished", 4000)
    write(tmp_path / "stopped", 2000)
    write(tmp_path / "failed", 2000).write_failure("the loss became nan")
    damaged = write(tmp_path / "corrupt", 2000)
    (damaged.path / "metrics.jsonl").write_text("broken\n")
    cli.main(["runs", str(tmp_path)])
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split()}
    for name in ("finished", "stopped", "failed", "corrupt"):
        assert read_run(tmp_path / name, tmp_path).status == name
        assert rows[name].count(name) == 2, "the folder is named after its status"
    assert "50% of 4,000" in rows["stopped"]
    assert "20.0" in rows["stopped"]
    assert "metrics.jsonl line 1: not valid JSON" in rows["corrupt"]


def test_a_studys_board_knows_what_is_finished(tmp_path: Path) -> None:
    jobs = [Job("dqn", "CartPole-v1", seed, CONFIG, tmp_path / str(seed)) for seed in (0, 1)]
    place = write(jobs[0].folder, 4000)
    write_checkpoint(place.path, CONFIG, 4000)
    board = Board(jobs)
    assert [entry.status for entry in board.entries.values()] == ["finished", "waiting"]
    assert board.entries[jobs[0]].last_return == 40.0
    assert board.counts() == {"finished": 1, "waiting": 1}
    assert set(board.counts()) <= set(SHOWN)
