"""The table of runs: one bad folder is a row, names are shown as they are."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from proxrl import presets
from proxrl.config import to_json
from proxrl.runs import listing
from proxrl.runs.attempts import newest_attempt, node_of, process_of
from proxrl.runs.folder import RunFolder
from proxrl.runs.listing import _table, list_runs


def run(folder: Path) -> None:
    folder.mkdir(parents=True)
    config = to_json(presets.make("dqn", "CartPole-v1"))
    (folder / "config.json").write_text(json.dumps(config))


def test_names_with_markup_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a[red]", "a[/red]", "a[bold]"):
        run(tmp_path / name)
    list_runs(tmp_path)
    out = capsys.readouterr().out
    for name in ("a[red]", "a[/red]", "a[bold]"):
        assert f"{name} (CartPole-v1)" in out


def test_a_folder_that_is_not_utf_8_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "odd\udcff")
    list_runs(tmp_path)
    assert "odd\\udcff" in capsys.readouterr().out


def test_one_bad_folder_does_not_end_the_listing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever reading it raises."""
    for name in ("bad", "good"):
        run(tmp_path / name)
    real = listing.read_run

    def read(path: Path, root: Path):  # type: ignore[no-untyped-def]
        if path.name == "bad":
            raise IndexError("something\nunforeseen")
        return real(path, root)

    monkeypatch.setattr(listing, "read_run", read)
    list_runs(tmp_path)
    out = capsys.readouterr().out
    assert "corrupt: something unforeseen" in out
    assert "good (CartPole-v1)" in out


@pytest.mark.parametrize("file", ["speed.jsonl", "progress.json", "attempts/1.json"])
@pytest.mark.parametrize("content", ["[" * 100_000, '{"steps_per_second": 1, "unix_time": 1e999}'])
def test_a_damaged_file_that_is_only_shown_changes_no_status(
    file: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "run")
    (tmp_path / "run" / "attempts").mkdir()
    (tmp_path / "run" / file).write_text(content + "\n")
    list_runs(tmp_path)
    assert "stopped" in capsys.readouterr().out
    place = RunFolder(tmp_path / "run")
    assert (place.progress(), node_of(place.path), process_of(place.path)) == (None, "", "")


@pytest.mark.parametrize(
    "file", ["checkpoints/000000000700 (copy).safetensors", "attempts/1 (conflicted copy).json"]
)
def test_copies_made_by_other_programs_are_ignored(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "a")
    (tmp_path / "a" / file).parent.mkdir()
    (tmp_path / "a" / file).touch()
    list_runs(tmp_path)
    assert "corrupt" not in capsys.readouterr().out
    assert newest_attempt(tmp_path / "a") == 0
    assert RunFolder(tmp_path / "a").newest_step() is None


def test_in_a_narrow_terminal_names_have_the_room() -> None:
    row = ["dqn-pro_MinAtar-Breakout-v1_seed0", "50% of 1,000,000", "running", "3.5", "900", "now"]
    screen = io.StringIO()
    Console(file=screen, width=80).print(_table([row], narrow=True))
    (line,) = [line for line in screen.getvalue().splitlines() if "seed0" in line]
    assert line.split() == ["dqn-pro_MinAtar-Breakout-v1_seed0", "50%", "running", "3.5", "now"]
    screen = io.StringIO()
    Console(file=screen, width=200).print(_table([row], narrow=False))
    assert "50% of 1,000,000" in screen.getvalue()
    assert "steps/s" in screen.getvalue()
