"""Killed at any moment and resumed: bit-identical to the run that was never killed."""

import random
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from proxrl.envs import make
from proxrl.runs.checkpoint import checkpoint_path, checkpoint_steps, read, split
from proxrl.runs.folder import RunFolder
from proxrl.training import checkpoint as writing
from proxrl.training.run import resume, train
from proxrl.types import ObservationSpec, State
from tests.end_to_end.conftest import WholeRun
from tests.end_to_end.runs import (
    Listener,
    assert_long_enough,
    assert_same_bits,
    begin,
    live,
    newest,
)
from tests.end_to_end.victim import SCENARIOS

# Each kill is in a new process that resumed the previous one; counts are per process.
KILLS = [
    ("advance", "430"),  # after warm-up
    ("write", "3"),  # inside a checkpoint write
    ("advance", "2"),  # just after a resume
    ("evaluate", "2"),  # inside an evaluation
    ("rename", "4"),  # written, not yet renamed
]


def spec_of(name: str) -> ObservationSpec:
    config = SCENARIOS[name]
    return make(config.env, config.protocol).observation


QUICK = ("cartpole", "rainbow-full")  # five kills of the others are in make test-faults


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.faults]) for name in SCENARIOS],
)
def test_five_kills_and_the_same_bits(name: str, tmp_path: Path, whole_run: WholeRun) -> None:
    config, spec = SCENARIOS[name], spec_of(name)
    whole = whole_run(name)
    assert_long_enough(config, whole, spec)
    folder = tmp_path / "killed"
    for fault in KILLS:
        killed = live(name, folder, *fault)
        assert killed.returncode == -signal.SIGKILL, f"{fault}: {killed.stderr}"
    finished = live(name, folder, "finish")
    assert finished.returncode == 0, finished.stderr
    assert_same_bits(config, whole, folder, spec)


