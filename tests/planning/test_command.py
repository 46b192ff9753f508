"""`proxrl plan`: what is printed, written and rejected."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.paper import planning as claims
from proxrl.planning.command import PlanOptions, check, run
from proxrl.planning.figure import LEVELS

SMALL = {"n": (1,), "beta": (0.0, 0.5, 1.0), "noise": (0.1,), "seeds": 2, "iterations": 20}


def test_figure_prints_a_table_and_its_files(tmp_path, capsys) -> None:
    run(PlanOptions(out=tmp_path / "deep" / "er", **SMALL))
    printed = capsys.readouterr().out
    assert "FrozenLake8x8-v1" in printed
    assert "best β" in printed
    for kind in ("png", "svg", "csv"):
        path = tmp_path / "deep" / "er" / f"figure1.{kind}"
        assert path.stat().st_size > 0
        assert f"wrote {path}" in printed


def test_adaptive_prints_a_table_and_how_often_it_met_its_goals(tmp_path, capsys) -> None:
    options = {"noise": (0.0, 0.1), "seeds": 2, "seed": 100, "iterations": 8, "n": (1,)}
    written = run(PlanOptions(adaptive=True, garnets=2, out=tmp_path, **options))
    printed = capsys.readouterr().out
    for name in ("FrozenLake 4x4", "FrozenLake 8x8", "Taxi", "2 random MDPs"):
        assert name in printed
    assert "of 8 cells" in printed
    assert [path.name for path in written] == ["adaptive.png", "adaptive.svg", "adaptive.csv"]
    assert all(path.stat().st_size > 0 for path in written)


def test_adaptive_on_one_environment(tmp_path, capsys) -> None:
    options = {"noise": (0.1,), "seeds": 2, "seed": 100, "iterations": 5, "out": tmp_path}
    run(PlanOptions(adaptive=True, env="CliffWalking-v1", **options))
    printed = capsys.readouterr().out
    assert "CliffWalking-v1" in printed
    assert "Taxi" not in printed


def test_a_check_of_adaptive_is_quick_and_finds_the_errors_of_the_run(tmp_path) -> None:
    check(PlanOptions(adaptive=True, out=tmp_path))
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="unknown environment FrozenLake9x9-v1"):
        check(PlanOptions(adaptive=True, env="FrozenLake9x9-v1", out=tmp_path))


def test_theory_prints_claim_by_claim(capsys) -> None:
    run(PlanOptions(theory=True, mdps=12))
    printed = capsys.readouterr().out
    for claim in range(36, 48):
        assert f"C{claim}" in printed
    assert "claims that hold: 18 of 18; statements of the paper that fail as printed: 1;" in printed
    assert "wrong bounds (controls) that fail: 6 of 6" in printed
    assert "fails, as expected" in printed


def test_a_failed_claim_sets_the_exit_code(monkeypatch, capsys) -> None:
    monkeypatch.setattr(claims, "theorem1_factor", lambda discount, c: 0.0)
    with pytest.raises(SystemExit) as caught:
        run(PlanOptions(theory=True, mdps=3))
    assert caught.value.code == 1
    assert "FAILS in 3 cases" in capsys.readouterr().out


def test_one_seed_has_no_standard_error(tmp_path, capsys) -> None:
    run(PlanOptions(out=tmp_path, **{**SMALL, "seeds": 1}))
    printed = capsys.readouterr().out
    assert "1 seed," in printed
    assert "±" not in printed.split("best β")[1]


def test_an_mdp_from_a_file_and_a_grid_in_c(tmp_path, capsys) -> None:
    path = tmp_path / "chain.npz"
    np.savez(
        path,
        transitions=np.stack([np.eye(3), np.roll(np.eye(3), 1, axis=1)]),
        rewards=np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
        discount=0.8,
    )
    run(PlanOptions(mdp=path, c=(1.0, 3.0), n=("inf",), seeds=2, iterations=3, out=tmp_path))
    printed = capsys.readouterr().out
    assert "chain" in printed
    assert "γ = 0.8" in printed
    assert "at β = 0.25" in printed
    assert "∞" in printed


def test_options_of_the_environment(tmp_path, capsys) -> None:
    options = {**SMALL, "noise": (0.0,), "iterations": 40, "out": tmp_path}
    run(PlanOptions(env="FrozenLake-v1", slippery=False, discount=0.5, **options))
    assert "FrozenLake-v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mdp": Path("absent.npz")}, "no such file: absent.npz"),
        ({"beta": (0.5, 1.2)}, r"beta must be in \[0, 1\], got 1.2"),
        ({"n": (0,)}, "n must be a positive integer or inf, got 0"),
        ({"c": (-1.0,)}, "c must be positive"),
        ({"beta": (0.5,), "c": (1.0,)}, "either --beta or --c"),
        ({"env": "FrozenLake-v9"}, "FrozenLake-v9"),
        ({"env": "CartPole-v1"}, "no transition table"),
        ({"discount": 1.0}, r"discount must be in \[0, 1\)"),
        ({"noise": (-0.1,)}, "noise level"),
        ({"noise": ()}, "at least one n, one beta and one noise level"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"adaptive": True, "beta": (0.5,)}, "--beta is not allowed with --adaptive"),
        ({"adaptive": True, "greedy_error": 0.1}, "--greedy-error is not allowed"),
        ({"adaptive": True, "garnets": -1}, "garnets must be non-negative, got -1"),
        ({"adaptive": True, "slippery": False}, "--slippery needs --env"),
        ({"adaptive": True, "noise": ()}, "at least one n and one noise level"),
        ({"adaptive": True, "seeds": 0}, "seeds must be at least 1, got 0"),
        ({"theory": True, "mdps": 0}, "mdps must be at least 1"),
        ({"theory": True, "seed": -1}, "seed must be non-negative"),
        ({"theory": True, "adaptive": True}, "--theory and --adaptive cannot be combined"),
        (
            {"adaptive": True, "noise": (-1.0,)},
            "a noise level must be finite and non-negative, got -1",
        ),
    ],
)
def test_an_error_is_one_line(arguments, words: str, tmp_path) -> None:
    with pytest.raises(UserError, match=words) as caught:
        run(PlanOptions(**{"out": tmp_path, **arguments}))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file(tmp_path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(UserError, match="is not a writable directory"):
        run(PlanOptions(out=taken / "below", **SMALL))


def test_the_default_noise_is_the_figure_s() -> None:
    assert PlanOptions().noise == LEVELS


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys, proxrl.planning.command\n"
        "heavy = {'torch', 'scipy', 'gymnasium', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_planning_never_imports_torch() -> None:
    code = (
        "import sys\n"
        "from proxrl.paper import planning\n"
        "from proxrl.planning import figure, from_gymnasium\n"
        "from_gymnasium('FrozenLake-v1')\n"
        "from proxrl.planning import accelerated, comparison\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
