"""What a proximal rule reports: read from metrics.jsonl, among the page's curves."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxrl.report.command import make_report
from proxrl.report.findings import examine
from proxrl.report.runs import read_runs
from proxrl.report.study import gather
from proxrl.runs.record import read_run
from tests.report.synthetic import preset, write_run

ENV = "MinAtar/Breakout-v1"


def write(root: Path) -> None:
    """DQN and its adaptive twin, two seeds each; the twin's kappa is 0.5, and missing at first."""
    for agent in ("dqn", "dqn-pro-adaptive"):
        for seed in (0, 1):
            settings = {"evaluation.period_steps": 1000}
            config = preset(agent, ENV, settings, seed=seed, steps=4000)
            run = write_run(root / agent / str(seed), config, lambda step: [step / 100.0] * 10)
            if agent != "dqn":
                metrics = run / "metrics.jsonl"
                first, *rest = map(json.loads, metrics.read_text().splitlines())
                reported: list[dict[str, Any]] = [
                    first,
                    *({**line, "rule/kappa": 0.5, "rule/signal": 0.01} for line in rest),
                ]
                metrics.write_text("".join(json.dumps(line) + "\n" for line in reported))


def test_kappa_and_signal_are_curves_of_the_runs_that_report_them(tmp_path: Path) -> None:
    write(tmp_path)
    adaptive = read_run(tmp_path / "dqn-pro-adaptive" / "0", tmp_path)
    assert np.isnan(adaptive.curves["rule/kappa"][0])
    assert adaptive.curves["rule/kappa"][1:].tolist() == [0.5] * 3
    assert adaptive.curves["rule/signal"][1:].tolist() == [0.01] * 3
    assert "rule/kappa" not in read_run(tmp_path / "dqn" / "0", tmp_path).curves

    data = data_of(make_report(tmp_path, resamples=10)[0])
    games = {series["name"]: series["games"][0] for series in data["series"]}
    assert {"rule/kappa", "rule/signal"} <= games["DQN Pro adaptive"].keys()
    assert not {"rule/kappa", "rule/signal"} & games["DQN"].keys()
    assert data["metrics"]["rule/kappa"] == "κ, pull per sync"


def data_of(page: Path) -> dict[str, Any]:
    """What page.js draws."""
    text = page.read_text().split('id="data">', 1)[1].split("</script>", 1)[0]
    data: dict[str, Any] = json.loads(text)
    return data


def test_metrics_of_a_users_own_rule_are_drawn_under_their_own_names(tmp_path: Path) -> None:
    """Including numbers that are missing or not finite; a metric without any number is left out."""
    config = preset("dqn-pro", ENV, {"evaluation.period_steps": 1000}, steps=4000)
    run = write_run(tmp_path / "run", config, lambda step: [1.0] * 10)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    values = (None, float("nan"), 2, 3.5)
    own = (
        {**one, "rule/my_share": x, "rule/no": None} for one, x in zip(lines, values, strict=True)
    )
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in own))
    curve = read_run(run, tmp_path).curves["rule/my_share"]
    assert np.isnan(curve[:2]).all()
    assert curve[2:].tolist() == [2.0, 3.5]
    data = data_of(make_report(tmp_path, resamples=10)[0])
    assert data["metrics"]["rule/my_share"] == "my share (rule)"
    assert "rule/no" not in data["metrics"]
    assert data["series"][0]["games"][0]["rule/my_share"][0][:2] == [2.0, 3.5]


@pytest.mark.parametrize("value", ["much", [1.0], {"a": 1}])
def test_a_metric_that_is_not_a_number_makes_a_run_unreadable(tmp_path: Path, value: Any) -> None:
    config = preset("dqn-pro", ENV, {"evaluation.period_steps": 1000}, steps=2000)
    run = write_run(tmp_path / "run", config, lambda step: [1.0] * 10)
    first, second = (run / "metrics.jsonl").read_text().splitlines()
    second = json.dumps({**json.loads(second), "rule/kappa": value})
    (run / "metrics.jsonl").write_text(f"{first}\n{second}\n")
    found = read_run(run, tmp_path)
    assert found.status == "corrupt"
    assert found.note == "metrics.jsonl line 2: a rule's metric is not a number"


def test_an_adaptive_agent_is_compared_with_the_agent_without_a_pull(tmp_path: Path) -> None:
    """The paper's claims are about a fixed c: such a comparison is none of theirs."""
    write(tmp_path)
    findings = examine(gather("rules", read_runs(tmp_path)), resamples=10)
    (one,) = findings.main_comparisons
    assert (one.pro.name, one.base.name) == ("DQN Pro adaptive", "DQN")
    assert not one.confounds
    assert not findings.pulls


def test_few_series_of_a_family_are_compared_with_each_other_once(tmp_path: Path) -> None:
    """Also adaptive against a fixed kappa, but not with another family."""
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        "dqn": ("dqn", {}),
        "slow": ("dqn", {"learner.learning_rate": 1e-5}),
        "pro": ("dqn-pro", {}),
        "half": ("dqn-pro", {"proximal.c": 0.128}),
        "adaptive": ("dqn-pro-adaptive", {}),
        "rainbow": ("rainbow", {}),
    }
    for name, (agent, settings) in variants.items():
        settings = {"evaluation.period_steps": 1000, **settings}
        config = preset(agent, ENV, settings, steps=2000)
        write_run(tmp_path / name / "0", config, lambda step: [1.0] * 10)
    findings = examine(gather("rules", read_runs(tmp_path)), resamples=10)
    names = {block.name: block.runs[0].path for block in findings.study.blocks}
    pairs = {
        frozenset(Path(names[block.name]).parent.name for block in (one.pro, one.base))
        for one in findings.comparisons
    }
    assert len(pairs) == len(findings.comparisons)
    family = {"dqn", "slow", "pro", "half", "adaptive"}
    every = {frozenset(pair) for pair in itertools.combinations(family, 2)}
    assert pairs == every
