"""The command line: a user error is one line and exit code 2, and nothing is written."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proxrl import cli, presets
from proxrl.runs.folder import RunFolder
from tests import forking

CARTPOLE = ["train", "dqn-pro", "--env", "CartPole-v1"]
MISTAKES = [
    (["frobnicate"], "unknown command frobnicate"),
    (["train"], "missing argument: PRESET"),
    (["train", "dqn"], "missing option --env: --env ALE/Breakout-v5"),
    (["train", "a2c", "--env", "CartPole-v1"], "unknown preset 'a2c'"),
    (["train", "nope"], "unknown preset 'nope'"),
    (["train", "dqn", "--env", ":X-v0"], "'' is not a Python module"),
    (["train", "dqn", "--env", ".lab:X-v0"], "'.lab' is not a Python module"),
    ([*CARTPOLE, "--network.kind", ".lab:f"], "cannot import network .lab:f"),
    *(
        ([*CARTPOLE, *words, "9" * 400], f"invalid {words[0]} 99999999999999999999...: too large")
        for words in (
            ["--steps"],
            ["--seed"],
            ["--proximal.c"],
            ["--learner.discount"],
            ["--network.hidden", "64"],
            ["--seeds", "1"],
        )
    ),
    ([*CARTPOLE, "--proximal.c=1e999"], "invalid --proximal.c 1e999...: too large"),
    ([*CARTPOLE, "--steps", "0"], "invalid --steps 0: must be at least 1"),
    ([*CARTPOLE, "--network.hidden", "2000000"], "must be in [1, 1,048,576] each"),
    (["tune", "dqn-pro", "--env", "CartPole-v1", "--steps", "0"], "invalid --steps 0"),
    (["eval", "nothing-here", "--episodes", "9999999"], "must be in [1, 1,000,000]"),
    (["train", "dqn", "--env", "Nope-v1"], "Nope-v1; see `gymnasium.pprint_registry()`"),
    (["train", "dqn", "--env", "x" * 400], "unknown environment " + "x" * 40 + "..."),
    ([*CARTPOLE, "--protocol.stack", "129"], "at most 128"),
    ([*CARTPOLE, "--folder", "x" * 300], "File name too long"),
    ([*CARTPOLE, "--folder", "a\0b"], "null character"),
    (["eval", "x" * 300], "File name too long"),
    (["resume", "x" * 300], "File name too long"),
    (["play", "x" * 300], "File name too long"),
    (["runs", "x" * 300], "File name too long"),
    (["report", "x" * 300], "File name too long"),
    (["train", "dqn", "--env", "CartPol-v1"], "did you mean CartPole-v1"),
    (["train", "dqn", "--env", "ALE/Brekout-v5"], "did you mean ALE/Breakout-v5"),
    (["train", "dqn", "--env", "Breakout-v5"], "ALE/Breakout-v5 or MinAtar/Breakout"),
    (["train", "dqn", "--env", "breakout"], "ALE/Breakout-v5 or MinAtar/Breakout"),
    (["train", "dqn", "--env", "BreakoutNoFrameskip-v4"], "ALE/Breakout-v5 or MinAtar/Breakout"),
    (["train", "dqn", "--env", "Cartpole"], "did you mean CartPole-v"),
    (["train", "dqn", "--env", ""], "empty value after --env"),
    (["train", "dqn", "--env", "Pendulum-v1"], "discrete actions"),
    (["train", "dqn", "--env", "nowhere:Thing-v0"], "cannot import nowhere"),
    ([*CARTPOLE, "--proximl.c", "1"], "did you mean --proximal.c?"),
    ([*CARTPOLE, "--seed", "x"], "--seed"),
    ([*CARTPOLE, "--steps", "1e6"], "invalid --steps 1e6: must be an integer (write 1_000_000)"),
    ([*CARTPOLE, "--steps", "--seed", "1"], "missing value after --steps"),
    ([*CARTPOLE, "--step", "100"], "unknown option --step; did you mean --steps?"),
    ([*CARTPOLE, "--lr=0.1"], "unknown option --lr; did you mean --learner.learning-rate?"),
    ([*CARTPOLE, "--batch-size", "9"], "did you mean --replay.batch-size?"),
    ([*CARTPOLE, "--learner.learning_rate", "x"], "--learner.learning-rate x: must be a number"),
    ([*CARTPOLE, "--learner.annealed-rate", "x"], "invalid --learner.annealed-rate x: must be a"),
    ([*CARTPOLE, "--network.noisy", "yes"], "invalid --network.noisy yes: must be True or False"),
    ([*CARTPOLE, "--device", "gpu"], "invalid --device gpu: choose from auto, cpu, cuda, mps"),
    ([*CARTPOLE, "--seeds"], "missing value after --seeds"),
    ([*CARTPOLE, "--seeds", "0,1"], "invalid --seeds 0,1: must be integers separated by spaces"),
    ([*CARTPOLE, "--seed", "0", "1"], "--seed takes one value; did you mean --seeds 0 1?"),
    (["train", "dqn", "CartPole-v1"], "did you mean --env CartPole-v1?"),
    (["train", "dqnpro", "--env", "CartPole-v1"], "unknown preset 'dqnpro'; did you mean dqn-pro?"),
    (
        ["train", "dqn", "--env", "CartPole"],
        "unknown environment CartPole; did you mean CartPole-v1",
    ),
    (["train", "dqn", "--env", "CartPole-v1,foo=1"], "unexpected keyword argument 'foo'"),
    (["trian", "dqn"], "unknown command trian; did you mean train?"),
    (["eval"], "missing argument: RUN, run folder"),
    (["eval", "a", "b"], "unexpected argument b"),
    (["completion", "fish"], "invalid shell fish: choose from bash, zsh"),
    ([*CARTPOLE, "--proximal.rule", "elastic"], "unknown proximal.rule elastic: choose from"),
    ([*CARTPOLE, "--head.v-min", "5", "--head.v-max", "5"], "below head.v_max = 5"),
    ([*CARTPOLE, "--head.atoms", "1"], "at least 2"),
    (
        [*CARTPOLE, "--proximal.rule", "math:sqrt"],
        "is not a subclass of proxrl.proximal.rules.Rule",
    ),
    ([*CARTPOLE, "--proximal.rule", ":x"], "cannot import proximal.rule :x"),
    ([*CARTPOLE, "--learner.loss", "cubic"], "squared"),
    ([*CARTPOLE, "--replay.batch-size", "5000"], "at most replay.warmup_steps"),
    ([*CARTPOLE, "--learner.learning-rate", "-1"], "must be positive"),
    ([*CARTPOLE, "--learner.learning-rate", "0"], "must be positive"),
    ([*CARTPOLE, "--proximal.c", "0"], "must be positive"),
    ([*CARTPOLE, "--learner.discount", "1.1"], "[0, 1]"),
    ([*CARTPOLE, "--replay.capacity", "1000000000000"], "not enough memory"),
    ([*CARTPOLE, "--device", "cuda"], "device cuda is not available"),
    ([*CARTPOLE, "--network.kind", "resnet"], "unknown network.kind resnet"),
    ([*CARTPOLE, "--network.kind", ":f"], "cannot import network :f"),
    ([*CARTPOLE, "--logging.wandb", "project"], "pip install 'proxrl[wandb]'"),
    ([*CARTPOLE, "--protocol.frame-skip", "4"], "frame_skip is only supported by Atari"),
    ([*CARTPOLE, "--target.rule", "polyak", "--target.tau", "0"], "(0, 1]"),
    (
        [*CARTPOLE, "--learner.update-period-steps", "0", "--proximal.pull-per-sync", "1"],
        "at least 1",
    ),
    ([*CARTPOLE, "--seed", "99999999999999999999999"], "2^63"),
    ([*CARTPOLE, "--network.kind", "math:sqrt"], "cannot build network math:sqrt"),
    ([*CARTPOLE, "--threads", "100000"], "up to 1024"),
    ([*CARTPOLE, "--learner.adam-epsilon", "inf"], "finite"),
    ([*CARTPOLE, "--protocol.stack", "300"], "at most 128"),
    ([*CARTPOLE, "--folder", "/dev/null/x"], "cannot write to /dev/null/x"),
    (["demo", "--steps", "800"], "at least 4,000"),
    (["demo", "--game", "MinAtar/Nope-v1"], "unknown environment MinAtar/Nope-v1"),
    (["play", "nothing-here", "--max-steps", "0"], "at least 1"),
    (["play", "nothing-here", "--epsilon", "7"], "[0, 1]"),
    (["resume", "nothing-here"], "not a run folder"),
    (["eval", "nothing-here"], "not a run folder"),
    (["play", "nothing-here"], "not a run folder"),
    (["eval", "nothing-here", "--episodes", "0"], "must be in [1, "),
    (["runs", "nothing-here"], "not a folder"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_exit_2_and_nothing_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    error = capsys.readouterr().err.strip()
    assert left.value.code == 2
    assert error.startswith("proxrl: ")
    assert message in error
    assert "\n" not in error
    assert len(error) < 400
    assert list(tmp_path.iterdir()) == []


MODULES = {
    "def f():\n    return {}['k']\nf()\n": "it raised KeyError: 'k' (raising.py, line 2)",
    "def broken(:\n": "it raised SyntaxError: invalid syntax (raising.py, line 1)",
    "import sys\nsys.exit(0)\n": "it called sys.exit(0) (raising.py, line 2)",
}


@pytest.mark.parametrize("text", MODULES)
@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--env", "raising:X-v0"], "raising, which registers raising:X-v0"),
        (["--env", "CartPole-v1", "--network.kind", "raising:f"], "network raising:f"),
        (["--env", "CartPole-v1", "--proximal.rule", "raising:F"], "proximal.rule raising:F"),
    ],
)
def test_a_module_that_raises_when_it_is_imported_is_one_line(
    options: list[str],
    what: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raising.py").write_text(text)
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "dqn", *options])
    assert left.value.code == 2
    assert capsys.readouterr().err == f"proxrl: cannot import {what}: {MODULES[text]}\n"


def test_the_demo_on_another_game_needs_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "demo" / "dqn" / "Breakout" / "seed0")
    folder.path.mkdir(parents=True)
    folder.write_config(presets.make("dqn", "MinAtar/Breakout-v1"))
    for other in (["--game", "MinAtar/Asterix-v1"], ["--seed", "1"]):
        with pytest.raises(SystemExit) as left:
            cli.main(["demo", "--folder", str(tmp_path / "demo"), *other])
        assert left.value.code == 2
        assert "has the demo on MinAtar/Breakout-v1 with seed 0" in capsys.readouterr().err


def test_a_missing_extra_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "minatar", None)
    monkeypatch.setitem(sys.modules, "minatar.gym", None)
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "dqn", "--env", "MinAtar/Breakout-v1"])
    assert left.value.code == 2
    assert "pip install 'proxrl[minatar]'" in capsys.readouterr().err


def proxrl(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The command line in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-m", "proxrl", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_needs_no_torch(tmp_path: Path) -> None:
    code = "import sys, proxrl.cli as c\ntry: c.main(['train', 'dqn', '--help'])\n"
    code += "except SystemExit: pass\nassert 'torch' not in sys.modules and 'gymnasium' not in "
    code += "sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for setting in ("--proximal.c", "--replay.capacity", "--target.period-unit", "Agent steps"):
        assert setting in done.stdout


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": str(cli.SPINS)}),
        ({"GOMP_SPINCOUNT": "5"}, {"GOMP_SPINCOUNT": "5"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_waiting_threads_sleep_early_unless_the_user_decides_otherwise(
    given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that the deletion is undone
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    cli.main(["--help"])
    assert {name: os.environ[name] for name in os.environ if "SPIN" in name or "WAIT" in name} == (
        expected
    )


def test_train_resume_and_extend_with_a_custom_module(tmp_path: Path) -> None:
    """An environment and a network in the user's folder."""
    (tmp_path / "my_lab.py").write_text(
        """
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from torch import nn

gymnasium.register("LabPole-v0", entry_point=CartPoleEnv, max_episode_steps=60)

def tiny(spec, actions, hidden):
    return nn.Sequential(nn.Flatten(), nn.Linear(spec.shape[0], actions))
"""
    )
    settings = "--replay.warmup-steps 64 --replay.batch-size 32"
    settings += " --evaluation.period-steps 100 --evaluation.episodes 1"
    settings += " --network.kind my_lab:tiny --steps 200 --folder run --threads 1"
    done = proxrl("train", "dqn-pro", "--env", "my_lab:LabPole-v0", *settings.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "settings: dqn-pro for vector observations (observation 4; " in done.stderr
    assert "needs" in done.stderr
    assert "memory" in done.stderr
    assert "step 200 (100%)" in done.stderr
    assert "finished: run" in done.stdout
    again = forking.run(
        "proxrl",
        *("train", "dqn-pro", "--env", "my_lab:LabPole-v0", "--folder", "run"),
        cwd=tmp_path,
    )
    assert again.returncode == 2
    assert (
        "run has a run at step 200 of 200 with steps 200, not 500000, network.kind" in again.stderr
    )
    assert "and 1 more: start again with --if-exists overwrite, or choose" in again.stderr
    assert "proxrl resume" not in again.stderr, "that would continue other settings"
    more = settings.replace("--steps 200", "--steps 300")
    again = forking.run(
        "proxrl",
        *("train", "dqn-pro", "--env", "my_lab:LabPole-v0", *more.split()),
        cwd=tmp_path,
    )
    assert again.returncode == 2
    assert (
        "with steps 200, not 300: extend it with `proxrl resume run --trust --steps 300`"
        in again.stderr
    )
    fewer = settings.replace("--steps 200", "--steps 100")
    again = forking.run(
        "proxrl",
        *("train", "dqn-pro", "--env", "my_lab:LabPole-v0", *fewer.split()),
        cwd=tmp_path,
    )
    assert "with steps 200, not 100: extend it with `proxrl resume run --trust --steps 400`" in (
        again.stderr
    )
    longer = forking.run("proxrl", "resume", "run", "--steps", "3_00", "--trust", cwd=tmp_path)
    assert longer.returncode == 0, longer.stderr
    assert "step 300 (100%)" in longer.stderr
    changes = ("--trust", "--seed", "5", "--proximal.c", "3")
    other = forking.run("proxrl", "resume", "run", *changes, cwd=tmp_path)
    assert other.returncode == 2
    assert "seed, proximal.c cannot change" in other.stderr


def test_presets_shows_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["presets"])
    out = capsys.readouterr().out
    assert "dqn-pro" in out
    assert "0.0625" in out
    assert "replay.capacity" in out
    assert "learner.discount" not in out, "what all share is left out"


