"""Logs of other libraries: real ones of Stable-Baselines3, and CSV files."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from proxrl import cli
from proxrl.errors import UserError
from proxrl.report.command import make_report
from proxrl.report.logs import as_runs, check_layout, read_logs
from proxrl.report.runs import find_runs, read_runs
from proxrl.report.sections import split
from proxrl.report.study import gather
from proxrl.runs.record import Run

# ------------------------------------------------------------------------------ Stable-Baselines3


@pytest.fixture(scope="module")
def sb3_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DQN and DQNPro of the integration, two seeds, with Monitor and EvalCallback."""
    pytest.importorskip("stable_baselines3")
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.monitor import Monitor

    from proxrl.integrations.stable_baselines3 import DQNPro

    root = tmp_path_factory.mktemp("sb3")
    for agent, kind in (("dqn", DQN), ("dqn-pro", DQNPro)):
        for seed in range(2):
            folder = root / agent / "CartPole-v1" / str(seed)
            env = Monitor(gymnasium.make("CartPole-v1"), str(folder / "monitor.csv"))
            score = EvalCallback(
                Monitor(gymnasium.make("CartPole-v1")),
                n_eval_episodes=3,
                eval_freq=100,
                log_path=str(folder),
                verbose=0,
                warn=False,
            )
            model = kind("MlpPolicy", env, seed=seed, learning_starts=50, buffer_size=500)
            model.learn(300, callback=score)
            env.close()
    return root


def of_kind(root: Path, log: str) -> list[Run]:
    return [run for run in read_runs(root) if run.known and run.known["log"].endswith(log)]


def test_monitor_files_are_read_as_stable_baselines3_reads_them(sb3_logs: Path) -> None:
    pytest.importorskip("pandas")
    from stable_baselines3.common.monitor import load_results
    from stable_baselines3.common.results_plotter import ts2xy

    runs = of_kind(sb3_logs, "training")
    assert {(r.asked.agent, r.asked.env, r.asked.seed) for r in runs} == {
        (agent, "CartPole-v1", seed) for agent in ("dqn", "dqn-pro") for seed in (0, 1)
    }
    for run in runs:
        steps, returns = ts2xy(load_results(str(sb3_logs / run.path)), "timesteps")
        inside = steps <= run.asked.steps  # the last step that all logs have reached
        assert run.steps.tolist() == steps[inside].tolist()
        np.testing.assert_array_equal(run.curves["eval_return"], returns[inside])


def test_evaluations_are_read(sb3_logs: Path) -> None:
    runs = of_kind(sb3_logs, "evaluations")
    assert [run.steps.tolist() for run in runs] == [[100, 200, 300]] * 4
    for run in runs:
        with np.load(sb3_logs / run.path) as file:
            np.testing.assert_allclose(run.curves["eval_return"], file["results"].mean(axis=1))
        assert run.episodes.tolist() == [3, 3, 3]
        assert run.known is not None
        assert run.known["evaluation.episodes"] == 3
        assert run.known["evaluation.period_steps"] == 100


def test_training_and_evaluation_returns_are_two_sections(sb3_logs: Path, tmp_path: Path) -> None:
    page, summary = make_report(sb3_logs, tmp_path / "out", resamples=20)
    assert [line.split(":")[0] for line in summary] == [
        "CartPole-v1 (Stable-Baselines3 training)",
        "CartPole-v1 (Stable-Baselines3 evaluations)",
    ]
    assert all("DQN Pro" in line for line in summary)
    training = (page.parent / "cartpole-v1-stable-baselines3-training" / "index.html").read_text()
    assert "the mean of its training episodes in the last" in training
    assert "training return" in training
    assert "sticky_actions" not in training  # the logs do not say: nothing is made up
    assert "size of the target updates" not in training.split("<script>")[0]


