"""Training returns per 250,000 steps next to Dopamine's, from run folders."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proxrl.report import baselines
from proxrl.report.command import make_report
from proxrl.report.figures.curves import training_returns
from proxrl.report.runs import read_runs
from proxrl.report.study import gather
from proxrl.report.training import latest, protocol_differences, rows, training_curve
from proxrl.runs.record import read_run
from proxrl.training.returns import KEY, TrainingReturns
from tests.report.synthetic import preset, write_run

PERIOD = 250_000


def write(root: Path, seed: int, values: list[float | None], **settings: object) -> Path:
    """A run of DQN on Pong with these training returns, as the loop records them."""
    changes = {"evaluation.period_steps": 125_000, **settings}
    config = preset("dqn", "ALE/Pong-v5", changes, seed=seed, steps=len(values) * PERIOD)
    folder = write_run(root / f"seed{seed}", config, lambda step: [1.0, 2.0])
    recorder = TrainingReturns(PERIOD, 0)
    lines = []
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        value = values[(line["step"] - 1) // PERIOD]
        if value is not None:
            recorder.add(line["step"], value)
        lines.append({**line, **recorder.take(line["step"])})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert sum(KEY in line for line in lines) == len(values)
    return folder


def test_a_curve_has_one_value_per_iteration(tmp_path: Path) -> None:
    folder = write(tmp_path, 0, [-20.0, None, -18.0])
    curve = training_curve(read_run(folder, tmp_path))
    np.testing.assert_array_equal(curve, [-20.0, math.nan, -18.0])


def test_runs_with_another_period_or_without_a_record_have_none(tmp_path: Path) -> None:
    other = write(tmp_path, 0, [1.0], **{"evaluation.training_period_steps": 125_000})
    older = write_run(tmp_path / "old", preset("dqn", "ALE/Pong-v5", steps=PERIOD), lambda _: [1.0])
    for folder in (other, older):
        assert len(training_curve(read_run(folder, tmp_path))) == 0


def test_periods_of_an_earlier_setting_are_not_iterations(tmp_path: Path) -> None:
    """Recorded every 125,000 steps until 250,000, then every 250,000; one of them twice."""
    folder = write(tmp_path, 0, [-20.0, -19.0, -18.0])
    periods = [(125_000, 1.0, 1), (PERIOD, 2.0, 1), (2 * PERIOD, -19.0, 1), (2 * PERIOD, -19.0, 1)]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [{name: row[name] for name in row if name != KEY} for row in rows]
    rows[-1][KEY] = [*periods, (3 * PERIOD, -18.0, 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curve = training_curve(read_run(folder, tmp_path))
    np.testing.assert_array_equal(curve, [math.nan, -19.0, -18.0])


def test_a_period_that_is_shorter_than_an_iteration_is_no_curve(tmp_path: Path) -> None:
    folder = write(tmp_path, 0, [-20.0])
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(text.replace("[[250000,", "[[1000,"))
    run = read_run(folder, tmp_path)
    assert run.training.tolist() == [[1000.0, -20.0]]
    assert len(training_curve(run)) == 0


def test_a_period_in_the_far_future_takes_no_memory(tmp_path: Path) -> None:
    folder = write(tmp_path, 0, [-20.0])
    run = read_run(folder, tmp_path)
    late = replace(run, training=np.array([[PERIOD, -20.0], [PERIOD * 2.0**40, -1.0]]))
    assert training_curve(late).tolist() == [-20.0]


def test_training_returns_are_compared_over_seeds(tmp_path: Path) -> None:
    """Two seeds at -20 and -16: mean -18, standard deviation sqrt(8)."""
    write(tmp_path, 0, [-20.0, -10.0])
    write(tmp_path, 1, [-16.0, None])
    study = gather("runs", read_runs(tmp_path))
    published = baselines.beside(study)
    found = list(rows(study, published))
    assert {row.published for row in found} == {
        "Dopamine DQN (legacy)",
        "Dopamine DQN (Adam, squared error)",
        "Dopamine DQN (JAX, Adam)",
    }
    first = [row for row in found if row.iteration == 0]
    for row, one in zip(first, published, strict=True):
        assert (row.mean, row.seeds) == (-18.0, 2)
        assert row.standard_deviation == pytest.approx(math.sqrt(8))
        assert row.published_mean == one.mean[0, 0]
        assert row.published_seeds == 5
        assert row.published_standard_deviation == one.standard_deviation[0, 0]
    assert [row.seeds for row in found if row.iteration == 1] == [1, 1, 1]
    assert [row.iteration for row in latest(found)] == [0, 0, 0], "what most runs reached"
    assert protocol_differences(study) == []


def test_the_report_writes_them_and_names_another_protocol(tmp_path: Path) -> None:
    write(tmp_path, 0, [-20.0, -19.0], **{"protocol.sticky_actions": 0.0})
    page, _ = make_report(tmp_path, baselines="dopamine", resamples=100)
    with (page.parent / "training_returns.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [(row["iteration"], row["mean"]) for row in written[::3]] == [("0", "-20"), ("1", "-19")]
    text = page.read_text()
    assert "protocol.sticky_actions is 0.0 here and 0.25 there" in text
    assert "training-table" in text
    assert make_report(tmp_path, baselines="dopamine", resamples=100)[0].read_text() == text
    assert "training-table" not in make_report(tmp_path, resamples=100)[0].read_text()
    assert not (page.parent / "training_returns.csv").exists(), "left by the report before"


def test_training_returns_are_drawn_with_both_spreads(tmp_path: Path) -> None:
    write(tmp_path, 0, [-20.0, -10.0])
    write(tmp_path, 1, [-16.0, None])
    study = gather("runs", read_runs(tmp_path))
    published = baselines.beside(study)
    plot = training_returns(study, published)
    assert plot is not None
    (panel,) = plot.panels
    ours, *theirs = panel.lines
    assert ours.low is not None
    assert ours.high is not None
    assert (ours.x[0], ours.y[0]) == (4 * PERIOD, -18.0)  # emulator frames
    assert (ours.low[0], ours.high[0]) == pytest.approx((-18 - math.sqrt(8), -18 + math.sqrt(8)))
    assert np.isnan(ours.low[1]), "one run has no spread"
    assert len(theirs) == 3
    for line, one in zip(theirs, published, strict=True):
        assert line.high is not None
        np.testing.assert_array_equal(
            line.high - line.y, one.mean[0] + one.standard_deviation[0] - one.mean[0]
        )
    assert training_returns(study, ()) is None


def test_published_curves_without_anything_to_compare_are_explained(tmp_path: Path) -> None:
    """The page names the setting; not if some run has recorded training returns, nor unasked."""
    write(tmp_path / "other", 0, [1.0], **{"evaluation.training_period_steps": 125_000})
    page, _ = make_report(tmp_path / "other", baselines="dopamine", resamples=100)
    told = "No run recorded its training returns per 250,000 agent steps"
    assert told in page.read_text()
    assert "--evaluation.training-period-steps 250000" in page.read_text()
    assert told not in make_report(tmp_path / "other", resamples=100)[0].read_text()
    write(tmp_path / "same", 0, [1.0])
    assert (
        told
        not in make_report(tmp_path / "same", baselines="dopamine", resamples=100)[0].read_text()
    )


def test_the_nearest_published_curve_by_hand() -> None:
    """dqn_adam_mse on Pong: two cells of Dopamine's file."""
    one = baselines.load(("Pong", "NoSuchGame"), "legacy", "dqn_adam_mse")
    assert (one.agent, one.suite) == ("dqn", "legacy")
    assert np.isfinite(one.mean[0]).all()
    assert np.isnan(one.mean[1]).all()
    assert one.mean[0, [0, 198]] == pytest.approx([-20.190296, 19.784644])
    assert one.standard_deviation[0, [0, 198]] == pytest.approx([0.090784303, 0.22111754])
    assert (one.seeds[0] == 5).all()


def test_published_agents_of_our_presets() -> None:
    for ours in ("rainbow", "rainbow-pro", "rainbow-authors-pro", "rainbow-pro-adaptive"):
        assert baselines.published_agent(ours) == "rainbow"
