"""The resources of a study, and what it rejects before anything is written."""

from collections import namedtuple
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.errors import UserError
from proxrl.runs.folder import RunFolder
from proxrl.studies.board import Board
from proxrl.studies.definition import load, parse
from proxrl.studies.estimate import estimate, needs_of, require_disk
from proxrl.studies.expand import expand
from proxrl.training.preflight import requirements, set_up
from tests.studies.small import RUNS, TEXT, run_folders, run_study

Usage = namedtuple("Usage", ["total", "used", "free"])


def test_needs_are_those_of_the_largest_game(tmp_path: Path) -> None:
    """Seaquest observes 10 channels, Asterix 4."""
    study = load("main")
    scale = study.scales["laptop"]

    jobs = expand(study, scale, tmp_path, ["Asterix", "Seaquest"], [0], ["dqn"])
    asterix, seaquest = (requirements(job.config, set_up(job.config)).disk for job in jobs)
    assert asterix < seaquest == needs_of(jobs, calibrate=False)["dqn"].disk


def test_a_study_that_was_stopped_needs_no_room_for_replays_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load("main")
    jobs = expand(study, study.scales["paper"], tmp_path, ["Pong"], [0], ["dqn", "rainbow"])
    needs = needs_of(jobs, calibrate=False)
    board = Board(jobs)
    ends = sum(one.final_disk for one in needs.values())
    replays = [one.disk - one.final_disk for one in needs.values()]
    for free, begun in ((ends + sum(replays), 0), (ends + replays[1], 1), (ends, 2)):
        for job in jobs[:begun]:
            RunFolder(job.folder).replay.mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: Usage(0, 0, free))
        require_disk(board, needs, 2, tmp_path)
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: Usage(0, 0, free - 1))
        with pytest.raises(UserError, match="not enough disk"):
            require_disk(board, needs, 2, tmp_path)


def test_the_time_is_that_of_all_runs_side_by_side(tmp_path: Path) -> None:
    study = parse("poles", TEXT)
    jobs = expand(study, study.scales["tiny"], tmp_path)
    needs = needs_of(jobs, calibrate=True)
    alone, both = (estimate(Board(jobs), needs, at_once) for at_once in (1, 2))
    assert alone.seconds == pytest.approx(2 * both.seconds)
    assert alone.seconds == pytest.approx(2 * sum(needs[one].seconds or 0.0 for one in needs))


def test_a_dry_run_says_what_a_cluster_needs_whatever_this_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poles.toml").write_text(TEXT)
    monkeypatch.setattr("proxrl.studies.estimate.available_memory", lambda: 1000)
    words = ["study", "poles.toml", "--scale", "tiny", "--dry-run"]
    cli.main([*words, "--executor", "ray", "--jobs", "3"])
    assert " for 3 at a time" in capsys.readouterr().out
    cli.main(words)
    assert "does not fit on this machine: not enough memory" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["poles.toml"]


def test_too_little_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poles.toml").write_text(TEXT)
    monkeypatch.setattr("proxrl.studies.estimate.shutil.disk_usage", lambda _: Usage(0, 0, 5))
    with pytest.raises(SystemExit) as left:
        cli.main(["study", "poles.toml", "--scale", "tiny", "--folder", "here"])
    assert left.value.code == 2
    assert "not enough disk" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["poles.toml"]


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "poles.toml").write_text(TEXT + '\n[variants.twin]\npreset = "dqn"\n')
    refused = run_study(tmp_path)
    assert refused.returncode == 2
    assert "dqn/CartPole-v1/seed0 and twin/CartPole-v1/seed0 are the same run" in refused.stderr


def test_a_config_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (run_folders(tmp_path)[RUNS[0]] / "config.json").mkdir(parents=True)
    refused = run_study(tmp_path, "--dry-run")
    assert refused.returncode == 2
    assert "config.json is a folder, not a file" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_run_that_cannot_be_copied_fails_alone(whole: Path) -> None:
    home = whole / "runs" / "blocked-tiny" / "dqn"
    home.mkdir(parents=True)
    (home / "CartPole-v1").touch()
    done = run_study(whole, "--seeds", "0", name="blocked")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "finished runs copied from studies next to runs/blocked-tiny: 1" in done.stdout
    assert f"1 of 2 runs failed, first {RUNS[0]}" in done.stderr
