"""Every file of a run folder cut, emptied, flipped, or replaced by a folder, a link or a FIFO.

For every command: the same result as with the intact folder, or exit code 2 and one line; never a
traceback, and nothing is lost. `make test` runs a sample, `make test-faults` everything.
"""

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.training.run import resume, train
from tests.conftest import Once
from tests.end_to_end.runs import newest
from tests.end_to_end.victim import SCENARIOS

CONFIG = SCENARIOS["cartpole"].override(
    {"steps": 500, "checkpoint.period_steps": 150, "evaluation.period_steps": 150}
)
STOPPED = 450  # checkpoints at 300 and 450
FILES = (
    "config.json",
    "metrics.jsonl",
    "episodes.jsonl",
    "speed.jsonl",
    "machine.jsonl",
    "evaluations.jsonl",
    ".lock",
    "failure.txt",
    "log.txt",
    "progress.json",
    "attempts/1.json",
    "checkpoints/000000000300.safetensors",
    "checkpoints/000000000450.safetensors",
    "replay/from-0/frames.bin",
    "replay/from-0/steps.bin",
    "tensorboard/events",
    "videos/step-450.mp4",
    "report/notes.txt",
)
COMMANDS = {
    "runs": ["runs"],
    "report": ["report", "--resamples", "10"],
    "eval": ["eval", "--episodes", "1"],
    "play": ["play", "--max-steps", "3", "--out", "film.gif"],
    "resume": ["resume", "--steps", str(CONFIG.steps)],
}


# ----------------------------------------------------------------------------------------- damages


def truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path, chance: random.Random) -> None:
    os.truncate(path, 0)


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path, chance: random.Random) -> None:
    victim = path.with_name(f"{path.name}.target")
    path.rename(victim)
    path.symlink_to(victim)


def fifo(path: Path, chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    damage.__name__: damage for damage in (truncate, empty, flip, folder, link, fifo)
}
ALL = [(command, name, damage) for command in COMMANDS for name in FILES for damage in DAMAGES]
SAMPLE = [
    *[("runs", name, damage) for name in FILES[:4] for damage in ("truncate", "folder", "fifo")],
    *[("resume", name, "flip") for name in FILES[10:14]],
    *[("resume", name, "folder") for name in ("metrics.jsonl", "attempts/1.json", FILES[12])],
    *[("resume", name, "truncate") for name in ("config.json", "metrics.jsonl", FILES[11])],
    *[("eval", name, damage) for name in (FILES[0], FILES[11]) for damage in ("empty", "link")],
    ("report", "metrics.jsonl", "fifo"),
    ("report", "config.json", "empty"),
    ("resume", ".lock", "fifo"),
]


Attack = Callable[[list[str], str, str, Path], tuple[str | None, Path]]


# --------------------------------------------------------------------------------------- the runs


