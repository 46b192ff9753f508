"""Reading run folders: every status, damage reported with its line, nothing dropped."""

import fcntl
import json
import math
from pathlib import Path

import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.report.protocol import common_protocol, cut
from proxrl.report.runs import find_runs, read_runs
from proxrl.runs.record import read_run
from tests.report.synthetic import preset, write_run

DEEP = "[" * 100_000  # deeper than the parser's stack
SETTINGS = {"evaluation.period_steps": 1000, "evaluation.episodes": 2}


def write(root: Path, name: str = "run", agent: str = "dqn", until: int | None = None, **top):
    changes = top.pop("changes", {})
    config = preset(agent, "CartPole-v1", {**SETTINGS, **changes}, **{"steps": 4000, **top})
    return write_run(root / name, config, lambda step: [step / 100, step / 50], until)


def lines(run: Path) -> list[str]:
    return (run / "metrics.jsonl").read_text().splitlines()


def with_protocol(row: str, protocol: object) -> str:
    return json.dumps({**json.loads(row), "protocol": protocol})


def with_field(row: str, **fields: object) -> str:
    return json.dumps({**json.loads(row), **{k.replace("__", "/"): v for k, v in fields.items()}})


def with_periods(row: str, *periods: object) -> str:
    return with_field(row, train__period_returns=periods)


def test_a_finished_run(tmp_path: Path) -> None:
    run = read_run(write(tmp_path), tmp_path)
    assert (run.path, run.status, run.note) == ("run", "finished", "")
    assert run.steps.tolist() == [1000, 2000, 3000, 4000]
    assert run.curves["eval_return"].tolist() == [15.0, 30.0, 45.0, 60.0]
    assert run.episodes.tolist() == [2, 2, 2, 2]
    assert run.curves["sync_distance"].tolist() == [1.0] * 4
    assert run.asked.agent == "dqn"


