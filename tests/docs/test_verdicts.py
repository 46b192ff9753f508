"""The verdicts of docs/evidence.md, B: Holm's correction, directions, weak verdicts."""

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def verdicts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdicts", ROOT / "docs/tools/verdicts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verdicts"] = module
    spec.loader.exec_module(module)
    return module


def write(
    folder: Path, module: ModuleType, changes: dict[tuple[str, str], dict[str, float]]
) -> None:
    """comparisons.csv, in which nothing differs but what `changes` says, with every pair turned
    around: the report may list either direction."""
    with open(folder / "comparisons.csv", "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["x", "y", "measure", "value", "low", "high", "p", "games", "runs"])
        for x, y in (module.PRIMARY, *module.SECONDARY):
            own = {"value": 0.1, "p": 0.5, "p_area": 0.01, "p_improvement": 0.01}
            own |= changes.get((x, y), {})
            numbers = (-own["value"], -own["value"] - 0.2, -own["value"] + 0.3)
            lines.writerow([y, x, module.FINAL, *numbers, own["p"], 5, 25])
            lines.writerow([y, x, module.AREA, *numbers, own["p_area"], 5, 25])
            lines.writerow([y, x, module.IMPROVEMENT, 0.4, 0.3, 0.6, own["p_improvement"], 5, 25])


def test_holms_correction_by_hand(verdicts: ModuleType) -> None:
    """0.01 x 4, 0.02 x 3, 0.03 x 2, and 0.04 x 1, which must not be smaller than those before."""
    assert verdicts.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert verdicts.holm([0.9, 0.5]) == [1.0, 1.0]
    assert verdicts.holm([]) == []


def test_the_table(
    tmp_path: Path, verdicts: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = verdicts.SECONDARY[:3]
    changes = {
        verdicts.PRIMARY: {"value": -0.2, "p": 0.04},
        first: {"p": 0.001},
        second: {"p": 0.002, "p_area": 0.06},
        third: {"p": 0.02},  # 0.1 when corrected
    }
    write(tmp_path, verdicts, changes)
    verdicts.main(tmp_path)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split(" | ")[-1].rstrip(" |") for line in lines] == [
        "against",
        "higher",
        "higher, weak",
        *["inconclusive"] * 5,
    ]
    assert "-0.20 [-0.50, +0.00] | 0.040 | – |" in lines[0]
    assert "0.60 [0.40, 0.70]" in lines[0]
    assert "+0.10 [-0.20, +0.30] | 0.001 | 0.007 |" in lines[1]
    assert "| 0.020 | 0.100 |" in lines[3]


def test_a_report_without_the_runs_is_one_line(tmp_path: Path, verdicts: ModuleType) -> None:
    (tmp_path / "comparisons.csv").write_text("x,y,measure,value,low,high,p,games,runs\n")
    with pytest.raises(SystemExit, match=r"has no comparison of DQN Pro \(κ 1\) and DQN;"):
        verdicts.main(tmp_path)
