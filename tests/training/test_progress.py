"""Progress of a run: a progress bar in a terminal, lines elsewhere."""

import io
from pathlib import Path

from rich.console import Console

from proxrl import presets, train
from proxrl.training.progress import Live
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
    assert "dqn-pro CartPole-v1" in seen
    assert "300/300 steps" in seen
    assert "return" in seen
    assert "/s" in seen
    assert "left" in seen


def test_elsewhere_a_line_per_evaluation_after_what_it_needs(tmp_path: Path) -> None:
    lines = watched(tmp_path, terminal=False).splitlines()
    assert "GB of memory" in lines[0]
    assert lines[1].startswith("settings: dqn-pro for suite classic")
    assert [line.split(")")[0] for line in lines[2:]] == ["step 150 (50%", "step 300 (100%"]
