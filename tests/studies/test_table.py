"""Progress of a study: a table in a terminal, lines elsewhere; the estimates of `--dry-run`."""

import io
import time
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from proxrl.studies.board import Board
from proxrl.studies.definition import parse
from proxrl.studies.estimate import Pace, estimate
from proxrl.studies.expand import expand
from proxrl.studies.listing import _print_narrow_list
from proxrl.studies.table import Show, summary
from proxrl.training.amounts import duration, gigabytes
from proxrl.training.resources import Requirements
from tests.studies.small import STEPS, TEXT


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """One done, one running at 100 steps/s, one waiting, one failed."""
    study = parse("poles", TEXT)
    board = Board(expand(study, study.scales["tiny"], tmp_path))
    done, running, _, failed = board.entries.values()
    done.status, done.step, done.last_return = "finished", STEPS, 71.5
    now = time.monotonic()
    running.status, running.step, running.last_return = "running", 1_000, 12.25
    running.begun = (now - 10.0, 0)
    failed.status, failed.reason = "failed", "the disk is full"
    return board


def shown(board: Board, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    first = next(iter(board.entries.values()))
    with Show("poles", console) as show:
        show(board, first, "finished")
        show(board, None, "")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_counts_variants_and_shows_what_runs(board: Board) -> None:
    text = shown(board, terminal=True)
    for word in ("waiting", "running", "finished", "failed", "all", "dqn-pro"):
        assert word in text
    assert "dqn-pro/CartPole-v1/seed0" in text
    assert f"1,000 / {STEPS:,} steps  return 12.2" in text
    assert "1 of 4 runs finished, 1 running, 1 waiting, 1 failed; about" in text


def test_elsewhere_an_event_is_a_line(board: Board) -> None:
    text = shown(board, terminal=False)
    assert text.splitlines()[0].startswith("[1/4] dqn/CartPole-v1/seed0: finished, return 71.5")
    assert "\x1b" not in text


def test_the_summary_says_how_long_it_will_take(board: Board) -> None:
    # (2,000 left of the running one + 3,000 of the waiting one) / 100 steps/s
    assert summary(board).endswith("about 50 s left")


def test_an_estimate_adds_up(board: Board) -> None:
    needs = {
        "dqn": Requirements(memory=100, disk=50, seconds=30.0, final_disk=10, replay=30),
        "dqn-pro": Requirements(memory=200, disk=70, seconds=60.0, final_disk=20, replay=40),
    }
    known = estimate(board, needs, at_once=2)
    assert known.paces["dqn"] == Pace(STEPS / 30.0, measured=False)
    assert known.final_disk == 2 * 10 + 2 * 20
    assert known.peak_disk == known.final_disk + 2 * (70 - 20), "the two largest replays at once"
    assert known.memory == 200 + 200
    # left: 2,000 of 3,000 steps of a Pro, a whole DQN, and the Pro that failed, two at a time
    assert known.seconds == pytest.approx((40.0 + 30.0 + 60.0) / 2)


def test_sizes_and_times_are_for_people() -> None:
    assert [gigabytes(n) for n in (5e6, 2.5e9, 3e12)] == ["5 MB", "2.5 GB", "3.0 TB"]
    times = (45, 600, 9_000, 5 * 86_400, 40 * 365.25 * 86_400)
    assert [duration(n) for n in times] == ["45 s", "10 min", "2.5 h", "5 days", "40 years"]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_list_of_studies_in_a_narrow_terminal_shows_names_without_markup(
    terminal: bool,
) -> None:
    file = io.StringIO()
    colors: Literal["standard"] | None = "standard" if terminal else None
    _print_narrow_list(Console(file=file, width=60, markup=False, color_system=colors))
    first = file.getvalue().splitlines()[0]
    assert first == ("\x1b[1mpmpi\x1b[0m (figure 1)" if terminal else "pmpi (figure 1)")
    assert "[bold]" not in file.getvalue()
