"""study.json: what it changes in a report, and reports without it."""

import json
from pathlib import Path

import pytest

from proxrl.report.command import make_report
from proxrl.report.runs import read_runs
from proxrl.report.study import gather
from proxrl.report.words import figures, title
from proxrl.runs.study_file import About, read_about
from tests.report.synthetic import preset, write_run

ENV = "MinAtar/Breakout-v1"


def write(root: Path, variant: str, c: float, seed: int = 0) -> Path:
    settings = {"evaluation.period_steps": 1000, "proximal.c": c}
    config = preset("rainbow-pro", ENV, settings, seed=seed, steps=2000)
    return write_run(root / variant / f"seed{seed}", config, lambda step: [1.0, 2.0])


def main_series(root: Path, *headline: str) -> str:
    study = gather("study", read_runs(root), about=About(headline=headline))
    (found,) = (block.name for block in study.blocks if block.series.main)
    assert study.blocks[0].name == found, "the main series comes first"
    return found


def test_the_headline_comes_before_the_preset_and_before_most_runs(tmp_path: Path) -> None:
    write(tmp_path, "strong", 0.01)
    write(tmp_path, "strong", 0.01, seed=1)
    write(tmp_path, "weak", 0.05)
    assert main_series(tmp_path) == "Rainbow Pro (c 0.01)", "most runs"
    assert main_series(tmp_path, "weak") == "Rainbow Pro (c 0.05)"
    write(tmp_path, "usual", 0.25)
    assert main_series(tmp_path) == "Rainbow Pro (c 0.25)", "the preset"
    assert main_series(tmp_path, "weak") == "Rainbow Pro (c 0.05)"


def test_a_headline_without_runs_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "strong", 0.01)
    write(tmp_path, "usual", 0.25)
    assert main_series(tmp_path, "weak", "dqn") == "Rainbow Pro (c 0.25)"
    (write(tmp_path, "weak", 0.05) / "metrics.jsonl").unlink()  # started, not evaluated yet
    assert main_series(tmp_path, "weak") == "Rainbow Pro (c 0.25)"


def test_a_headline_whose_runs_are_there_twice_is_found(tmp_path: Path) -> None:
    """Of duplicates, the first folder is kept, which is not the headline's."""
    write(tmp_path, "a", 0.01)
    write(tmp_path, "b", 0.05)
    write(tmp_path, "c", 0.05)
    write(tmp_path, "d", 0.25)
    assert main_series(tmp_path, "c") == "Rainbow Pro (c 0.05)"


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (About(), ("folder", "")),
        (About("A study", "5 left"), ("A study", "Figure 5 left")),
        (About("A study", "3, 4 left, 7-10"), ("A study", "Figures 3, 4 left, 7-10")),
        (About("A study", "7-10"), ("A study", "Figures 7-10")),
        (About("A study", "12"), ("A study", "Figure 12")),
    ],
)
def test_title_and_figures(about: About, said: tuple[str, str], tmp_path: Path) -> None:
    write(tmp_path, "x", 0.05)
    study = gather("folder", read_runs(tmp_path), about=about)
    assert (title(study), figures(study)) == said


def head(root: Path) -> str:
    page, _ = make_report(root, resamples=10)
    return page.read_text().split('<p class="lead">', 1)[0]


def test_the_page_has_the_studys_title_and_its_figure(tmp_path: Path) -> None:
    root = tmp_path / "grid-smoke"
    write(root, "x", 0.05)
    without = head(root)
    assert "<title>grid-smoke · proxrl report</title>" in without
    assert "<h1>grid-smoke</h1>" in without
    assert "of the paper" not in without.split("<body>", 1)[1]
    about = {"title": "c < ∞ & more", "figures": "2", "study": "grid", "later": [1]}
    (root / "study.json").write_text(json.dumps(about))
    within = head(root)
    escaped = "c &lt; ∞ &amp; more"
    assert f"<title>{escaped} · Figure 2 · grid-smoke · proxrl report</title>" in within
    assert f"<h1>{escaped}</h1>" in within
    assert "Corresponds to Figure 2 of the paper" in within


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b'{"title": 3}',
        b'{"title": "x", "headline": "dqn"}',
        b'{"title": "\xff"}',
        b'{"title": "\\ud800"}',
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_one_that_cannot_be_read_is_a_warning(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_bytes(content)
    heard: list[str] = []
    assert read_about(tmp_path, heard.append) == About()
    (warning,) = heard
    assert warning.startswith("study.json is ignored: ")
    assert "\n" not in warning


def test_the_report_is_made_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, "x", 0.05)
    (tmp_path / "study.json").mkdir()
    heard: list[str] = []
    page, _ = make_report(tmp_path, resamples=10, say=heard.append)
    assert f"<h1>{tmp_path.name}</h1>" in page.read_text()
    assert heard == ["study.json is ignored: is a directory"]


def test_none_is_no_warning_and_an_older_one_has_what_it_has(tmp_path: Path) -> None:
    assert read_about(tmp_path, pytest.fail) == About()
    (tmp_path / "study.json").write_text('{"study": "main", "title": "Old", "figures": ""}')
    assert read_about(tmp_path, pytest.fail) == About("Old", study="main")
