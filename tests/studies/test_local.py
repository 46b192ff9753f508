"""A study on this machine: interrupted, killed and continued, bit-identical and never redone."""

import fcntl
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from proxrl.runs.folder import RunFolder
from proxrl.studies.conduct import MAX_CRASHES
from tests.studies.small import (
    RUNS,
    STEPS,
    TEXT,
    assert_same_bits,
    begin,
    pid_of,
    run_folders,
    run_study,
    step_of,
    wait_until,
)


def test_a_study_runs_everything_says_so_and_does_nothing_the_second_time(whole: Path) -> None:
    said = (whole / "said.txt").read_text()
    assert "[4/4]" in said
    before = {
        name: (folder / "metrics.jsonl").stat().st_mtime_ns
        for name, folder in run_folders(whole).items()
    }
    again = run_study(whole, "--export", "results")
    assert again.returncode == 0, again.stderr
    assert "all 4 runs in runs/poles-tiny are finished" in again.stdout
    for name, folder in run_folders(whole).items():
        assert (folder / "metrics.jsonl").stat().st_mtime_ns == before[name]
        assert not (folder / "replay").exists()
        assert "finished" in (folder / "log.txt").read_text()
    exported = sorted(path.name for path in (whole / "results").rglob("*") if path.is_file())
    of_a_run = ["config.json", "machine.jsonl", "metrics.jsonl"]
    assert exported == sorted(of_a_run * 4 + ["study.json"])


def test_a_stopped_study_exports_what_is_finished_and_elsewhere_runs_only_the_rest(
    tmp_path: Path, whole: Path
) -> None:
    """On another machine there is nothing but the export."""
    here, there = tmp_path / "here", tmp_path / "there"
    out = ("--export", str(tmp_path / "results"))
    folders = run_folders(here)
    study = begin(here, "--only", "dqn", "--jobs", "1", *out)
    wait_until(lambda: step_of(folders[RUNS[2]]) >= 200, study)
    study.send_signal(signal.SIGTERM)
    said, _ = study.communicate()
    assert study.returncode == 128 + signal.SIGTERM
    assert "exported 1 run to" in said
    assert not (tmp_path / "results" / RUNS[2]).exists()
    rest = run_study(there, "--only", "dqn", *out)
    assert rest.returncode == 0, rest.stdout + rest.stderr
    assert "1 of 2 runs are complete in" in rest.stdout
    assert not run_folders(there)[RUNS[0]].exists()
    for name in (RUNS[0], RUNS[2]):
        mine, its = (
            run / "metrics.jsonl" for run in (run_folders(whole)[name], tmp_path / "results" / name)
        )
        assert its.read_bytes() == mine.read_bytes()
    nothing = run_study(tmp_path / "third", "--only", "dqn", *out)
    assert nothing.returncode == 0, nothing.stderr
    assert "2 of 2 runs are complete in" in nothing.stdout


def test_an_export_that_fails_does_not_hide_that_the_study_was_stopped(tmp_path: Path) -> None:
    out = tmp_path / "results"
    study = begin(tmp_path / "here", "--only", "dqn", "--jobs", "1", "--export", str(out))
    wait_until(lambda: step_of(run_folders(tmp_path / "here")[RUNS[2]]) >= 200, study)
    out.write_text("a file, by now")
    study.send_signal(signal.SIGTERM)
    said, _ = study.communicate()
    assert study.returncode == 128 + signal.SIGTERM, said
    assert "the same command continues it; cannot write to" in said
    assert "Traceback" not in said


