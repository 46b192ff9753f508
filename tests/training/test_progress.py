"""Progress of a run: a bar in a terminal, one line in place in a notebook, lines elsewhere."""

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from proxrl import presets, train
from proxrl.training import progress
from proxrl.training.evaluate import Evaluation
from proxrl.training.progress import Live, Notebook, Quiet, chosen
from tests.end_to_end.victim import SMALL

CONFIG = presets.make(
    "dqn-pro", "CartPole-v1", {**SMALL, "steps": 300, "evaluation.period_steps": 150}
)


def watched(tmp_path: Path, terminal: bool) -> str:
    screen = io.StringIO()
    train(CONFIG, tmp_path / "run", Live(Console(file=screen, force_terminal=terminal, width=120)))
    return screen.getvalue()


def test_a_terminal_gets_a_bar_with_speed_return_and_time_left(tmp_path: Path) -> None:
    seen = watched(tmp_path, terminal=True)
    assert "dqn-pro on CartPole-v1" in seen
    assert "300/300" in seen
    assert "return" in seen
    assert "/s" in seen
    assert "left" in seen


def test_elsewhere_a_line_per_evaluation_after_what_it_needs(tmp_path: Path) -> None:
    lines = watched(tmp_path, terminal=False).splitlines()
    assert "GB of memory" in lines[0]
    assert lines[1].startswith("settings: dqn-pro for suite classic")
    assert [line.split(")")[0] for line in lines[2:]] == ["step 150 (50%", "step 300 (100%"]


def a_run(step: int, evaluated: float | None, training: float | None) -> Any:
    """What a display reads of a run: a long one, with a long name."""
    return SimpleNamespace(
        config=presets.make("rainbow-authors-pro", "ALE/MontezumaRevenge-v5"),  # 30M steps
        step=step,
        last_evaluation=None if evaluated is None else Evaluation([evaluated], [1], {}),
        training_return=training,
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_evaluation_shows_that_it_is_alive(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    clock = iter(range(0, 1000, 10))  # ten seconds a step
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(clock)))
    console = Console(file=screen, force_terminal=terminal, width=120, legacy_windows=False)
    live, run = Live(console), a_run(10_000, None, None)
    for _ in range(14):
        live.on_evaluation_step(run)
    if terminal:
        console.print(live._bar.get_renderable())
        assert "step 10,000: evaluating, 14 steps" in screen.getvalue()
    else:
        assert screen.getvalue().splitlines() == [
            "step 10,000: evaluating, 7 steps",
            "step 10,000: evaluating, 13 steps",
        ]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize(
    ("evaluated", "training", "returns"),
    [
        (None, None, "return –"),
        (None, -123_456.7, "return -123,456.7 (training)"),
        (-123_456.7, 1.0, "return -123,456.7 "),
    ],
)
def test_the_bar_fits_with_all_of_its_text(
    width: int,
    evaluated: float | None,
    training: float | None,
    returns: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    clock = iter([0.0, 1000.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock, 2000.0))
    console = Console(file=screen, force_terminal=True, width=width, legacy_windows=False)
    live = Live(console)
    for step in (10_000_000, 25_678_901):  # 15,679 steps/s
        live.on_step(a_run(step, evaluated, training))
    console.print(live._bar.get_renderable())
    shown = Text.from_ansi(screen.getvalue()).plain.splitlines()
    assert len(shown) == 1
    assert len(shown[0]) <= width
    assert "25.68M/30.00M  15,679/s" in shown[0]
    assert returns in shown[0]
    assert "5 min left" in shown[0]
    assert len(re.findall("[━╸╺]", shown[0])) >= 8


def test_the_speed_of_a_line_is_that_of_training_not_of_the_evaluation_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 2.0, 100.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    screen = io.StringIO()
    live = Live(Console(file=screen, width=80))
    for step in (0, 1_000):
        live.on_step(a_run(step, None, None))
    live.on_evaluation(a_run(1_000, 9.0, None))  # 98 seconds later
    assert "return 9.0  500 steps/s" in screen.getvalue()


def test_the_bar_uses_the_room_that_its_text_leaves() -> None:
    for width, least in ((80, 20), (120, 40)):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=True, width=width, legacy_windows=False)
        live = Live(console)
        live.on_step(a_run(1_000, 9.0, None))
        console.print(live._bar.get_renderable())
        (shown,) = Text.from_ansi(screen.getvalue()).plain.splitlines()
        assert len(re.findall("[━╸╺]", shown)) >= least
        assert len(shown) <= width


def test_the_time_left_of_a_resumed_run_counts_its_own_steps_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    screen = io.StringIO()
    notebook = Notebook(screen)
    notebook.on_step(a_run(29_000_000, None, None))
    assert "left" not in screen.getvalue()
    notebook.on_step(a_run(29_100_000, None, None))  # 1,000 steps/s, 900,000 to go
    assert screen.getvalue().endswith("15 min left")


def test_a_notebook_gets_one_line_that_is_rewritten(tmp_path: Path) -> None:
    screen = io.StringIO()
    train(CONFIG, tmp_path / "run", Notebook(screen))
    text = screen.getvalue()
    assert "\x1b" not in text, "notebooks show no cursor movements"
    lines = text.rstrip("\n").split("\n")
    assert "GB of memory" in lines[0]
    assert lines[-1].split("\r")[-1].startswith("█" * 24 + " 300/300")
    assert len(lines) == 3, "requirements, settings, progress"


def test_a_shorter_line_leaves_nothing_of_a_longer_one() -> None:
    screen = io.StringIO()
    notebook = Notebook(screen)
    notebook._write("long line")
    notebook._write("short")
    assert screen.getvalue() == "\rlong line\rshort    "


def test_the_display_is_chosen_by_where_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(chosen(None), Quiet)
    assert isinstance(chosen("auto"), Live)
    own = Quiet()
    assert chosen(own) is own
    kernel = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    assert isinstance(chosen("auto"), Notebook)
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert isinstance(chosen("auto"), Live)