def test_the_report_command_reads_them(sb3_logs: Path, tmp_path: Path, capsys) -> None:
    cli.main(["report", str(sb3_logs / "dqn"), "--out", str(tmp_path), "--resamples", "20"])
    said = capsys.readouterr()
    assert said.err == ""
    assert "CartPole-v1 (Stable-Baselines3 evaluations): DQN: " in said.out


def test_parallel_environments_are_one_run(tmp_path: Path) -> None:
    """`make_vec_env(..., monitor_dir=...)` writes one file per environment."""
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_vec_env

    folder = tmp_path / "dqn_seed3"
    env = make_vec_env("CartPole-v1", n_envs=2, seed=3, monitor_dir=str(folder))
    DQN("MlpPolicy", env, seed=3, learning_starts=50, buffer_size=500).learn(300)
    env.close()
    (run,) = read_runs(tmp_path)
    assert len(list(folder.glob("*.monitor.csv"))) == 2
    assert (run.asked.agent, run.asked.env, run.asked.seed) == ("dqn", "CartPole-v1", 3)
    lengths = [
        int(line.split(",")[1])
        for file in folder.glob("*.monitor.csv")
        for line in file.read_text().splitlines()[2:]
    ]
    assert run.steps[-1] == sum(lengths)


# ---------------------------------------------------------------------------- names from folders


def monitor(folder: Path, returns: list[float], env: str | None = "CartPole-v1") -> Path:
    """A monitor.csv with episodes of 100 steps."""
    folder.mkdir(parents=True)
    header = {"t_start": 1000.0} | ({"env_id": env} if env else {})
    rows = [f"{value},100,{at}.5" for at, value in enumerate(returns)]
    text = "\n".join([f"#{json.dumps(header)}", "r,l,t", *rows]) + "\n"
    (folder / "monitor.csv").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("folder", "env", "found"),
    [
        ("ppo/CartPole-v1/7", None, ("ppo", "CartPole-v1", 7)),
        ("ppo/CartPole-v1/seed_7", None, ("ppo", "CartPole-v1", 7)),
        ("ppo_CartPole-v1_seed7", None, ("ppo", "CartPole-v1", 7)),
        ("my_ppo_CartPole-v1_7", None, ("my_ppo", "CartPole-v1", 7)),
        ("ppo/CartPole-v1_7", None, ("ppo", "CartPole-v1", 7)),
        ("CartPole-v1/ppo/7", None, ("ppo", "CartPole-v1", 7)),
        ("CartPole-v1/ppo_7", None, ("ppo", "CartPole-v1", 7)),
        ("ppo/7", "CartPole-v1", ("ppo", "CartPole-v1", 7)),
        ("ppo_seed7", "CartPole-v1", ("ppo", "CartPole-v1", 7)),
        ("ppo/ALE-Pong-v5/7", "ALE/Pong-v5", ("ppo", "ALE/Pong-v5", 7)),
        ("DQN_Pro/CartPole-v1/7", None, ("dqn-pro", "CartPole-v1", 7)),
    ],
)
def test_layouts_that_are_tried(folder: str, env: str | None, found, tmp_path: Path) -> None:
    monitor(tmp_path / folder, [1.0, 2.0], env)
    (run,) = read_runs(tmp_path)
    assert (run.asked.agent, run.asked.env, run.asked.seed) == found


@pytest.mark.parametrize(
    ("folder", "layout", "found"),
    [
        ("exp1/s4/ppo-tuned", "s{seed}/{agent}", ("ppo-tuned", "CartPole-v1", 4)),
        ("ppo/run", "{agent}/*", ("ppo", "CartPole-v1", 0)),
        ("2024-01-01_ppo", "*_{agent}", ("ppo", "CartPole-v1", 0)),
    ],
)
def test_a_layout_of_the_user(folder: str, layout: str, found, tmp_path: Path) -> None:
    monitor(tmp_path / folder, [1.0])
    (run,) = find_runs([tmp_path], layout).runs
    assert (run.asked.agent, run.asked.env, run.asked.seed) == found