def test_a_finished_run_of_another_study_is_copied_bit_identically(
    whole: Path, tmp_path: Path
) -> None:
    """The same config under another name, in another study next to the first."""
    other = TEXT.replace("[variants.dqn]", "[variants.plain]")
    (whole / "others.toml").write_text(other)
    done = run_study(whole, name="others")
    assert done.returncode == 0, done.stderr
    assert "finished runs copied from studies next to runs/others-tiny: 4" in done.stdout
    mine = whole / "runs" / "others-tiny" / "plain" / "CartPole-v1" / "seed1"
    assert_same_bits(run_folders(whole)["dqn/CartPole-v1/seed1"], mine)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.faults)]
)
def test_an_interrupt_stops_every_run_with_a_checkpoint_and_the_study_continues(
    number: signal.Signals, tmp_path: Path, whole: Path
) -> None:
    folders = run_folders(tmp_path)
    study = begin(tmp_path, "--jobs", "2", "--seeds", "0")
    both = [folders[name] for name in RUNS[:2]]
    wait_until(lambda: all(step_of(one) >= 200 for one in both), study)
    study.send_signal(number)
    said, _ = study.communicate()
    assert study.returncode == 128 + number, said
    assert "the same command continues it" in said
    assert "Traceback" not in said
    assert not any(RunFolder(one).is_locked() for one in both)
    for one in both:
        assert "stopped at step" in RunFolder(one).run_log.read_text(), "asked to, not killed"
    again = run_study(tmp_path, "--seeds", "0")
    assert again.returncode == 0, again.stdout + again.stderr
    for name in RUNS[:2]:
        assert_same_bits(run_folders(whole)[name], folders[name])


def test_runs_of_a_killed_driver_stop_and_the_study_continues(tmp_path: Path, whole: Path) -> None:
    folders = run_folders(tmp_path)
    study = begin(tmp_path, "--only", "dqn", "--jobs", "1")
    first = folders[RUNS[0]]
    wait_until(lambda: step_of(first) >= 200, study)
    study.kill()
    study.communicate()
    again = run_study(
        tmp_path, "--only", "dqn", "--jobs", "1"
    )  # while the orphan may still be running
    assert again.returncode == 0, again.stdout + again.stderr
    for name in (RUNS[0], RUNS[2]):
        assert_same_bits(run_folders(whole)[name], folders[name])


def test_a_killed_run_continues_from_its_checkpoint_without_affecting_others(
    tmp_path: Path, whole: Path
) -> None:
    folders = run_folders(tmp_path)
    study = begin(tmp_path, "--only", "dqn")
    victim = folders[RUNS[0]]
    wait_until(lambda: step_of(victim) >= 200, study)
    os.kill(pid_of(victim), signal.SIGKILL)
    said, _ = study.communicate()
    assert study.returncode == 0, said
    assert "crashed (killed by SIGKILL (out of memory?)): continuing from step" in said
    assert_same_bits(run_folders(whole)[RUNS[0]], victim)


