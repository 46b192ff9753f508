"""The verdicts of docs/criteria.md, B and the first part of D: on reports of runs with the settings
of each, and by hand."""

import csv
from pathlib import Path

import numpy as np
import pytest

from proxrl.studies.definition import load
from proxrl.studies.expand import Job, expand
from tests.docs.tools import tool, write_comparisons

reports, verdicts = tool("reports"), tool("verdicts")

LEVELS = {  # of DQN's return
    "dqn": 1.0,
    "dqn-pro-kappa-1": 1.5,
    "dqn-pro-kappa-0.25": 0.5,
    "dqn-pro-adaptive": 1.0,
    "dqn-alpha-0.8": 1.0,
    "dqn-alpha-0.65": 1.0,
}


def write_b(root: Path, seeds: range = range(5)) -> Path:
    """The comparisons of runs with B's settings, of which the first half has DQN's level."""
    study = load("rules")
    jobs = expand(study, study.scales["laptop"], root, only=tuple(LEVELS), seeds=tuple(seeds))
    noise = {job: np.random.default_rng(n).normal(1.0, 0.05) for n, job in enumerate(jobs)}

    def returns(job: Job, step: int) -> float:
        level = LEVELS[job.variant] if step > job.config.steps // 2 else 1.0
        return 100.0 * level * noise[job]

    return write_comparisons(root, jobs, returns)


def last_cells(text: str) -> list[str]:
    return [line.split(" | ")[-1].rstrip(" |") for line in text.splitlines()[2:]]


def test_on_a_report_of_all_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = verdicts.CRITERIA["rules"]
    verdicts.main(b, write_b(tmp_path / "b"))
    found = last_cells(capsys.readouterr().out)
    of_pair = dict(zip((*b.primary, *b.secondary), found, strict=True))
    strong, weak = ("DQN Pro (κ 1)", "DQN Pro (κ 0.25)")
    for (x, y), said in of_pair.items():
        direction = (x == strong) + (y == weak) - (x == weak) - (y == strong)
        expected = {1: "higher", -1: "lower", 0: "inconclusive"}[direction]
        assert said == ("support" if (x, y) in b.primary else expected), (x, y)


def test_a_report_of_fewer_runs_gets_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"incomplete: DQN Pro \(κ 1\) against DQN \(5 games, 10"):
        verdicts.main(verdicts.CRITERIA["rules"], write_b(tmp_path / "b", seeds=range(2)))


def test_one_seed_has_no_p_values_and_nothing_no_comparisons(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"incomplete: DQN Pro \(κ 1\) against DQN \(5 games, 5 r"):
        verdicts.main(verdicts.CRITERIA["rules"], write_b(tmp_path / "b", seeds=range(1)))
    (tmp_path / "comparisons.csv").write_text("x,y,measure,value,low,high,p,games,runs\n")
    with pytest.raises(SystemExit, match=r"incomplete: DQN Pro \(κ 1\) against DQN \(none\)"):
        verdicts.main(verdicts.CRITERIA["rules"], tmp_path)