def test_a_log_without_a_name_is_skipped_and_says_what_to_do(tmp_path: Path, capsys) -> None:
    monitor(tmp_path / "ppo" / "CartPole-v1" / "0", [1.0])
    monitor(tmp_path / "somewhere", [1.0], env=None)
    cli.main(["report", str(tmp_path), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert said.startswith("proxrl: somewhere is skipped: agent, environment and seed are unknown")
    assert "--layout '{agent}/{env}/{seed}'" in said


@pytest.mark.parametrize("layout", ["{seed}", "{agent}/{agent}", "{agent}/{game}", ""])
def test_layouts_that_are_none(layout: str) -> None:
    with pytest.raises(UserError, match="invalid --layout"):
        check_layout(layout)


# ----------------------------------------------------------------------------- damage and budgets


def test_runs_are_compared_at_the_last_step_that_all_have(tmp_path: Path) -> None:
    monitor(tmp_path / "a" / "CartPole-v1" / "0", [1.0] * 10)
    monitor(tmp_path / "b" / "CartPole-v1" / "0", [1.0] * 3 + [9.0])
    heard: list[str] = []
    runs = find_runs([tmp_path], say=heard.append).runs
    assert [run.asked.steps for run in runs] == [400, 400]
    assert [run.status for run in runs] == ["finished", "finished"]
    assert [len(run.steps) for run in runs] == [4, 4]
    assert heard == [
        "b/CartPole-v1/0 ends at step 400, so the training episodes of CartPole-v1 are compared "
        "there (the longest log has 1,000 steps)"
    ]
    (section,) = split(runs)[0]
    study = gather("logs", section.runs)
    assert study.block(study.blocks[1].series).final.tolist() == [[9.0]]  # the last 5%: 20 steps
    assert study.block(study.blocks[1].series).area.tolist() == [[3.0]]
    assert study.points.tolist() == [100, 200, 300, 400]
    shorter = find_runs([tmp_path], steps=200).runs
    assert [run.asked.steps for run in shorter] == [200, 200]


def test_curves_have_a_value_of_every_run_at_every_point(tmp_path: Path) -> None:
    """Episodes of 100 steps, and one of 350: no narrower points than those."""
    monitor(tmp_path / "a" / "CartPole-v1" / "0", [1.0] * 7)
    folder = monitor(tmp_path / "b" / "CartPole-v1" / "0", [1.0])
    file = folder / "monitor.csv"
    file.write_text(file.read_text().replace("1.0,100,0.5", "5.0,350,0.5\n6.0,350,1.5"))
    study = gather("logs", split(read_runs(tmp_path))[0][0].runs)
    assert study.points.tolist() == [350, 700]
    assert np.isfinite(study.blocks[0].curves["eval_return"]).all()
    assert study.blocks[1].curves["eval_return"].tolist() == [[[5.0, 6.0]]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no episode"),
        ('#{"t_start": 1}\nr,l,t\n', "no episode"),
        ("r,l,t\n1,2,3\n", "monitor.csv: "),
        ('#{"t_start": 1}\nr,l,t\n1,x,3\n', "monitor.csv: invalid literal"),
        ('#{"t_start": 1}\nr,l,t\n1,0,3\n', "not a monitor.csv of Stable-Baselines3"),
        ('#{"t_start": 1}\nr,l,t\nnan,2,3\n', "a return that is not finite"),
        ('#{"t_start": 1}\nr,t\n1,2\n', "missing l"),
        ('#{"t_start": "x"}\nr,l,t\n1,2,3\n', "monitor.csv: could not convert"),
        ('#{"t_start": null}\nr,l,t\n1,2,3\n', "monitor.csv: float()"),
        (f'#{{"t_start": {10**400}}}\nr,l,t\n1,2,3\n', "monitor.csv: int too large"),
        ('#{"t_start": 1}\nr,l,t\n1,2,nan\n', "not a monitor.csv of Stable-Baselines3"),
        ("#[1]\nr,l,t\n1,2,3\n", "monitor.csv: "),
        ('#{"t_start": 1}\nr,l,t\n1,2,' + "1" * 200_000 + "\n", "monitor.csv: field larger than"),
        ('#{"t_start": 1}\nr,l,t\n1,' + "x" * 100_000 + ",3\n", "monitor.csv: invalid literal"),
        ('#{"t_start": 1}\nr,l,t\n' + f"1,{2**62},3\n" * 5, "more than 2^62 steps"),
        ('#{"t_start": 1}\nr,l,t\n' + f"1,{10**400},3\n", "more than 2^62 steps"),
        ('#{"t_start": 1}\nr,l,t\n' + "1.7e308,2,3\n" * 5, "a return of 1.7e+308"),
    ],
)
def test_a_damaged_monitor_file_is_a_corrupt_run(text: str, why: str, tmp_path: Path) -> None:
    folder = monitor(tmp_path / "ppo" / "CartPole-v1" / "0", [1.0])
    (folder / "monitor.csv").write_text(text)
    logs, unreadable = read_logs(tmp_path, str)
    assert logs == []
    assert [run.status for run in unreadable] == ["corrupt"]
    assert why in unreadable[0].note or not text
    assert len(unreadable[0].note) < 300


def test_the_last_line_of_a_killed_run_is_ignored(tmp_path: Path) -> None:
    folder = monitor(tmp_path / "ppo" / "CartPole-v1" / "0", [1.0, 2.0])
    with (folder / "monitor.csv").open("a") as file:
        file.write("3.0,10")
    (run,) = read_runs(tmp_path)
    assert run.curves["eval_return"].tolist() == [1.0, 2.0]


def test_evaluations_that_hold_code_are_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "ppo" / "CartPole-v1" / "0"
    folder.mkdir(parents=True)
    results = np.array([[1.0], [2.0]], dtype=object)
    np.savez(folder / "evaluations.npz", timesteps=[1, 2], results=results)
    with pytest.raises(UserError, match=r"evaluations\.npz: .*allow_pickle"):
        read_runs(tmp_path)


def evaluations(folder: Path, **arrays: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "evaluations.npz", **arrays)  # type: ignore[arg-type]
    return folder / "evaluations.npz"


def test_evaluations_with_flipped_bits_are_read_or_skipped(tmp_path: Path) -> None:
    """Among these: zlib.error, tokenize.TokenError, NotImplementedError."""
    steps, results = np.arange(1, 200) * 10, np.random.default_rng(0).random((199, 3))
    path = evaluations(tmp_path / "ppo" / "CartPole-v1" / "0", timesteps=steps, results=results)
    whole = path.read_bytes()
    flips = random.Random(1)
    notes = set()
    for _ in range(600):
        content = bytearray(whole)
        for _ in range(flips.choice([1, 1, 3])):
            content[flips.randrange(len(content))] ^= 1 << flips.randrange(8)
        path.write_bytes(content)
        logs, unreadable = read_logs(tmp_path, str)
        assert len(logs) + len(unreadable) == 1
        notes |= {run.note for run in unreadable}
        for log in logs:
            assert 1 <= log.steps[0] <= log.steps[-1] <= 2**62
            assert np.isfinite(log.returns).all()
    assert any("while decompressing" in note for note in notes)
    assert any("EOF in multi-line statement" in note for note in notes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([1.0, np.nan], "invalid value"),
        ([1j, 2j], "timesteps of complex128"),
        (["1", "2"], "timesteps of <U1"),
        ([1, 2**62 + 1], "at most 2^62"),
        ([2**62, -(2**63) + 1], "steps do not increase"),
        (np.array([1, 2**63], np.uint64), "steps do not increase"),
        ([2, 1], "steps do not increase"),
        ([0, 1], "steps do not increase"),
    ],
)
def test_odd_steps_of_evaluations_are_refused(steps: object, why: str, tmp_path: Path) -> None:
    evaluations(tmp_path / "ppo" / "CartPole-v1" / "0", timesteps=steps, results=[[1.0], [2.0]])
    logs, (run,) = read_logs(tmp_path, str)
    assert logs == []
    assert why in run.note


