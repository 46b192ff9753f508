"""Files that were edited, damaged, forged or linked: named in one line, and nothing is lost."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxrl.config import RunConfig, to_json
from proxrl.envs import make
from proxrl.errors import UserError
from proxrl.runs.checkpoint import checkpoint_path, checkpoint_steps, read, split, write
from proxrl.runs.folder import RunFolder, Superseded
from proxrl.runs.study_file import About
from proxrl.source import source_version
from proxrl.studies.adopt import adoptable
from proxrl.studies.board import Board
from proxrl.studies.expand import Job
from proxrl.studies.folder import write_about
from proxrl.training.agent import Agent
from proxrl.training.run import resume, train
from tests.conftest import Once
from tests.end_to_end.runs import Listener, assert_same_bits, newest
from tests.end_to_end.victim import SCENARIOS

CONFIG = SCENARIOS["cartpole"].override({"steps": 750, "evaluation.period_steps": 300})
STOPPED = 650  # between the checkpoints at 600 and 750


def contents(folder: Path) -> dict[str, bytes]:
    """Every file except the lock and the attempts."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    names = {str(path.relative_to(folder)): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if name != ".lock" and not name.startswith("attempts")
    }


@pytest.fixture(scope="module")
def whole(once: Once) -> Path:
    return once("integrity-whole", lambda folder: train(CONFIG, folder / "run")) / "run"


@pytest.fixture(scope="module")
def a_stopped_run(once: Once) -> Path:
    """Killed at step 650, with checkpoints at 450 and 600."""

    def make_it(folder: Path) -> None:
        from proxrl.training.loop import Trainer

        class Killed(Exception):
            pass

        advance = Trainer.advance

        def until(self: Trainer) -> None:
            if self.step == STOPPED:
                self.checkpointer.wait()
                raise Killed
            advance(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Trainer, "advance", until)
            with pytest.raises(Killed):
                train(CONFIG, folder / "run")
        (folder / "run" / "failure.txt").unlink()

    folder = once("integrity-stopped", make_it) / "run"
    assert checkpoint_steps(folder / "checkpoints") == [450, 600]
    return folder


