"""`proxrl train`: the default folder, several seeds, and what is printed without training."""

import json
from pathlib import Path

import pytest

from proxrl import cli, presets
from proxrl.commands.train import default_folder
from proxrl.config import from_json
from proxrl.errors import UserError
from proxrl.runs.folder import RunFolder
from tests import forking

PRESET = presets.make("dqn-pro", "CartPole-v1")
CARTPOLE = ["train", "dqn-pro", "--env", "CartPole-v1"]
SHORT = (
    "--steps 150 --replay.warmup-steps 64 --replay.batch-size 8 --evaluation.period-steps 150 "
    "--evaluation.episodes 1 --logging.tensorboard False"
)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "dqn-pro_CartPole-v1_seed0"),
        ({"seed": 3}, "dqn-pro_CartPole-v1_seed3"),
        ({"proximal.c": 0.5, "seed": 3}, "dqn-pro_CartPole-v1_proximal.c=0.5_seed3"),
        ({"steps": 9000}, "dqn-pro_CartPole-v1_steps=9000_seed0"),
        ({"network.hidden": (64, 32)}, "dqn-pro_CartPole-v1_network.hidden=64x32_seed0"),
        ({"network.kind": "my/lab:net"}, "dqn-pro_CartPole-v1_network.kind=my-lab-net_seed0"),
        ({"logging.tensorboard": False}, "dqn-pro_CartPole-v1_seed0"),
    ],
)
def test_the_default_folder_names_the_changed_settings(
    changes: dict[str, object], name: str
) -> None:
    assert default_folder(PRESET.override(changes), PRESET) == Path("runs") / name


def test_a_long_name_is_shortened_and_still_tells_settings_apart() -> None:
    many = {f"proximal.adaptive.{name}": 0.25 for name in ("kappa_min", "kappa_max", "smoothing")}
    many |= {"replay.priority_exponent": 0.25, "replay.importance_exponent": 0.25}
    one = default_folder(PRESET.override(many), PRESET)
    other = default_folder(PRESET.override({**many, "replay.importance_exponent": 0.5}), PRESET)
    assert len(one.name) < 80
    assert one.name.startswith("dqn-pro_CartPole-v1_5-settings-")
    assert one != other


def test_the_environments_arguments_are_part_of_the_folders_name() -> None:
    lake = presets.make("dqn", "FrozenLake-v1", env_kwargs={"is_slippery": False})
    assert default_folder(lake, lake).name == "dqn_FrozenLake-v1-is-slippery=false_seed0"


def test_print_config_prints_what_a_run_would_record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main([*CARTPOLE, "--proximal.c", "0.5", "--seed", "4", "--print-config"])
    printed = from_json(json.loads(capsys.readouterr().out))
    assert printed == PRESET.override({"proximal.c": 0.5, "seed": 4})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seeds 0 1 --seed 2", "--seed and --seeds cannot be combined"),
        ("--seeds 0 1 0", "invalid --seeds 0 1 0: duplicate seed"),
        ("--seeds 0 1 --jobs 0", "invalid --jobs 0: must be at least 1"),
        ("--jobs 2", "invalid --jobs 2: only with --seeds"),
        ("--seeds 0 --if-exists overwrite", "delete the folder yourself"),
        ("--if-exists again", "--if-exists"),
    ],
)
def test_mistakes_are_named(words: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        cli.parse([*CARTPOLE, *words.split()])


def test_several_seeds_train_side_by_side_continue_and_end_in_a_report(tmp_path: Path) -> None:
    words = [*CARTPOLE, *SHORT.split(), "--folder", "runs", "--seeds"]
    done = forking.run("proxrl", *words, "0", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "dqn-pro on CartPole-v1, 2 seeds" in done.stdout
    assert "report (open it in a browser): runs/report/index.html" in done.stdout
    runs = [tmp_path / "runs" / "dqn-pro" / "CartPole-v1" / f"seed{seed}" for seed in range(3)]
    metrics = [run / "metrics.jsonl" for run in runs]
    before = [file.read_bytes() for file in metrics[:2]]
    assert before[0] != before[1]
    more = forking.run("proxrl", *words, "0", "1", "2", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    assert "2 of 3 runs finished, 1 waiting" in more.stdout
    assert [file.read_bytes() for file in metrics[:2]] == before, "not trained again"
    assert RunFolder(runs[2]).newest_step() == 150
    alone = forking.run(
        "proxrl",
        *CARTPOLE,
        *SHORT.split(),
        *("--seed", "1", "--folder", "alone"),
        cwd=tmp_path,
    )
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "alone" / "metrics.jsonl").read_bytes() == before[1]
    other = forking.run("proxrl", *words, "0", "--proximal.c", "0.5", cwd=tmp_path)
    assert other.returncode == 2
    assert "proximal.c was 0.064, is 0.5" in other.stderr