def test_stopped_failed_and_running(tmp_path: Path) -> None:
    run = write(tmp_path, until=2000)
    assert read_run(run, tmp_path).status == "stopped"
    (run / "failure.txt").write_text("the loss is not finite\n")
    failed = read_run(run, tmp_path)
    assert (failed.status, failed.note) == ("failed", "the loss is not finite")
    with open(run / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert read_run(run, tmp_path).status == "running"


def test_a_last_line_cut_by_a_kill_is_not_damage(tmp_path: Path) -> None:
    run = write(tmp_path)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 5000, "eval/me')
    assert read_run(run, tmp_path).steps.tolist() == [1000, 2000, 3000, 4000]


@pytest.mark.parametrize(
    ("damage", "note"),
    [
        (lambda rows: [rows[0], rows[1][:40], *rows[2:]], "line 2: not valid JSON"),
        (lambda rows: [rows[0], "", *rows[1:]], None),
        (lambda rows: [rows[0], "{}", *rows[1:]], "line 2"),
        (lambda rows: [rows[0], '"text"', *rows[1:]], "line 2"),
        (lambda rows: [rows[0], DEEP, *rows[1:]], "line 2: not valid JSON"),
        (lambda rows: [rows[0], f'{{"x": {DEEP}', *rows[1:]], "line 2: not valid JSON"),
        (lambda rows: [rows[1], rows[0], *rows[2:]], "line 2: steps do not increase"),
        (lambda rows: [rows[0].replace("[10.0, 20.0]", '"x"'), *rows[1:]], "line 1: Expected"),
        (lambda rows: [rows[0].replace("[10.0, 20.0]", "[]"), *rows[1:]], "line 1: Expected"),
        (lambda rows: [*rows[:3], rows[3].replace("4000", str(2**70), 1)], "line 4: "),
        (lambda rows: [rows[0].replace("1000", "0", 1), *rows[1:]], "line 1: Expected"),
        (lambda rows: [*rows[:3], with_protocol(rows[3], 5)], "line 4: protocol is not"),
        (lambda rows: [*rows[:3], with_protocol(rows[3], {"stack": [1]})], "line 4: protocol"),
        (lambda rows: [*rows[:3], with_protocol(rows[3], {"stack": {}})], "line 4: protocol"),
        (lambda rows: [*rows[:3], rows[3].replace("60.0", "NaN")], "line 4: a return"),
        (lambda rows: [rows[0].replace("20.0", "Infinity"), *rows[1:]], "line 1: a return"),
        (lambda rows: [rows[0].replace("20.0", "1e999"), *rows[1:]], "line 1: a return"),
        (
            lambda rows: [*rows[:3], with_field(rows[3], eval__mean_return=1.7e308)],
            "line 4: a return of 1.7e+308: must be in [-1e+50, 1e+50]",
        ),
        (
            lambda rows: [*rows[:3], with_field(rows[3], eval__returns=[-1.7e308])],
            "line 4: a return of -1.7e+308",
        ),
        (
            lambda rows: [with_field(row, step=2**62 - 3 + at) for at, row in enumerate(rows[:3])],
            "line 1: step 4,611,686,018,427,387,901 of a run of 4,000 steps",
        ),
        (lambda rows: [*rows[:3], with_periods(rows[3], [10**400, 1.0, 3])], "line 4: Expected"),
        (lambda rows: [*rows[:3], with_periods(rows[3], [10**30, 1.0, 3])], "line 4: Expected"),
        (lambda rows: [*rows[:3], with_periods(rows[3], [-5, 1.0, 3])], "line 4: Expected"),
        (lambda rows: [*rows[:3], with_periods(rows[3], [0, 0, 0])], "line 4: Expected"),
        (lambda rows: [*rows[:3], with_periods(rows[3], [1000, 1.0, -3])], "line 4: Expected"),
        (lambda rows: [*rows[:3], with_periods(rows[3], [1000, 1e308, 3])], "line 4: a return of"),
        (
            lambda rows: [with_periods(rows[0], [2000, 1.0, 3]), *rows[1:]],
            "line 1: a period of training that ends at step 2000",
        ),
        (
            lambda rows: [*rows[:3], with_periods(rows[3], [3000, 1.0, 3], [2000, 1.0, 3])],
            "line 4: a period of training that ends at step 2000",
        ),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, damage, note: str | None) -> None:
    run = write(tmp_path)
    (run / "metrics.jsonl").write_text("\n".join(damage(lines(run))) + "\n")
    found = read_run(run, tmp_path)
    if note is None:  # an empty line is harmless
        assert found.status == "finished"
        return
    assert found.status == "corrupt"
    assert note in found.note
    assert not found.usable


def test_numbers_that_json_lacks_are_read(tmp_path: Path) -> None:
    run = write(tmp_path)
    text = "\n".join(lines(run)).replace('"train/loss": 0.0923421', '"train/loss": NaN', 1)
    (run / "metrics.jsonl").write_text(text.replace('nce": 1.0', 'nce": null', 1) + "\n")
    found = read_run(run, tmp_path)
    assert found.status == "finished"
    assert np.isnan(found.curves["sync_distance"][0])


def test_measurements_without_a_finite_mean_are_not_measured(tmp_path: Path) -> None:
    run = write(tmp_path)
    rows = [
        with_field(row, train__sync_distance=value, rule__kappa=value)
        for row, value in zip(lines(run), (1e50, 1e308, math.inf, None), strict=True)
    ]
    (run / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    found = read_run(run, tmp_path)
    assert found.status == "finished"
    for name in ("sync_distance", "rule/kappa"):
        np.testing.assert_array_equal(found.curves[name], [1e50, math.nan, math.nan, math.nan])


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("{", "cannot be read"),
        ("[]", "not an object"),
        (DEEP, "cannot be read"),
        ('{"agent": "dqn", "env": "CartPole-v1", "speling": 1}', "unknown setting speling"),
        (
            '{"agent": "dqn", "env": "CartPole-v1", "steps": "many"}',
            "invalid steps 'many': must be",
        ),
        ('{"agent": "dqn", "env": "CartPole-v1", "steps": 0}', "invalid steps = 0: must be in"),
        ('{"agent": "dqn", "env": 3}', "invalid env 3: must be a string"),
        (
            f'{{"agent": "dqn", "env": "CartPole-v1", "seed": {10**400}}}',
            "invalid seed: must be in [0, 2^63)",
        ),
        ('{"agent": "dqn", "env": "CartPole-v1", "seed": -1}', "invalid seed: must be in"),
        (
            f'{{"agent": "dqn", "env": "CartPole-v1", "target": {{"period": {2**63}}}}}',
            "invalid target.period: must be at most 2^62",
        ),
        (
            f'{{"agent": "dqn", "env": "ALE/Pong-v5", "steps": {2**61}, '
            '"protocol": {"frame_skip": 4}}',
            "more than 2^62 frames",
        ),
        (
            '{"agent": "dqn", "env": "CartPole-v1", "evaluation": {"period_steps": 0}}',
            "invalid evaluation.period_steps = 0",
        ),
        (
            '{"agent": "dqn", "env": "CartPole-v1", "proximal": {"pull_per_sync": 1.0}, '
            '"learner": {"update_period_steps": 0}}',
            "division by zero",
        ),
    ],
)
def test_a_damaged_config_is_named(tmp_path: Path, content: str, note: str) -> None:
    run = write(tmp_path)
    (run / "config.json").write_text(content)
    found = read_run(run, tmp_path)
    assert found.status == "corrupt"
    assert note in found.note


def test_a_config_keeps_its_values_when_its_types_are_checked(tmp_path: Path) -> None:
    run = write(tmp_path, agent="dqn-pro", changes={"proximal.c": float("inf"), "threads": 2})
    config = preset("dqn-pro", "CartPole-v1", {**SETTINGS, "threads": 2}, steps=4000)
    assert read_run(run, tmp_path).asked == config.override({"proximal.c": float("inf")})


def test_runs_at_any_depth_and_other_programs_configs(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b")
    write(tmp_path, "c", seed=1)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"hidden_size": 768}')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "config.json").write_text(DEEP)
    write(tmp_path / "model" / "inside", seed=2)
    assert [run.path for run in read_runs(tmp_path)] == ["a/b/run", "c", "model/inside/run"]
    assert [run.path for run in read_runs(tmp_path / "c")] == ["c"]


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl"])
def test_a_run_is_not_read_through_a_link(name: str, tmp_path: Path) -> None:
    """As docs/security.md says: it is corrupt, and linked folders are not searched."""
    elsewhere = write(tmp_path, "elsewhere")
    run = write(tmp_path / "runs")
    (run / name).unlink()
    (run / name).symlink_to(elsewhere / name)
    (tmp_path / "runs" / "linked").symlink_to(elsewhere)
    write(tmp_path / "runs", "whole", seed=1)
    found, whole = read_runs(tmp_path / "runs")
    assert (whole.path, whole.status) == ("whole", "finished")
    assert (found.path, found.status) == ("run", "corrupt")
    assert found.note == f"{name}: is a symbolic link"
    assert not found.usable


def test_trials_of_a_search_are_left_out_unless_they_are_all_there_is(tmp_path: Path) -> None:
    search = tmp_path / "tune_dqn"
    write(search, "trial000", seed=100)
    (search / "tune.json").write_text("{}")
    assert [run.path for run in read_runs(tmp_path)] == ["tune_dqn/trial000"]
    write(tmp_path, "dqn", seed=0)
    said: list[str] = []
    found = find_runs([tmp_path], say=said.append)
    assert [run.path for run in found.runs] == ["dqn"]
    assert said == [f"left out trials in {search}: pass such a folder for its own report"]
    assert [run.path for run in read_runs(search)] == ["trial000"]


def test_the_same_run_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path, "a", until=2000)
    write(tmp_path, "b", changes={"logging.tensorboard": False, "threads": 2})
    write(tmp_path, "c")
    status = {run.path: (run.status, run.note) for run in read_runs(tmp_path)}
    assert status["a"] == ("duplicate", "the same run as b")
    assert status["b"] == ("finished", "")
    assert status["c"] == ("duplicate", "the same run as b")