def test_a_run_that_cannot_run_fails_alone_with_the_end_of_its_log(tmp_path: Path) -> None:
    """One environment fails, the other does not."""
    (tmp_path / "fragile.py").write_text(
        """
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Fragile(CartPoleEnv):
    steps = 0

    def step(self, action):
        Fragile.steps += 1
        if Fragile.steps == 300:  # after the preflight, before the first checkpoint
            raise ZeroDivisionError("the pole broke")
        return super().step(action)

gymnasium.register("Fragile-v0", entry_point=Fragile, max_episode_steps=60)
"""
    )
    (tmp_path / "poles.toml").write_text(
        TEXT.replace('games = ["CartPole-v1"]', 'games = ["fragile:Fragile-v0", "CartPole-v1"]')
        .replace("seeds = [0, 1]", "seeds = [0]")
        .replace('[variants.dqn-pro]\npreset = "dqn-pro"\n', "")
        .replace(f"steps = {STEPS}", "steps = 400")
    )
    done = run_study(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    name = "dqn/fragile-Fragile-v0/seed0"
    assert f"{name} failed; the end of its log:" in done.stdout
    assert "ZeroDivisionError: the pole broke" in done.stdout
    assert f"1 of 2 runs failed, first {name}" in done.stderr
    assert "dqn/CartPole-v1/seed0: finished" in done.stderr
    log = (tmp_path / "runs" / "poles-tiny" / name / "log.txt").read_text()
    assert log.count("started: dqn on fragile") == 1 + MAX_CRASHES, "it was tried again"


@pytest.mark.parametrize("obstacle", ["a file where a folder should be", "a folder for a log"])
def test_a_run_that_cannot_even_be_started_fails_alone(obstacle: str, tmp_path: Path) -> None:
    """Root may write everywhere, so this does not rely on permissions."""
    home = tmp_path / "runs" / "poles-tiny"
    if obstacle == "a folder for a log":
        (home / RUNS[0] / "log.txt").mkdir(parents=True)
    else:
        (home / "dqn").mkdir(parents=True)
        (home / "dqn" / "CartPole-v1").touch()
    done = run_study(tmp_path, "--seeds", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert f"{RUNS[0]}: failed: cannot be started: " in done.stderr
    assert f"{RUNS[1]}: finished" in done.stderr
    assert f"1 of 2 runs failed, first {RUNS[0]}" in done.stderr


def test_a_run_that_dies_below_python_is_reported_with_its_signal(tmp_path: Path) -> None:
    (tmp_path / "abrupt.py").write_text(
        """
import os
import sys
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Abrupt(CartPoleEnv):
    def step(self, action):
        if sys.argv[0].endswith("worker.py"):
            os.abort()
        return super().step(action)

gymnasium.register("Abrupt-v0", entry_point=Abrupt, max_episode_steps=60)
"""
    )
    (tmp_path / "poles.toml").write_text(TEXT.replace('"CartPole-v1"', '"abrupt:Abrupt-v0"'))
    done = run_study(tmp_path, "--seeds", "0", "--only", "dqn")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "failed: crashed 3 times at step 0: killed by SIGABRT" in done.stderr
    log = tmp_path / "runs" / "poles-tiny" / "dqn" / "abrupt-Abrupt-v0" / "seed0" / "log.txt"
    assert "abrupt.py" in log.read_text(), "it has the place"


def test_a_driver_killed_during_an_evaluation_leaves_no_orphan_behind(tmp_path: Path) -> None:
    """An evaluation that takes very long."""
    (tmp_path / "poles.toml").write_text(
        TEXT.replace("evaluation.episodes = 2", "evaluation.episodes = 10_000_000")
    )
    first = run_folders(tmp_path)[RUNS[0]]
    study = begin(tmp_path, "--only", "dqn", "--seeds", "0")
    wait_until(lambda: step_of(first) >= 800, study)
    time.sleep(1.0)  # the evaluation at step 1,000 has started; the checkpoint comes after it
    assert step_of(first) == 800
    pid = pid_of(first)
    study.kill()
    study.communicate()
    wait_until(lambda: not _lives(pid), None)
    assert not RunFolder(first).is_locked()


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_the_report_would_reject_is_rejected_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "poles.toml").write_text(
        TEXT.replace(
            '[variants.dqn]\npreset = "dqn"\n',
            '[variants.dqn]\npreset = "dqn"\ngrid.evaluation.episodes = [2, 3]\n',
        )
    )
    refused = run_study(tmp_path)
    assert refused.returncode == 2
    assert "evaluation.episodes is 2 in dqn-episodes-2/CartPole-v1/seed0 and 3" in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_names_every_run_and_those_that_would_be_copied(whole: Path) -> None:
    done = run_study(whole, "--jobs", "16", "--dry-run", name="again")
    assert done.returncode == 0, done.stderr
    assert f"{RUNS[0]:<40} same as runs/" in done.stdout
    assert "4 runs (4 to be copied from other studies): 2 variants, 1 game," in done.stdout
    assert "nothing left to run" in done.stdout
    assert not (whole / "runs" / "again-tiny").exists()


def test_other_settings_in_the_same_folder_are_named(tmp_path: Path, whole: Path) -> None:
    (tmp_path / "poles.toml").write_text(TEXT.replace("target.period = 200", "target.period = 100"))
    folder = str(whole / "runs" / "poles-tiny")
    refused = run_study(tmp_path, "--folder", folder)
    assert refused.returncode == 2
    assert "target.period was 200, is 100; choose another --folder" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_another_study_in_the_same_folder_is_refused(tmp_path: Path, whole: Path) -> None:
    (tmp_path / "poles.toml").write_text(TEXT + "\n[scales.smoke]\nseeds = [0]\n")
    folder = str(whole / "runs" / "poles-tiny")
    refused = run_study(tmp_path, "--folder", folder, "--scale", "smoke")
    assert refused.returncode == 2
    assert "belongs to the study poles at scale tiny" in refused.stderr


def test_a_second_driver_is_kept_out(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "poles-tiny"
    folder.mkdir(parents=True)
    with open(folder / ".study-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = run_study(tmp_path)
    assert refused.returncode == 2
    assert "in use by another `proxrl study`" in refused.stderr