@pytest.fixture(scope="module")
def stopped(once: Once) -> Path:
    """Stopped at step 450, with every file that a run folder may have."""

    def make(place: Path) -> None:
        run = place / "run"
        train(CONFIG.override({"steps": STOPPED, "checkpoint.keep_all": False}), run)
        for name in FILES:
            path = run / name
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                path.write_text("{}\n")
        (run / "failure.txt").write_text("it stopped\n")

    def with_two(place: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("proxrl.runs.folder.RunFolder.tidy", lambda *_: None)
            make(place)

    return once("fuzz-stopped", with_two) / "run"


@pytest.fixture(scope="module")
def whole(stopped: Path, once: Once) -> Path:
    """The same run, resumed without damage."""

    def make(place: Path) -> None:
        shutil.copytree(stopped, place / "run")
        resume(place / "run", {"steps": CONFIG.steps})

    return once("fuzz-whole", make) / "run"


@pytest.fixture(scope="module")
def finished(once: Once) -> Path:
    """A run as `train` leaves it at its end: one checkpoint, no replay."""
    return once("fuzz-finished", lambda place: train(CONFIG, place / "run")) / "run"


def contents(run: Path) -> dict[str, bytes | str]:
    """Every file (a link and a FIFO by their kind). Each process adds a file to attempts/, and
    `report` makes report/: those that were there before must stay."""
    found: dict[str, bytes | str] = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if name.startswith("report/") and not name.startswith("report/notes"):
            continue  # made by the command itself
        if re.fullmatch(r"attempts/[2-9]\d*\.json", name):  # of the command itself
            continue
        if path.is_symlink() or path.is_fifo():
            found[name] = "link" if path.is_symlink() else "fifo"
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def said_or_refused(
    words: list[str],
    name: str,
    damage: str,
    intact: Path,
    run: Path,
    capsys: pytest.CaptureFixture[str],
) -> str | None:
    """Damage a copy and run the command: what it says, or None if it refuses in one line. Only a
    resumed run is changed."""
    shutil.copytree(intact, run)
    DAMAGES[damage](run / name, random.Random(f"{name} {damage}"))
    before = contents(run)
    try:
        cli.main([words[0], "run", *words[1:]])
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert code in (0, 2), said
    if code == 2:
        lines = [line for line in said.splitlines() if " of memory, " not in line]
        assert len(lines) == 1, said
        assert lines[0].startswith("proxrl: ")
        assert contents(run) == before, "nothing was written or lost"
        return None
    if words[0] != "resume" or "is finished at step" in said:
        after = contents(run)
        after["evaluations.jsonl"] = before.get("evaluations.jsonl", b"")
        assert after == before | {"evaluations.jsonl": after["evaluations.jsonl"]}
    return said


@pytest.fixture
def attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Attack:
    """Runs a command on a copy of a run with one damaged file; see `said_or_refused`."""
    monkeypatch.chdir(tmp_path)

    def attacked(words: list[str], name: str, damage: str, run: Path) -> tuple[str | None, Path]:
        copy = tmp_path / "run"
        return said_or_refused(words, name, damage, run, copy, capsys), copy

    return attacked


def check(case: tuple[str, str, str], attack: Attack, stopped: Path, whole: Path) -> None:
    command, name, damage = case
    said, run = attack(COMMANDS[command], name, damage, stopped)
    if said is None or command != "resume":
        return
    if "was deleted" in said or "at the checkpoint, is" in said:  # said: not the same run
        return
    (arrays, state), (its_arrays, its_state) = newest(run), newest(whole)
    assert {**state, "config": 0} == {**its_state, "config": 0}
    assert all(arrays[one].tobytes() == its_arrays[one].tobytes() for one in its_arrays)
    for one in ("metrics.jsonl", "episodes.jsonl"):
        assert (run / one).read_bytes() == (whole / one).read_bytes()


@pytest.mark.parametrize("case", SAMPLE, ids="-".join)
def test_a_damaged_file_is_named_or_harmless(
    case: tuple[str, str, str], attack: Attack, stopped: Path, whole: Path
) -> None:
    check(case, attack, stopped, whole)


@pytest.mark.faults
@pytest.mark.parametrize("case", [case for case in ALL if case not in SAMPLE], ids="-".join)
def test_every_damage_of_every_file_for_every_command(
    case: tuple[str, str, str], attack: Attack, stopped: Path, whole: Path
) -> None:
    check(case, attack, stopped, whole)


OF_THE_FINISHED = (
    "config.json",
    "metrics.jsonl",
    "episodes.jsonl",
    "speed.jsonl",
    "machine.jsonl",
    "attempts/1.json",
    "checkpoints/000000000500.safetensors",
)


def check_finished(command: str, name: str, damage: str, attack: Attack, finished: Path) -> None:
    words = ["resume"] if command == "resume" else COMMANDS[command]
    said, _ = attack(words, name, damage, finished)
    if command == "resume":
        assert said is None or "is finished at step 500" in said


@pytest.mark.parametrize("name", OF_THE_FINISHED)
def test_a_finished_run_with_a_damaged_file_is_refused_or_intact(
    name: str, attack: Attack, finished: Path
) -> None:
    check_finished("resume", name, "flip", attack, finished)


@pytest.mark.faults
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", OF_THE_FINISHED)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_of_every_file_of_a_finished_run(
    command: str, name: str, damage: str, attack: Attack, finished: Path
) -> None:
    check_finished(command, name, damage, attack, finished)
