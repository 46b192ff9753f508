"""The tables of final scores in docs/results.md, from a scores.csv written by hand."""

from pathlib import Path

import pytest

from tests.docs.tools import tool

final_scores = tool("final_scores")

SCORES = """\
series,game,seed,final_score,area_score,final_scaled,scale_low,scale_high
DQN,Asterix,0,10.0,5.0,0.9,1.0,11.0
DQN,Asterix,1,12.0,7.0,1.1,1.0,11.0
DQN,Breakout,0,8.0,4.0,1.0,0.0,8.0
DQN,Breakout,1,,,,0.0,8.0
DQN Pro,Asterix,0,16.0,6.0,1.5,1.0,11.0
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    (tmp_path / "scores.csv").write_text(SCORES)
    return tmp_path


def printed(report: Path, capsys: pytest.CaptureFixture[str], **options: bool) -> list[str]:
    final_scores.main(report, **{"of_games": False, "area": False, **options})
    return [line.strip("| ") for line in capsys.readouterr().out.splitlines()]


def test_every_run(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a score, and games that a series lacks, are a dash or left out; the error of
    the mean of 1.0 +- 0.1 and 1.0 +- nothing is unknown."""
    title, _, dqn, pro = printed(report, capsys)
    assert title.split(" | ")[1:-1] == ["Asterix, 0", "Asterix, 1", "Breakout, 0"]
    assert dqn.split(" | ") == ["DQN", "10.0", "12.0", "8.0", "1.00"]
    assert pro.split(" | ") == ["DQN Pro", "16.0", "–", "–", "1.50"]


def test_means_by_game(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The standard error of 10 and 12 is sqrt(2) / sqrt(2) = 1."""
    title, _, dqn, pro = printed(report, capsys, of_games=True)
    assert title.split(" | ")[:-1] == ["final score", "Asterix", "Breakout"]
    assert dqn.split(" | ") == ["DQN", "11.0 ± 1.0", "8.0", "1.00"]
    assert pro.split(" | ") == ["DQN Pro", "16.0", "–", "1.50"]


def test_areas_are_scaled_like_final_scores(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DQN: Asterix (0.4 + 0.6) / 2, Breakout 0.5."""
    dqn = printed(report, capsys, of_games=True, area=True)[2]
    assert dqn.split(" | ") == ["DQN", "6.0 ± 1.0", "4.0", "0.50"]


def test_the_error_of_a_mean_over_games(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two games with errors of 0.1 and 0.2 of their means: sqrt(0.01 + 0.04) / 2 = 0.11."""
    complete = SCORES.replace("1,,,,", "1,11.2,4.0,1.4,")
    (report / "scores.csv").write_text(complete)
    dqn = printed(report, capsys, of_games=True)[2]
    assert dqn.split(" | ") == ["DQN", "11.0 ± 1.0", "9.6 ± 1.6", "1.10 ± 0.11"]


def test_a_folder_without_a_report(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="it is not a folder written by `proxrl report`"):
        final_scores.main(tmp_path, of_games=False, area=False)


def test_variants_are_in_the_order_of_their_numbers() -> None:
    mixed = ["DQN (period 1,500)", "DQN (period 248)", "DQN Pro (c inf)", "DQN Pro (c 0.5)"]
    assert final_scores.in_order([*mixed, "DQN", "DQN Pro (c 1e-05)", "DQN"]) == [
        *("DQN", "DQN (period 248)", "DQN (period 1,500)"),
        *("DQN Pro (c 1e-05)", "DQN Pro (c 0.5)", "DQN Pro (c inf)"),
    ]
