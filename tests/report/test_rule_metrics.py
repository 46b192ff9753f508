"""What a proximal rule reports: read from metrics.jsonl, among the page's curves."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from proxrl.report.command import make_report
from proxrl.report.findings import examine
from proxrl.report.runs import read_run, read_runs
from proxrl.report.study import gather
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
    assert np.isnan(adaptive.curves["kappa"][0])
    assert adaptive.curves["kappa"][1:].tolist() == [0.5] * 3
    assert adaptive.curves["signal"][1:].tolist() == [0.01] * 3
    assert np.isnan(read_run(tmp_path / "dqn" / "0", tmp_path).curves["kappa"]).all()

    page, _ = make_report(tmp_path, resamples=10)
    text = page.read_text()
    data = json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])
    games = {series["name"]: series["games"][0] for series in data["series"]}
    assert {"kappa", "signal"} <= games["DQN Pro adaptive"].keys()
    assert not {"kappa", "signal"} & games["DQN"].keys()


def test_an_adaptive_agent_is_compared_with_the_agent_without_a_pull(tmp_path: Path) -> None:
    """The paper's claims are about a fixed c: such a comparison is none of theirs."""
    write(tmp_path)
    findings = examine(gather("rules", read_runs(tmp_path)), resamples=10)
    (one,) = findings.main_comparisons
    assert (one.pro.name, one.base.name) == ("DQN Pro adaptive", "DQN")
    assert not one.confounds
    assert not findings.pulls