@pytest.mark.parametrize("name", ["cartpole", "adaptive", "accelerated", "rainbow-full"])
def test_a_checkpoint_does_not_depend_on_when_it_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, or as late as possible: training goes on beside the thread that writes it."""

    class Now(threading.Thread):
        def start(self) -> None:
            self.run()

        def join(self, timeout: float | None = None) -> None:
            pass

    class Late(threading.Thread):
        def start(self) -> None:
            pass

        def join(self, timeout: float | None = None) -> None:
            self.run()

    config = SCENARIOS[name].override({"checkpoint.keep_all": True, "steps": 750})
    folders = [tmp_path / "now", tmp_path / "late"]
    for folder, thread in zip(folders, (Now, Late), strict=True):
        monkeypatch.setattr(writing.threading, "Thread", thread)
        train(config, folder)
    steps = checkpoint_steps(RunFolder(folders[0]).checkpoints)
    assert len(steps) == 5
    for step in steps:
        paths = [checkpoint_path(RunFolder(folder).checkpoints, step) for folder in folders]
        (now, state), (late, its_state) = (split(read(path)) for path in paths)
        assert state == its_state
        assert not [key for key in now if now[key].tobytes() != late[key].tobytes()]


@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_a_damaged_newest_checkpoint_is_noticed_and_the_one_before_it_used(
    damage: str,
    tmp_path: Path,
    whole_run: WholeRun,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The worst moment: just before the next checkpoint is due, after the ring has wrapped."""
    name = "cartpole"
    config = SCENARIOS[name]
    whole = whole_run(name)
    folder = tmp_path / "damaged"
    just_before = 14 * config.checkpoint.period_steps - 1
    assert live(name, folder, "advance", str(just_before + 1)).returncode == -signal.SIGKILL
    checkpoints = RunFolder(folder).checkpoints
    steps = checkpoint_steps(checkpoints)
    assert len(steps) == 2
    newest_path = checkpoint_path(checkpoints, steps[-1])
    content = bytearray(newest_path.read_bytes())
    if damage == "truncated":
        newest_path.write_bytes(content[: len(content) // 2])
    else:
        content[-100] ^= 1
        newest_path.write_bytes(content)
    listener = Listener()
    resume(folder, display=listener)
    assert any("using the previous one" in line for line in listener.said)
    assert_same_bits(config, whole, folder, spec_of(name))


def test_a_damaged_last_checkpoint_is_trained_again_and_not_called_finished(
    tmp_path: Path,
    whole_run: WholeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed between its last checkpoint and tidying up; then a bit flips. From Python, too, it is
    said."""
    name = "cartpole"
    config, folder = SCENARIOS[name], tmp_path / "run"
    with monkeypatch.context() as killed:
        killed.setattr(RunFolder, "tidy", lambda *_: None)
        train(config, folder)
    path = checkpoint_path(RunFolder(folder).checkpoints, config.steps)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    agent = resume(folder)
    assert agent.step == config.steps
    assert "does not match its checksum: using the previous one" in capsys.readouterr().err
    assert_same_bits(config, whole_run(name), folder, spec_of(name))


OWN_BATCH = {"proximal.rule": "values", "proximal.c": 1.0, "proximal.own_batch": True}
GENERATORS = {
    "cartpole": ({}, {"acting", "sampling"}),
    "rainbow-full": (OWN_BATCH, {"acting", "sampling", "noise", "proximal"}),
}


@pytest.mark.parametrize(
    ("name", "generator"), [(n, g) for n, (_, all_of) in GENERATORS.items() for g in sorted(all_of)]
)
def test_every_saved_generator_matters(
    name: str, generator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutation that the kill test must detect: do not restore one generator."""
    changes, generators = GENERATORS[name]
    config = SCENARIOS[name].override({"steps": 450, "evaluation.episodes": 1, **changes})
    if generator == "acting":  # full Rainbow explores by noise: give it an epsilon
        config = config.override({"exploration.final_epsilon": 0.5})
    train(config, tmp_path / "half")
    _, state = newest(tmp_path / "half")
    assert set(state["generators"]) == generators, "test every one of them"
    shutil.copytree(tmp_path / "half", tmp_path / "exact")
    resume(tmp_path / "exact", {"steps": 600})

    shutil.copytree(tmp_path / "half", tmp_path / "mutant")
    original = RunFolder.newest_checkpoint

    def forgetful(self: RunFolder, *arguments: object, **words: object) -> State | None:
        found = original(self, *arguments, **words)  # type: ignore[arg-type]
        if found is not None and found["step"] == 450:
            import numpy as np

            found["generators"][generator] = np.random.default_rng(0).bit_generator.state
        return found

    monkeypatch.setattr(RunFolder, "newest_checkpoint", forgetful)
    resume(tmp_path / "mutant", {"steps": 600})
    exact, mutant = newest(tmp_path / "exact")[0], newest(tmp_path / "mutant")[0]
    assert any(exact[name].tobytes() != mutant[name].tobytes() for name in exact)


def test_an_extension_is_the_longer_run(tmp_path: Path) -> None:
    """With the replay kept, 900 steps extended to 1,500 are bit-identical to 1,500 steps."""
    config = SCENARIOS["cartpole"]
    train(config.override({"steps": 900}), tmp_path / "extended")
    resume(tmp_path / "extended", {"steps": 1500})
    train(config.override({"steps": 1500}), tmp_path / "whole")
    (arrays, state), (its_arrays, its_state) = (
        newest(tmp_path / name) for name in ("extended", "whole")
    )
    assert all(arrays[name].tobytes() == its_arrays[name].tobytes() for name in arrays)
    assert state["generators"] == its_state["generators"]
    assert state["log"] == its_state["log"]


def test_same_seed_same_bits_and_other_seeds_differ(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 600})
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(config.override({"seed": seed}), tmp_path / name)
    a, b, c = (newest(tmp_path / name)[0] for name in "abc")
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)
    assert any(a[name].tobytes() != c[name].tobytes() for name in a)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.faults)]
)
def test_a_signal_saves_and_says_how_to_go_on(
    number: signal.Signals,
    tmp_path: Path,
    whole_run: WholeRun,
) -> None:
    name = "cartpole"
    whole = whole_run(name)
    folder = tmp_path / "stopped"
    process = begin(name, folder, "finish")
    while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode == 128 + number
    assert "continue with: proxrl resume" in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert live(name, folder, "finish").returncode == 0
    assert_same_bits(SCENARIOS[name], whole, folder, spec_of(name))


def test_ctrl_c_inside_an_evaluation_saves_from_before_it(
    tmp_path: Path,
    whole_run: WholeRun,
) -> None:
    name = "cartpole"
    whole = whole_run(name)
    folder = tmp_path / "interrupted"
    stopped = live(name, folder, "interrupt", "2")
    assert stopped.returncode == 130
    assert "stopped at step 1,200" in stopped.stderr
    assert newest(folder)[1]["evaluated_step"] == 600, "the second evaluation is still to come"
    assert live(name, folder, "finish").returncode == 0
    assert_same_bits(SCENARIOS[name], whole, folder, spec_of(name))


@pytest.mark.faults
@pytest.mark.parametrize("name", SCENARIOS)
def test_fifty_kills_at_any_moment(name: str, tmp_path: Path, whole_run: WholeRun) -> None:
    """SIGKILL at a random time: progress is only what checkpoints hold."""
    config, chance = SCENARIOS[name], random.Random(0)
    whole = whole_run(name)
    folder = tmp_path / "killed"
    kills = 0
    while kills < 50:
        process = begin(name, folder, "finish")
        begun = RunFolder(folder)
        while process.poll() is None and not begun.is_locked():
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 2.0))
        if process.poll() is not None:  # finished before the kill: start again
            assert process.returncode == 0
            assert_same_bits(config, whole, folder, spec_of(name))
            shutil.rmtree(folder)
            continue
        process.kill()
        process.communicate()
        kills += 1
    assert live(name, folder, "finish").returncode == 0
    assert_same_bits(config, whole, folder, spec_of(name))