def test_rainbows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both Rainbow Pros are compared with Rainbow."""
    study = load("rainbow-kappa")
    levels = {"rainbow": 1.0, "rainbow-pro-kappa-2.5": 0.5, "rainbow-pro-kappa-0.25": 1.5}
    jobs = expand(study, study.scales["session"], tmp_path, only=tuple(levels))
    noise = {job: np.random.default_rng(n).normal(1.0, 0.05) for n, job in enumerate(jobs)}
    report = write_comparisons(
        tmp_path / "all", jobs, lambda job, _: 100.0 * levels[job.variant] * noise[job]
    )
    d = verdicts.CRITERIA["rainbow-kappa"]
    verdicts.main(d, report)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [
        "| Rainbow Pro (κ 2.5) against Rainbow",
        "| Rainbow Pro (κ 0.25) against Rainbow",
    ]
    assert [line.split(" | ")[-1].rstrip(" |") for line in lines] == ["against", "support"]
    some = [job for job in jobs if job.variant != "rainbow-pro-kappa-2.5"]
    report = write_comparisons(tmp_path / "some", some, lambda job, _: 100.0 * noise[job])
    with pytest.raises(
        SystemExit, match=r"incomplete: Rainbow Pro \(κ 2.5\) against Rainbow \(none"
    ):
        verdicts.main(d, report)


def write(folder: Path, study: str, changes: dict[tuple[str, str], dict[str, float]]) -> None:
    """comparisons.csv, in which nothing differs but what `changes` says, with every pair swapped:
    the report may list either direction."""
    games, runs, primary, secondary = verdicts.CRITERIA[study]
    with open(folder / "comparisons.csv", "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["x", "y", "measure", "value", "low", "high", "p", "games", "runs"])
        for x, y in (*primary, *secondary):
            own = {"value": 0.1, "p": 0.5, "p_area": 0.01, "p_improvement": 0.01, "better": 0.6}
            own |= changes.get((x, y), {})
            numbers = (-own["value"], -own["value"] - 0.2, -own["value"] + 0.3)
            better = (1.0 - own["better"], 0.3, 0.7)
            lines.writerow([y, x, reports.FINAL, *numbers, own["p"], games, runs])
            lines.writerow([y, x, reports.AREA, *numbers, own["p_area"], games, runs])
            lines.writerow([y, x, reports.IMPROVEMENT, *better, own["p_improvement"], games, runs])


def test_the_table_of_b(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The primary comparison is not corrected, the eight secondary ones are."""
    b = verdicts.CRITERIA["rules"]
    first, second, third = b.secondary[:3]
    changes = {
        b.primary[0]: {"value": -0.2, "p": 0.04, "better": 0.4},
        first: {"p": 0.001},
        second: {"p": 0.002, "p_area": 0.06},
        third: {"p": 0.02},  # 0.12 when corrected
    }
    write(tmp_path, "rules", changes)
    verdicts.main(b, tmp_path)
    text = capsys.readouterr().out
    assert last_cells(text) == ["against", "higher", "higher, weak", *["inconclusive"] * 6]
    lines = text.splitlines()[2:]
    assert "−0.20 [−0.50, +0.00] | 0.0400 | 0.0400 |" in lines[0]
    assert "0.40 [0.30, 0.70] | 0.0100 |" in lines[0]
    assert "+0.10 [−0.20, +0.30] | 0.0010 | 0.0080 |" in lines[1]
    assert "| 0.0600 | 0.60" in lines[2]
    assert "| 0.0200 | 0.1200 |" in lines[3]


def test_the_table_of_d(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both comparisons are primary, and corrected together."""
    both = verdicts.CRITERIA["rainbow-kappa"].primary
    write(tmp_path, "rainbow-kappa", {both[0]: {"p": 0.03}, both[1]: {"p": 0.02}})
    verdicts.main(verdicts.CRITERIA["rainbow-kappa"], tmp_path)
    text = capsys.readouterr().out
    assert last_cells(text) == ["support", "support"]
    assert "| 0.0300 | 0.0400 |" in text
    assert "| 0.0200 | 0.0400 |" in text


def test_holms_correction_by_hand() -> None:
    """0.01 x 4, 0.02 x 3, 0.03 x 2, and 0.04 x 1, which must not be smaller than those before."""
    assert reports.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert reports.holm([0.9, 0.5]) == [1.0, 1.0]
    assert reports.holm([]) == []


@pytest.mark.parametrize(
    ("p", "final", "area", "better", "said"),
    [
        (0.05, 0.1, (0.1, 0.05), (0.6, 0.05), "support"),
        (0.051, 0.1, (0.1, 0.01), (0.6, 0.01), "inconclusive"),
        (0.01, -0.1, (-0.1, 0.01), (0.4, 0.01), "against"),
        (0.01, 0.1, (0.1, 0.051), (0.6, 0.01), "support, weak"),
        (0.01, 0.1, (0.1, 0.01), (0.6, 0.051), "support, weak"),
        (0.01, 0.1, (-0.1, 0.06), (0.4, 0.06), "support, weak"),
        (0.01, 0.1, (-0.1, 0.05), (0.6, 0.01), "support, contradicted"),
        (0.01, 0.1, (0.1, 0.01), (0.4, 0.05), "support, contradicted"),
        (0.01, -0.1, (-0.1, 0.06), (0.6, 0.05), "against, contradicted"),
    ],
)
def test_the_other_measures_must_agree(
    p: float,
    final: float,
    area: tuple[float, float],
    better: tuple[float, float],
    said: str,
) -> None:
    measures = (reports.FINAL, reports.AREA, reports.IMPROVEMENT)
    rows = [
        reports.Row(value, value - 0.1, value + 0.2, each, 5, 25)
        for value, each in ((final, p), area, better)
    ]
    table = {("x", "y", measure): row for measure, row in zip(measures, rows, strict=True)}
    assert verdicts.verdict(table, ("x", "y"), p, ("support", "against")) == said


def test_a_comparison_turned_around() -> None:
    row = reports.Row(0.75, 0.5, 0.875, 0.04, 5, 25)
    assert row.swapped(0.5) == (0.25, 0.125, 0.5, 0.04, 5, 25)
    assert row.swapped(0.0) == (-0.75, -0.875, -0.5, 0.04, 5, 25)