def test_ctrl_c_in_the_demo_saves_both_runs_and_it_continues(tmp_path: Path) -> None:
    """As a terminal does: SIGINT to the whole foreground group."""
    words = ("demo", "--steps", "60000", "--folder", "demo")
    process = forking.start("proxrl", *words, cwd=tmp_path, start_new_session=True)
    runs = [tmp_path / "demo" / agent / "Breakout" / "seed0" for agent in ("dqn", "dqn-pro")]
    while not all((run / "metrics.jsonl").exists() and _size(run) for run in runs):
        time.sleep(0.05)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in stderr
    steps = [RunFolder(run).newest_step() for run in runs]
    assert all(step is not None and 0 < step < 60_000 for step in steps), (steps, stdout, stderr)
    assert not any(RunFolder(run).is_locked() for run in runs)


def _size(run: Path) -> int:
    return (run / "metrics.jsonl").stat().st_size


def test_the_demo_is_a_study_that_ends_in_a_report_and_continues(tmp_path: Path) -> None:
    words = ("demo", "--steps", "4000", "--folder", "demo")
    done = forking.run("proxrl", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the size of DQN's" in done.stdout
    assert "One seed and a small budget" in done.stdout
    assert "too few runs for a ranking" in done.stdout
    assert "report (open it in a browser): demo/report/index.html" in done.stdout
    assert (tmp_path / "demo" / "report" / "index.html").exists()
    metrics = tmp_path / "demo" / "dqn" / "Breakout" / "seed0" / "metrics.jsonl"
    before = metrics.read_bytes()
    again = forking.run("proxrl", *words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert metrics.read_bytes() == before
