"""Full disks, locks, non-finite losses, and what may change when resuming."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from proxrl import cli, presets
from proxrl.envs import make
from proxrl.errors import RunFailed, UserError
from proxrl.runs.folder import RunFolder
from proxrl.training.run import resume, train
from tests.end_to_end.conftest import WholeRun
from tests.end_to_end.runs import Listener, assert_same_bits, live, newest
from tests.end_to_end.victim import SCENARIOS, SMALL


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 16 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip(f"needs the right to mount a small tmpfs: {mount.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small_disk / "run"
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "dqn", "--env", "MinAtar/Breakout-v1", "--folder", str(folder)])
    assert left.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("proxrl: not enough disk")
    assert "\n" not in error
    assert not folder.exists()


READ_ONLY = (
    "train dqn --env CartPole-v1 --folder {disk}/new",
    "resume {disk}/run --steps 900",
    "eval {disk}/run --episodes 1",
    "play {disk}/run --max-steps 3",
    "report {disk}",
    "study demo --scale smoke --folder {disk}/study",
    "tune dqn-pro --env CartPole-v1 --folder {disk}/tune",
    "plan --env FrozenLake-v1 --out {disk}/plan",
    "demo --folder {disk}/demo",
)


def test_a_read_only_disk_is_one_line(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(SCENARIOS["cartpole"].override({"steps": 500}), small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for line in READ_ONLY:
        with pytest.raises(SystemExit) as left:
            cli.main(line.format(disk=small_disk).split())
        assert left.value.code == 2, line
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("proxrl: cannot "), error
        assert str(small_disk) in error
    film = tmp_path / "film.gif"
    cli.main(["play", f"{small_disk}/run", "--max-steps", "3", "--out", str(film)])
    assert film.stat().st_size
    cli.main(["runs", str(small_disk)])


def test_a_disk_that_fills_up_after_the_preflight_ends_with_one_line(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxrl.training.run._check_resources", lambda *_: None)
    config = presets.make("dqn", "MinAtar/Breakout-v1", {**SMALL, "replay.capacity": 100_000})
    with pytest.raises(RunFailed, match="the disk is full") as caught:
        train(config, small_disk / "run")
    assert "\n" not in str(caught.value)


def test_a_disk_full_during_a_checkpoint_keeps_the_one_before(
    small_disk: Path, whole_run: WholeRun
) -> None:
    """With free space again, the run continues bit-identically."""
    config = SCENARIOS["cartpole"]
    folder, filler = small_disk / "run", small_disk / "filler"
    failed = live("cartpole", folder, "fill", "700", str(filler))
    assert failed.returncode == 1
    error = failed.stderr.strip()
    assert "the disk is full" in error
    assert "the checkpoint at step 600 is intact" in error
    assert "\n" not in error
    assert newest(folder)[1]["step"] == 600
    filler.unlink()
    assert live("cartpole", folder, "finish").returncode == 0
    spec = make(config.env, config.protocol).observation
    assert_same_bits(config, whole_run("cartpole"), folder, spec)


@pytest.fixture
def run_on_a_full_disk(small_disk: Path) -> Path:
    config = presets.make("dqn", "CartPole-v1", {**SMALL, "steps": 120, "evaluation.episodes": 1})
    train(config, small_disk / "run")
    lines = small_disk / "run" / "evaluations.jsonl"
    lines.write_text("{}\n" * 1300)  # in a page of 4,096 bytes: the next line would fit in part
    with contextlib.suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
        while True:
            filler.write(bytes(2**16))
    return small_disk / "run"


def test_eval_on_a_full_disk_leaves_no_part_of_a_line(
    run_on_a_full_disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["eval", str(run_on_a_full_disk), "--episodes", "1", "--json"])
    assert left.value.code == 2
    out, error = capfd.readouterr()
    assert json.loads(out)["step"] == 120, "the result is printed"
    path = run_on_a_full_disk / "evaluations.jsonl"
    assert error == (
        f"proxrl: cannot write to {path}: No space left on device: the result is not recorded\n"
    )
    assert path.read_text() == "{}\n" * 1300


@pytest.mark.parametrize("name", ["film.mp4", "film.gif"])
def test_play_on_a_full_disk_is_one_line_and_leaves_no_part_of_a_video(
    name: str, run_on_a_full_disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = run_on_a_full_disk / "videos" / name
    with pytest.raises(SystemExit) as left:
        cli.main(["play", str(run_on_a_full_disk), "--max-steps", "50", "--out", str(out)])
    assert left.value.code == 2
    printed, error = capfd.readouterr()
    assert printed == ""
    assert error == f"proxrl: cannot write {out}: No space left on device\n"
    assert list(out.parent.iterdir()) == []


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    place = RunFolder(tmp_path / "run")
    place.write_config(config.override({"steps": 600}))
    with place.locked():
        assert place.is_locked()
        second = live("cartpole", tmp_path / "run", "finish")
    assert second.returncode == 2
    assert "in use by another process" in second.stderr
    assert not place.is_locked()


def test_weights_that_are_not_finite_stop_the_run_and_never_reach_a_checkpoint(
    tmp_path: Path,
) -> None:
    settings = {**SMALL, "learner.learning_rate": 1e30, "checkpoint.period_steps": 50}
    config = presets.make("dqn", "CartPole-v1", settings)
    with pytest.raises(RunFailed, match=r"non-finite|became") as caught:
        train(config, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert "start a new run" in str(caught.value)
    assert (tmp_path / "run" / "failure.txt").read_text().strip() == str(caught.value)
    arrays, _ = newest(tmp_path / "run")
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_a_folder_that_exists_offers_to_resume(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    with pytest.raises(UserError, match=r"if_exists=.resume. to load it"):
        train(config, tmp_path / "run")


def test_a_run_that_begins_during_the_preflight_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = SCENARIOS["cartpole"].override({"steps": 300, "seed": 1})
    mine = theirs.override({"seed": 2})
    with monkeypatch.context() as meanwhile:
        others = (train, theirs, tmp_path / "run")

        def somebody_else(*_: object) -> None:
            meanwhile.undo()
            others[0](*others[1:])

        meanwhile.setattr("proxrl.training.run._check_resources", somebody_else)
        with pytest.raises(UserError, match="exists: continue it with"):
            train(mine, tmp_path / "run")
    assert RunFolder(tmp_path / "run").config().seed == 1


def test_metrics_that_have_gone_missing_are_named(tmp_path: Path) -> None:
    train(SCENARIOS["cartpole"].override({"steps": 300}), tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match=r"metrics\.jsonl is shorter than when the checkpoint"):
        resume(tmp_path / "run", {"steps": 600})


def test_settings_that_may_not_change_are_named(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    changes = {"steps": 600, "proximal.c": 1.0, "replay.capacity": 999}
    with pytest.raises(UserError, match=r"replay\.capacity, proximal\.c cannot change"):
        resume(tmp_path / "run", changes)
    resume(tmp_path / "run", {"steps": 450, "evaluation.episodes": 1})
    assert newest(tmp_path / "run")[1]["step"] == 450


def test_a_finished_run_without_its_replay_is_extended_by_refilling_it(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "replay").exists()
    updates = newest(tmp_path / "run")[1]["learner"]["updates"]
    resume(tmp_path / "run", {"steps": 600})
    after = newest(tmp_path / "run")[1]
    waited = 102  # warm-up of 100 transitions, the newest two of which wait for n = 3
    assert after["learner"]["updates"] - updates == (300 - waited) // 2 + 1


def test_a_kill_while_the_replay_is_refilled_refills_it_again(tmp_path: Path) -> None:
    """The half-filled log belongs to no checkpoint: it must not be opened with an old one."""
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    for name in ("killed", "whole"):
        train(config, tmp_path / name)
        RunFolder(tmp_path / name).write_config(config.override({"steps": 900}))
    killed = live("cartpole", tmp_path / "killed", "advance", "60")
    assert killed.returncode == -9, killed.stderr
    for name in ("killed", "whole"):
        assert live("cartpole", tmp_path / name, "finish").returncode == 0
    (arrays, state), (its_arrays, its_state) = (
        newest(tmp_path / name) for name in ("killed", "whole")
    )
    assert state == its_state
    assert all(arrays[name].tobytes() == its_arrays[name].tobytes() for name in arrays)


def test_when_no_checkpoint_is_good_nothing_is_changed(tmp_path: Path) -> None:
    train(SCENARIOS["cartpole"].override({"steps": 300}), tmp_path / "run")
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    metrics = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"no checkpoint of .* is intact"):
        resume(tmp_path / "run", {"steps": 600})
    assert path.exists()
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == metrics


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    train(config, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    listener = Listener()
    agent = resume(tmp_path / "run", display=listener)
    assert agent.step == 300
    assert "is finished at step" in listener.said[0]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_another_machine_is_named_when_resuming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    monkeypatch.setattr("proxrl.training.machine.cpu_model", lambda: "another CPU")
    listener = Listener()
    resume(tmp_path / "run", {"steps": 450}, display=listener)
    (line,) = [line for line in listener.said if "since the checkpoint" in line]
    assert line == "CPU model changed since the checkpoint; results may not be bit-identical"


def test_a_run_killed_before_it_could_tidy_is_tidied_by_the_next_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    with monkeypatch.context() as killed:
        killed.setattr(RunFolder, "tidy", lambda *_: None)
        train(config, tmp_path / "run")
    place = RunFolder(tmp_path / "run")
    assert place.replay.exists()
    resume(tmp_path / "run")
    assert not place.replay.exists()