def test_two_logs_of_one_run_are_one(tmp_path: Path) -> None:
    for place in ("x", "y"):
        monitor(tmp_path / place / "ppo" / "CartPole-v1" / "0", [1.0, 2.0])
    assert [run.status for run in read_runs(tmp_path)] == ["finished", "duplicate"]


# --------------------------------------------------------------------------------------- CSV files


def test_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "returns.csv"
    rows = [
        f"{agent},CartPole-v1,{seed},{step},{step + seed}"
        for agent in ("mine", "dqn")
        for seed in (0, 1)
        for step in (0, 500, 1000)
    ]
    file.write_text("\n".join(["Agent,Environment,Seed,Step,Return", *rows]) + "\n")
    page, summary = make_report(file, resamples=20)
    assert page == tmp_path / "report" / "index.html"
    assert summary[0].startswith("After 1,000 agent steps, mine ")
    study = gather("csv", read_runs(file))
    finals = {block.name: block.final.ravel().tolist() for block in study.blocks}
    assert finals == {"DQN": [1000.0, 1001.0], "mine": [1000.0, 1001.0]}


def test_rows_of_one_step_are_episodes_of_one_evaluation(tmp_path: Path) -> None:
    file = tmp_path / "returns.csv"
    file.write_text(
        "note,return,step,seed,env,agent\nx,1,100,0,Foo-v0,a\nx,3,100,0,Foo-v0,a\nx,5,200,0,Foo-v0,a\n"
    )
    logs, _ = read_logs(file, str)
    (run,) = as_runs(logs)
    assert run.steps.tolist() == [100, 200]
    assert run.curves["eval_return"].tolist() == [2.0, 5.0]
    assert run.episodes.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column agent"),
        ("agent,env,seed,step\n", "has no column return: a CSV file of returns has the columns"),
        ("agent,env,seed,step,return\n", "has no rows"),
        ("agent,env,seed,step,return\na,b,0,1\n", "line 2: "),
        ("agent,env,seed,step,return\na,b,0,1.5,1\n", "line 2: an agent, an environment and"),
        ("agent,env,seed,step,return\na,b,zero,1,1\n", "line 2: invalid literal"),
        ("agent,env,seed,step,return\na,b,0,0,1\n", "must be at least 1"),
        (f"agent,env,seed,step,return\na,b,{10**400},1,1\n", "line 2: a step in [0, 2^62] and a"),
        (f"agent,env,seed,step,return\na,b,0,{10**30},1\n", "line 2: a step in [0, 2^62] and a"),
        ("agent,env,seed,step,return\na,b,0,inf,1\n", "line 2: "),
        ("agent,env,seed,step,return\n" + "a" * 200_000 + ",b,0,1,1\n", "line 2: field larger"),
        ("a" * 200_000 + "\n", "line 1: field larger than field limit"),
        ("agent,env,seed,step,return\na,b,0,1,1e308\n", "a return of 1e+308: must be in"),
    ],
)
def test_other_csv_files_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "returns.csv"
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        read_runs(file)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_logs_and_runs_of_one_environment_are_never_mixed(tmp_path: Path) -> None:
    from tests.report.test_sections import run

    run(tmp_path / "runs" / "a", steps=200, evaluation__period_steps=100)
    monitor(tmp_path / "logs" / "dqn" / "CartPole-v1" / "0", [1.0, 2.0])
    sections, rest = split(read_runs(tmp_path))
    assert rest == []
    assert sorted(one.name for one in sections) == [
        "CartPole-v1 (Stable-Baselines3 training)",
        "CartPole-v1 (proxrl)",
    ]