def test_a_run_that_has_not_been_evaluated_yet(tmp_path: Path) -> None:
    write(tmp_path, "a")
    run = write(tmp_path, "b", seed=1)
    (run / "metrics.jsonl").unlink()
    early = read_runs(tmp_path)[1]
    assert (early.status, early.note, early.usable) == ("stopped", "no evaluation yet", False)


def test_nothing_to_report_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_runs(tmp_path / "nowhere")
    with pytest.raises(UserError, match="contains no runs"):
        read_runs(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="not a folder"):
        read_runs(tmp_path / "file")
    run = write(tmp_path)
    (run / "metrics.jsonl").write_text("broken\n")
    with pytest.raises(UserError, match=r"none of the 1 runs.*run: metrics.jsonl line 1"):
        read_runs(tmp_path)


# ----------------------------------------------------------------------------------- the protocol


def test_one_protocol_is_returned(tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b", agent="dqn-pro", seed=1)
    found = common_protocol(read_runs(tmp_path))
    assert found["steps"] == 4000
    assert found["evaluation.epsilon"] == 0.001
    assert found["returns"] == "evaluation, undiscounted, unclipped"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("evaluation.epsilon", 0.05),
        ("evaluation.episodes", 3),
        ("evaluation.period_steps", 2000),
        ("protocol.sticky_actions", 0.25),
        ("protocol.max_episode_steps", 100),
        ("protocol.clip_rewards", True),
        ("protocol.life_loss_terminal", True),
    ],
)
def test_protocols_that_differ_are_refused_by_name(tmp_path: Path, setting: str, value) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b", seed=1, changes={setting: value})
    with pytest.raises(UserError, match="different protocols") as refused:
        common_protocol(read_runs(tmp_path))
    assert f"{setting} (" in str(refused.value)
    assert "in a" in str(refused.value)
    assert "in b" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_protocol_that_changed_inside_a_run_is_refused(tmp_path: Path) -> None:
    """Resuming may change evaluation.*: config.json then has only the last."""
    run = write(tmp_path)
    rows = [json.loads(line) for line in lines(run)]
    for row in rows[:2]:
        row["protocol"]["epsilon"] = 0.05
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"evaluation\.epsilon"):
        common_protocol(read_runs(tmp_path))


def test_budgets_that_differ_can_be_cut(tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b", seed=1, steps=2000)
    runs = read_runs(tmp_path)
    with pytest.raises(UserError, match=r"steps \(4,000 in a, 2,000 in b\).*--steps 2000"):
        common_protocol(runs)
    shorter = [cut(run, 2000) for run in runs]
    assert common_protocol(shorter)["steps"] == 2000
    assert [run.steps.tolist() for run in shorter] == [[1000, 2000]] * 2
    assert {run.status for run in shorter} == {"finished"}
    assert cut(runs[1], 3000).status == "stopped"
