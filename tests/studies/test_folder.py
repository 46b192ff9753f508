"""A study's folder and its export, as a report reads them: figure and headline."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from proxrl import __version__
from proxrl.errors import UserError
from proxrl.report.command import make_report
from proxrl.report.runs import read_runs
from proxrl.report.study import StudyResults, gather
from proxrl.runs.folder import RunFolder
from proxrl.runs.study_file import About, read_about
from proxrl.studies.definition import load
from proxrl.studies.expand import Job, expand
from proxrl.studies.folder import (
    complete_in,
    export,
    export_files,
    opened,
    require_exportable,
)
from tests.report.synthetic import write_run

GRID = ["rainbow", "rainbow-pro-c-0.0125", "rainbow-pro-c-0.025", "rainbow-pro-c-0.05"]


def written(folder: Path, name: str, only: Sequence[str]) -> list[Job]:
    """A study at smoke scale with synthetic curves."""
    study = load(name)
    scale = study.scales["smoke"]
    jobs = expand(study, scale, folder, only=only)
    for job in jobs:
        write_run(job.folder, job.config, lambda step: [1.0, 3.0])
    with opened(folder, study, scale):
        pass
    return jobs


def reported(folder: Path) -> StudyResults:
    return gather("study", read_runs(folder), about=read_about(folder, pytest.fail))


def main_series(folder: Path) -> list[str]:
    return [block.name for block in reported(folder).blocks if block.series.main]


def test_the_folder_says_which_study_it_is_of(tmp_path: Path) -> None:
    written(tmp_path, "tune-c", GRID)
    assert read_about(tmp_path, pytest.fail) == About(
        "c over a grid, for DQN Pro and Rainbow Pro",
        "2",
        ("dqn-pro-c-0.2", "rainbow-pro-c-0.05"),
        "tune-c",
        "smoke",
        __version__,
    )


def test_a_grid_of_c_is_headed_by_the_papers_pull(tmp_path: Path) -> None:
    """kappa = 2.5: on MinAtar c = 0.025, not the end of the grid, 0.00625."""
    written(tmp_path, "tune-c", GRID)
    assert main_series(tmp_path) == ["Rainbow", "Rainbow Pro (c 0.025)"]
    pro = reported(tmp_path).main("rainbow-pro")
    assert pro is not None
    assert pro.runs[0].asked.pull_per_sync == pytest.approx(2.5)


def test_without_runs_of_the_headline_another_heads_the_agent(tmp_path: Path) -> None:
    written(tmp_path, "tune-c", GRID[:3])
    assert main_series(tmp_path) == ["Rainbow", "Rainbow Pro (c 0.00625)"]


def test_a_report_on_what_was_exported_is_the_same_page(tmp_path: Path) -> None:
    folder, out = tmp_path / "here" / "study", tmp_path / "there" / "study"
    jobs = written(folder, "tune-c", GRID)
    assert export(jobs, folder, out) == len(GRID)
    pages = [make_report(place, resamples=20)[0].read_text() for place in (folder, out)]
    assert pages[0] == pages[1]
    assert "<h1>c over a grid, for DQN Pro and Rainbow Pro</h1>" in pages[1]
    assert "Corresponds to Figure 2 of the paper" in pages[1]


def test_an_export_never_overwrites_anything_but_an_export_of_the_same_study(
    tmp_path: Path,
) -> None:
    study, other = load("tune-c"), load("main")
    scale, ours, theirs = study.scales["smoke"], tmp_path / "ours", tmp_path / "theirs"
    jobs = written(ours, "tune-c", GRID)
    their_jobs = written(theirs, "main", ["dqn"])

    def refused(out: Path, why: str) -> None:
        before = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
        with pytest.raises(UserError, match=why):
            require_exportable(out, study, scale, jobs, ours)
        assert {path: path.read_bytes() for path in before} == before

    refused(theirs, "it is the folder of a study")
    refused(ours, "it is the folder of a study")
    exported = tmp_path / "exported"
    export(their_jobs, theirs, exported)
    refused(exported, "belongs to the study main at scale smoke: choose another --export")

    again = tmp_path / "again"
    export(jobs, ours, again)
    require_exportable(again, study, scale, jobs, ours)
    run = again / jobs[0].folder.relative_to(ours)
    (run / "checkpoints").mkdir()
    refused(again, "checkpoints is not of an export")
    (run / "checkpoints").rmdir()
    RunFolder(run).write_config(jobs[0].config.override({"learner.discount": 0.5}))
    refused(again, "is another run")

    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "figure1.png").touch()
    with pytest.raises(UserError, match="neither empty nor an export"):
        require_exportable(notes, other, scale, [], ours)
    refused(notes, "neither empty nor an export")
    refused(ours / "dqn", "it is the folder of a study")


LINKED = ["study.json", "RUN", "RUN/config.json", "RUN/metrics.jsonl", "GROUP"]


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("dangling", [False, True])
def test_an_export_writes_nothing_through_links(name: str, dangling: bool, tmp_path: Path) -> None:
    study, ours, out = load("tune-c"), tmp_path / "ours", tmp_path / "out"
    jobs = written(ours, "tune-c", GRID)
    export(jobs, ours, out)
    run = jobs[-1].folder.relative_to(ours)
    link = out / name.replace("RUN", str(run)).replace("GROUP", run.parts[0])
    target = tmp_path / "mine"
    link.rename(target)
    if dangling:
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    link.symlink_to(target)
    with (jobs[0].folder / "metrics.jsonl").open("a") as file:
        file.write("{}\n")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=f"{link} is a symbolic link"):
        require_exportable(out, study, study.scales["smoke"], jobs, ours)
    with pytest.raises(UserError, match="is a symbolic link"):  # made while the study ran
        export(jobs, ours, out)
    assert contents(tmp_path) == before


def test_an_export_is_continued_but_never_replaced_by_other_results(tmp_path: Path) -> None:
    """Of another machine, whose bits differ: the export may be their only copy."""
    folder, out = tmp_path / "runs", tmp_path / "out"
    (job,) = jobs = written(folder, "distance", ["dqn"])[:1]
    here, there = job.folder / "metrics.jsonl", out / job.folder.relative_to(folder)
    whole = here.read_text().splitlines(keepends=True)
    (job.folder / "machine.jsonl").write_text('{"from_step": 0}\n')
    here.write_text("".join(whole[:2]))
    export(jobs, folder, out)
    here.write_text("".join(whole))
    export(jobs, folder, out)
    assert (there / "metrics.jsonl").read_text() == "".join(whole)
    assert (there / "machine.jsonl").exists()
    here.write_text("".join(whole[:1]))
    assert export(jobs, folder, out) == 1
    assert (there / "metrics.jsonl").read_text() == "".join(whole), "not by fewer results"

    here.write_text("".join(whole).replace("3.0", "4.0"))
    study = load("distance")
    for attempt in (
        lambda: export(jobs, folder, out),
        lambda: require_exportable(out, study, study.scales["smoke"], jobs, folder),
    ):
        with pytest.raises(UserError, match="has other results than"):
            attempt()
    assert (there / "metrics.jsonl").read_text() == "".join(whole)


def test_a_run_is_complete_elsewhere_only_with_all_of_its_results(tmp_path: Path) -> None:
    folder, out, new = tmp_path / "runs", tmp_path / "out", tmp_path / "new"
    (job,) = written(folder, "distance", ["dqn"])[:1]
    study = load("distance")
    elsewhere = expand(study, study.scales["smoke"], new, only=["dqn"])[:1]
    there = out / job.folder.relative_to(folder)
    export([job], folder, out)
    assert complete_in(out, elsewhere, new) == elsewhere
    assert complete_in(out, [job], folder) == [], "it was started here"
    assert complete_in(tmp_path / "nowhere", elsewhere, new) == []
    whole, settings = (there / "metrics.jsonl").read_text(), (there / "config.json").read_text()
    lines = whole.splitlines(keepends=True)
    for damaged in ("".join(lines[:-1]), lines[-1], whole.rstrip("\n"), whole + "{", ""):
        (there / "metrics.jsonl").write_text(damaged)
        assert complete_in(out, elsewhere, new) == ([] if damaged != whole + "{" else elsewhere)
    (there / "metrics.jsonl").write_text(whole)
    (there / "config.json").write_text(settings.replace('"threads": 1', '"threads": 2'))
    assert complete_in(out, elsewhere, new) == []
    (there / "config.json").unlink()
    assert complete_in(out, elsewhere, new) == []
    (there / "config.json").write_text(settings)
    about = (out / "study.json").read_text()
    (out / "study.json").write_text(about.replace(__version__, "0.0.9"))
    assert complete_in(out, elsewhere, new) == [], "of another version"


def test_an_export_that_was_interrupted_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a file is left, and study.json says what the folder is."""
    folder, out = tmp_path / "runs", tmp_path / "out"
    (job,) = written(folder, "distance", ["dqn"])[:1]
    there, study = out / job.folder.relative_to(folder), load("distance")

    def interrupted(part: Path, whole: Path) -> None:
        if whole.name == "metrics.jsonl":
            raise KeyboardInterrupt
        part.rename(whole)

    with monkeypatch.context() as patch:
        patch.setattr("proxrl.studies.folder.os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            export([job], folder, out)
    assert not (there / "metrics.jsonl").exists()
    require_exportable(out, study, study.scales["smoke"], [job], folder)
    export([job], folder, out)
    assert (there / "metrics.jsonl").read_bytes() == (job.folder / "metrics.jsonl").read_bytes()
    assert sorted(path.name for path in there.iterdir()) == ["config.json", "metrics.jsonl"]


def test_files_of_a_planning_study_are_not_exported_through_links(tmp_path: Path) -> None:
    (tmp_path / "figure1.csv").write_text("new")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "figure1.csv").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match=r"figure1\.csv is a symbolic link"):
        export_files([tmp_path / "figure1.csv"], tmp_path / "out")
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_folder_of_an_export_may_be_a_link(tmp_path: Path) -> None:
    study, ours, out = load("tune-c"), tmp_path / "ours", tmp_path / "out"
    jobs = written(ours, "tune-c", GRID)
    (tmp_path / "elsewhere").mkdir()
    out.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        require_exportable(out, study, study.scales["smoke"], jobs, ours)
        assert export(jobs, ours, out) == len(GRID)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_folder_of_an_earlier_version_has_no_headline_until_it_is_opened(tmp_path: Path) -> None:
    jobs = written(tmp_path, "larger-c", [])
    about = json.loads((tmp_path / "study.json").read_text())
    del about["headline"]
    (tmp_path / "study.json").write_text(json.dumps(about))
    assert read_about(tmp_path, pytest.fail).headline == ()
    study = load("larger-c")
    with opened(tmp_path, study, study.scales["smoke"]):
        assert read_about(tmp_path, pytest.fail).headline == ("rainbow-pro-c-0.05",)
    assert len(jobs) == 6