@pytest.fixture
def stopped(a_stopped_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(a_stopped_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def finished(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def assert_refused(folder: Path, match: str, **changes: Any) -> None:
    """`resume` says why in one line, and changes nothing."""
    before = contents(folder)
    with pytest.raises(UserError, match=match) as caught:
        resume(folder, changes or None)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


def assert_resumes_to_the_same_bits(folder: Path, whole: Path) -> list[str]:
    said = resumed(folder)
    assert_same_bits(CONFIG, whole, folder, make(CONFIG.env, CONFIG.protocol).observation)
    return said


def resumed(folder: Path) -> list[str]:
    """What `resume` says besides the requirements."""
    listener = Listener()
    resume(folder, display=listener)
    return [line for line in listener.said if " of memory" not in line]


def flip(path: Path, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))


def test_an_untouched_run_resumes_to_the_same_bits(stopped: Path, whole: Path) -> None:
    """The base of every test below."""
    assert assert_resumes_to_the_same_bits(stopped, whole) == []


# ------------------------------------------------------------------------------ an edited config

EDITS: dict[str, Any] = {
    "env": "Acrobot-v1",
    "seed": 5,
    "threads": 2,
    "device": "cpu",
    "protocol.clip_rewards": True,
    "protocol.max_episode_steps": 70,
    "network.hidden": (64, 64),
    "network.dueling": True,
    "head.kind": "categorical",
    "replay.capacity": 200,
    "replay.batch_size": 16,
    "replay.n_step": 2,
    "replay.sampling": "prioritised",
    "learner.discount": 0.9,
    "learner.learning_rate": 1e-3,
    "learner.loss": "squared",
    "learner.update_period_steps": 1,
    "target.period": 100,
    "target.rule": "polyak",
    "proximal.c": 0.5,
    "proximal.rule": "values",
    "exploration.final_epsilon": 0.2,
    "checkpoint.period_steps": 75,
    "checkpoint.keep_replay": False,
    "agent": "dqn",
}


@pytest.mark.parametrize("setting", EDITS)
def test_an_edited_config_is_named_and_nothing_is_deleted(setting: str, stopped: Path) -> None:
    edited = CONFIG.override({setting: EDITS[setting]})
    assert edited != CONFIG
    (stopped / "config.json").write_text(json.dumps(to_json(edited)))
    assert_refused(
        stopped, rf"config\.json was changed since the checkpoint at step 600: {setting} was .*, is"
    )
    with pytest.raises(UserError, match=f"{setting} was"):
        Agent.load(stopped)


def test_settings_that_may_change_are_said_if_they_were_edited(stopped: Path) -> None:
    edited = CONFIG.override({"evaluation.epsilon": 0.5})
    (stopped / "config.json").write_text(json.dumps(to_json(edited)))
    assert resumed(stopped) == [
        f"{stopped / 'config.json'}: evaluation.epsilon was 0.001 at the checkpoint, is 0.5"
    ]


def test_an_edited_capacity_does_not_delete_a_replay_of_the_former_format(stopped: Path) -> None:
    """Checkpoints of format 2 do not hold the config."""
    make_format_2(stopped)
    edited = CONFIG.override({"replay.capacity": 200})
    (stopped / "config.json").write_text(json.dumps(to_json(edited)))
    assert_refused(stopped, r"frames\.bin has .* bytes instead of .* delete .*replay to refill it")


# ---------------------------------------------------------------------- replay, metrics, episodes


def make_format_2(folder: Path) -> None:
    from proxrl.runs import checkpoint

    for step in checkpoint_steps(folder / "checkpoints"):
        path = checkpoint_path(folder / "checkpoints", step)
        state = read(path)
        for part in ("config", "checksums"):
            del state[part]
        for part in ("metrics_sha256", "episodes_sha256"):
            del state["logger"][part]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint, "FORMAT", 2)
            checkpoint.write(path, state)


def test_the_former_format_resumes_to_the_same_bits_and_says_that_it_has_no_checksums(
    stopped: Path, whole: Path
) -> None:
    make_format_2(stopped)
    (line,) = assert_resumes_to_the_same_bits(stopped, whole)
    assert line == (
        "the checkpoint is of an earlier version: its replay and metrics are unverified"
    )
    assert "checksums" in newest(stopped)[1]


def test_the_former_format_is_evaluated_without_a_word(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_format_2(finished)
    assert Agent.load(finished).step == CONFIG.steps
    assert RunFolder(finished).is_complete(CONFIG)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["frames.bin", "steps.bin"])
def test_a_flipped_bit_in_the_replay_is_named(name: str, stopped: Path) -> None:
    flip(stopped / "replay" / "from-0" / name, 350 * 16)  # in both checkpoints
    assert_refused(stopped, rf"at step 600: .*{name}, .* is damaged \(restore it from a copy")


@pytest.mark.parametrize("name", ["frames.bin", "steps.bin"])
def test_a_zeroed_replay_is_called_zeroed(name: str, stopped: Path) -> None:
    path = stopped / "replay" / "from-0" / name
    path.write_bytes(bytes(path.stat().st_size))
    assert_refused(stopped, rf"{name}, .* is zeroed")


def test_a_stale_replay_is_called_older(stopped: Path, tmp_path: Path) -> None:
    """A backup of the replay from before both checkpoints."""
    train(CONFIG.override({"steps": 300}), tmp_path / "then")
    shutil.copytree(tmp_path / "then" / "replay", stopped / "replay", dirs_exist_ok=True)
    assert_refused(stopped, r"replay/from-0 is older than the checkpoint")


def test_a_replay_of_the_previous_checkpoint_continues_from_there(
    stopped: Path, whole: Path, tmp_path: Path
) -> None:
    """As a folder that was copied while it was trained: first the replay, then the checkpoints."""
    train(CONFIG.override({"steps": 450}), tmp_path / "then")
    shutil.copytree(tmp_path / "then" / "replay", stopped / "replay", dirs_exist_ok=True)
    (line,) = assert_resumes_to_the_same_bits(stopped, whole)
    assert "checkpoint at step 600: " in line
    assert "is older than the checkpoint" in line
    assert line.endswith(": using the previous one")


def test_a_deleted_replay_is_refilled_as_it_says(stopped: Path) -> None:
    shutil.rmtree(stopped / "replay")
    (line,) = resumed(stopped)
    assert line.startswith("the replay was deleted")


@pytest.mark.parametrize("start", ["x/../../../other/replay/from-0", -1, True, 1.0, None, 2**70])
def test_a_forged_checkpoint_cannot_name_the_replay_of_another_run(
    start: object, stopped: Path
) -> None:
    shutil.copytree(stopped, stopped.parent / "other")
    (stopped / "replay" / "from-x").mkdir()
    for step in (450, 600):
        path = checkpoint_path(stopped / "checkpoints", step)
        write(path, {**read(path), "log_start": start})
    before = contents(stopped.parent / "other")
    assert_refused(stopped, r"log_start is .*, not a non-negative integer")
    assert contents(stopped.parent / "other") == before


@pytest.mark.parametrize("value", ["missing", 5, [], {}, "text"])
@pytest.mark.parametrize(
    "part",
    ["log", "previous_log", "learner", "episodes", "generators"],
)
def test_a_part_of_a_checkpoint_that_is_forged_is_one_line(
    part: str, value: object, stopped: Path
) -> None:
    for step in (450, 600):
        path = checkpoint_path(stopped / "checkpoints", step)
        state = {**read(path), part: value}
        if value == "missing":
            del state[part]
        write(path, state)
    settings = (stopped / "config.json").read_bytes()
    with pytest.raises(UserError, match="does not hold the state of "):
        resume(stopped, {"steps": 2 * CONFIG.steps})
    assert (stopped / "config.json").read_bytes() == settings


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl"])
@pytest.mark.parametrize("run", ["stopped", "finished"])
def test_an_edited_line_is_named(name: str, run: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(run)
    text = (folder / name).read_text()
    key = "eval/mean_return" if name == "metrics.jsonl" else "return"
    (folder / name).write_text(text.replace(f'"{key}": ', f'"{key}": 9', 1))
    assert_refused(folder, rf"{name} was changed since the checkpoint was saved")


def test_a_line_damaged_after_the_previous_checkpoint_is_written_again(
    stopped: Path, whole: Path
) -> None:
    length = newest(stopped)[1]["logger"]["episodes"]
    flip(stopped / "episodes.jsonl", length - 5)
    (line,) = assert_resumes_to_the_same_bits(stopped, whole)
    assert line == (
        "checkpoint at step 600: episodes.jsonl was changed since the checkpoint was saved: "
        "using the previous one"
    )


@pytest.mark.parametrize("kind", ["folder", "dangling link", "fifo"])
def test_a_newest_checkpoint_that_is_no_file_is_passed_over(
    kind: str, stopped: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint_path(stopped / "checkpoints", 600)
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
        for load in (Agent.load, resume):
            with pytest.raises(UserError, match=r"000600\.safetensors is a .*: refused"):
                load(stopped)
        return
    path.mkdir() if kind == "folder" else path.symlink_to("nowhere")
    what = "folder" if kind == "folder" else "symbolic link"
    assert Agent.load(stopped).step == 450
    assert f"is a {what}: using the previous one" in capsys.readouterr().err
    (line,) = assert_resumes_to_the_same_bits(stopped, whole)
    assert line == f"checkpoint 000000000600.safetensors is a {what}: using the previous one"
    assert Agent.load(stopped).step == CONFIG.steps, "the one that was renamed is not in the way"
    assert not (stopped / "checkpoints" / "nowhere").exists()


def test_a_damaged_checkpoint_is_renamed_although_there_was_one(stopped: Path, whole: Path) -> None:
    (stopped / "checkpoints" / "000000000600.damaged").mkdir()
    (stopped / "checkpoints" / "000000000600-2.damaged").touch()
    flip(checkpoint_path(stopped / "checkpoints", 600), 5_000)
    assert_resumes_to_the_same_bits(stopped, whole)
    assert (stopped / "checkpoints" / "000000000600-3.damaged").is_file()


@pytest.mark.parametrize("how", ["an option", "config.json", "train"])
@pytest.mark.parametrize("steps", [300, 600])
def test_an_unfinished_run_is_not_finished_by_fewer_steps(
    how: str, steps: int, stopped: Path
) -> None:
    """Its replay and its older checkpoint would be deleted."""
    fewer = CONFIG.override({"steps": steps})
    if how == "config.json":
        RunFolder(stopped).write_config(RunFolder(stopped).config().override({"steps": steps}))
    before = contents(stopped)
    start = {
        "an option": lambda: resume(stopped, {"steps": steps}),
        "config.json": lambda: resume(stopped),
        "train": lambda: train(fewer, stopped, if_exists="resume"),
    }
    with pytest.raises(UserError, match=rf"is at step 600 of 750, and steps is {steps}: set more "):
        start[how]()
    assert contents(stopped) == before


def test_nothing_of_a_run_with_a_linked_folder_is_overwritten(stopped: Path) -> None:
    (stopped / "checkpoints").rename(stopped.parent / "elsewhere")
    (stopped / "checkpoints").symlink_to(stopped.parent / "elsewhere")
    before = contents(stopped)
    with pytest.raises(UserError, match="is a symbolic link"):
        train(CONFIG, stopped, if_exists="overwrite")
    assert contents(stopped) == before


@pytest.mark.parametrize("lost", ["the folder", "the files", "the folder, and metrics"])
def test_lost_checkpoints_are_named_and_nothing_is_deleted(lost: str, stopped: Path) -> None:
    shutil.rmtree(stopped / "checkpoints")
    if lost == "the files":
        (stopped / "checkpoints").mkdir()
    if lost == "the folder, and metrics":
        (stopped / "metrics.jsonl").unlink()
    assert_refused(
        stopped,
        r"has lines up to step 6\d\d but no checkpoint: restore .*checkpoints, or train it again "
        r"\(--if-exists overwrite, or another --folder\); nothing was changed",
    )
    with pytest.raises(UserError, match="but no checkpoint"):
        train(CONFIG, stopped, if_exists="resume")
    train(CONFIG.override({"steps": 150}), stopped, if_exists="overwrite")


@pytest.mark.parametrize("step", [1, 149, 150, 299, 300])
def test_a_run_killed_before_its_first_checkpoint_was_complete_starts_again(
    step: int, whole: Path, tmp_path: Path
) -> None:
    """That of step 150 is written in the background, until step 300 at the latest."""
    place = RunFolder(tmp_path / "run")
    place.make()
    place.write_config(CONFIG)
    place.checkpoints.mkdir()
    (place.checkpoints / "000000000150.writing").write_bytes(b"half")
    for name in ("metrics.jsonl", "episodes.jsonl"):
        (place.path / name).write_text(json.dumps({"step": step}) + '\n{"step"')
    place.require_none_lost(CONFIG)
    if step == 300:
        assert_resumes_to_the_same_bits(place.path, whole)


# ------------------------------------------------------------------------------- done means done


def damages() -> dict[str, Callable[[Path], None]]:
    def bits(folder: Path) -> None:
        (path,) = (folder / "checkpoints").iterdir()
        flip(path, path.stat().st_size - 100)

    def forged(folder: Path) -> None:
        (path,) = (folder / "checkpoints").iterdir()
        path.write_bytes(b"")

    def other_returns(folder: Path) -> None:
        text = (folder / "metrics.jsonl").read_text()
        (folder / "metrics.jsonl").write_text(text.replace('"eval/mean_return": ', '"x": ', 1))

    def cut(folder: Path) -> None:
        lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
        (folder / "metrics.jsonl").write_text("".join(lines[:-1]))

    def longer(folder: Path) -> None:
        with open(folder / "metrics.jsonl", "a") as file:
            file.write((folder / "metrics.jsonl").read_text().splitlines()[-1] + "\n")

    def shorter_run(folder: Path) -> None:
        """A checkpoint of step 600 under the name of step 750."""
        (path,) = (folder / "checkpoints").iterdir()
        state = read(path)
        from proxrl.runs import checkpoint

        checkpoint.write(path, {**state, "step": 600})

    def linked(folder: Path) -> None:
        (folder / "metrics.jsonl").rename(folder.parent / "elsewhere")
        (folder / "metrics.jsonl").symlink_to(folder.parent / "elsewhere")

    found = (bits, forged, other_returns, cut, longer, shorter_run, linked)
    return {damage.__name__: damage for damage in found}


def edited_settings(folder: Path) -> RunConfig:
    edited = CONFIG.override({"learner.discount": 0.9})
    RunFolder(folder).write_config(edited)
    return edited


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_or_forged_run_is_not_finished_in_a_study(
    damage: str, finished: Path, tmp_path: Path
) -> None:
    study = tmp_path / "theirs"
    run = study / "dqn" / "CartPole-v1" / "seed0"
    run.parent.mkdir(parents=True)
    finished.rename(run)
    write_about(study, About(study="theirs", scale="tiny"))
    job = Job("dqn", "CartPole-v1", 0, CONFIG, run)
    ours = tmp_path / "ours" / "dqn" / "CartPole-v1" / "seed0"
    copy = Job("dqn", "CartPole-v1", 0, CONFIG, ours)
    assert Board([job]).entries[job].status == "finished"
    assert adoptable([copy], tmp_path / "ours") == {copy: run}
    damages()[damage](run)
    assert Board([job]).entries[job].status == "waiting"
    assert adoptable([copy], tmp_path / "ours") == {}


def test_a_run_of_another_commit_is_not_copied_into_a_study(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "theirs" / "dqn" / "CartPole-v1" / "seed0"
    run.parent.mkdir(parents=True)
    finished.rename(run)
    write_about(tmp_path / "theirs", About(study="theirs", scale="tiny"))
    copy = Job("dqn", "CartPole-v1", 0, CONFIG, tmp_path / "ours" / "dqn" / "CartPole-v1" / "seed0")
    assert adoptable([copy], tmp_path / "ours") == {copy: run}
    machine = run / "machine.jsonl"
    lines = machine.read_text()
    for other in (
        lines + lines.replace(source_version(), "0.1.0+g1234abc"),  # continued by another one
        lines.replace("proxrl", "made_by"),
        "[]\n",
        "no JSON\n",
        "",
    ):
        machine.write_text(other)
        assert adoptable([copy], tmp_path / "ours") == {}, other
    machine.unlink()
    assert adoptable([copy], tmp_path / "ours") == {}


def test_a_run_finished_with_other_settings_is_not_finished(finished: Path) -> None:
    edited = edited_settings(finished)
    assert not RunFolder(finished).is_complete(edited)
    assert_refused(finished, "learner.discount was 0.99, is 0.9")


# ------------------------------------------------------------------------------------------ links

LINKS = [
    "config.json",
    "config.json.writing",
    "metrics.jsonl",
    "episodes.jsonl",
    "speed.jsonl",
    "machine.jsonl",
    "evaluations.jsonl",
    "failure.txt",
    ".lock",
    "attempts",
    "attempts/2.json",
    "checkpoints",
    "checkpoints/000000000600.safetensors",
    "checkpoints/000000000750.writing",
    "replay",
    "replay/from-0",
    "replay/from-0/frames.bin",
    "tensorboard",
    "videos",
    "videos/step-600.mp4",
]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_refused_and_its_target_untouched(name: str, stopped: Path) -> None:
    path, victim = stopped / name, stopped.parent / "victim"
    if path.exists():
        path.rename(victim)
    elif name == "videos":
        victim.mkdir()
    else:
        victim.write_text("precious")
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(victim)
    before = everything(victim)
    assert_refused(stopped, rf"{name} is a symbolic link.*: refused")
    with pytest.raises(UserError, match="is a symbolic link"):
        Agent.load(stopped)
    assert everything(victim) == before


def everything(path: Path) -> bytes | dict[str, bytes]:
    return contents(path) if path.is_dir() else path.read_bytes()


def test_links_that_are_not_of_the_run_are_left_alone(stopped: Path, whole: Path) -> None:
    """Weights & Biases makes some; and the folder itself may be one."""
    (stopped / "wandb").mkdir()
    (stopped / "wandb" / "latest-run").symlink_to("run-1")
    (stopped.parent / "link").symlink_to(stopped)
    assert assert_resumes_to_the_same_bits(stopped.parent / "link", whole) == []


# ------------------------------------------------------------------------------------------- lock


def test_a_deleted_lock_file_does_not_let_a_second_process_in(stopped: Path) -> None:
    first, second = RunFolder(stopped), RunFolder(stopped)
    with first.locked():
        (stopped / ".lock").unlink()
        assert second.is_locked()
        with pytest.raises(UserError, match="in use by another process"), second.locked():
            pass
        first.require_newest()
    with second.locked():
        pass


def test_the_holder_of_a_folder_that_was_replaced_stops(stopped: Path) -> None:
    first, second = RunFolder(stopped), RunFolder(stopped)
    with first.locked():
        shutil.copytree(stopped, stopped.parent / "copy")
        shutil.rmtree(stopped)
        with pytest.raises(Superseded, match="was deleted or replaced"):
            first.require_newest()
        (stopped.parent / "copy").rename(stopped)
        with second.locked():
            second.require_newest()
            with pytest.raises(Superseded, match="was deleted or replaced"):
                first.require_newest()


def test_without_a_lock_on_the_folder_the_holder_of_a_deleted_lock_file_stops(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on storage that cannot lock folders."""
    monkeypatch.setattr("proxrl.runs.lock.FolderLock._lock_directory", lambda self: None)
    first = RunFolder(stopped)
    with first.locked():
        first.require_newest()
        (stopped / ".lock").unlink()
        with pytest.raises(Superseded, match=r"\.lock was deleted or replaced"):
            first.require_newest()
        (stopped / ".lock").touch()
        with pytest.raises(Superseded, match=r"\.lock was deleted or replaced"):
            first.require_newest()


# ----------------------------------------------------------------------------------- refused late


def test_a_run_refused_late_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise UserError("the environment cannot be used")

    with monkeypatch.context() as late:
        late.setattr("proxrl.training.loop.Trainer.advance", refuse)
        with pytest.raises(UserError, match="cannot be used"):
            train(CONFIG, tmp_path / "new")
        assert not (tmp_path / "new").exists()
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "log.txt").write_text("of a study\n")
        with pytest.raises(UserError, match="cannot be used"):
            train(CONFIG, tmp_path / "there")
        assert (tmp_path / "there" / "log.txt").read_text() == "of a study\n"
    train(CONFIG.override({"steps": 150}), tmp_path / "there")


def test_a_run_refused_after_an_evaluation_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proxrl.training.loop import Trainer

    advance = Trainer.advance

    def refuse(self: Trainer) -> None:
        if self.step == 120:
            raise UserError("the environment cannot be used")
        advance(self)

    monkeypatch.setattr(Trainer, "advance", refuse)
    config = CONFIG.override({"evaluation.period_steps": 100})
    with pytest.raises(UserError, match="cannot be used"):
        train(config, tmp_path / "run")
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1


def test_arrays_of_a_checkpoint_are_covered(stopped: Path) -> None:
    """The replay's checksums are part of the file that has its own."""
    arrays, _ = split(read(checkpoint_path(stopped / "checkpoints", 600)))
    found = arrays["checksums.frames.bin"]
    assert found.dtype == np.uint32
    assert len(found) >= 2
