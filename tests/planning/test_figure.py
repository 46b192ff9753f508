"""Figure 1: its shape, its numbers on disk, reproducible bytes."""

import csv
import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.planning import figure
from proxrl.planning.figure import BETAS, LEVELS, Figure1, draw, figure1, save
from proxrl.planning.mdp import from_gymnasium, garnet
from proxrl.planning.pmpi import Noise, iterate, policy_error

LAKE = from_gymnasium("FrozenLake8x8-v1", discount=0.99)


@pytest.fixture(scope="module")
def whole() -> Figure1:
    """The published figure, at its full size."""
    return figure1(LAKE)


def test_the_grid_is_the_documented_one(whole: Figure1) -> None:
    assert whole.errors.shape == (2, 6, 41, 30)
    assert (whole.n, whole.iterations, whole.seeds) == ((1, 3), 100, 30)
    assert len(BETAS) >= 25
    assert sum(level > 0 for level in LEVELS) >= 5


def test_u_shape_for_every_noise_above_zero(whole: Figure1) -> None:
    assert not whole.is_u_shaped[:, 0].any()
    assert whole.is_u_shaped[:, 1:].all()
    inside = whole.best[:, 1:]
    assert ((inside > 0) & (inside < len(whole.betas) - 1)).all()


def test_the_best_beta_grows_with_the_noise(whole: Figure1) -> None:
    best = whole.betas[whole.best]  # [n, levels]
    assert (np.diff(best, axis=1) >= 0).all()
    assert (best[:, -1] > best[:, 1]).all()


def test_without_noise_beta_zero_is_best(whole: Figure1) -> None:
    assert (whole.best[:, 0] == 0).all()
    assert (whole.mean[:, 0].min(axis=-1) >= whole.mean[:, 0, 0] - 1e-12).all()


def test_beta_one_is_the_error_of_the_first_policy(whole: Figure1) -> None:
    # v_0 = 0 never changes: all states go left except the one next to the goal.
    first = iterate(LAKE, iterations=1, beta=0.0).policy
    np.testing.assert_allclose(whole.errors[..., -1, :], policy_error(LAKE, first), atol=1e-12)


def test_standing_still_is_not_best_at_the_noise_of_figure_1(whole: Figure1) -> None:
    """C47's second half: some beta < 1 beats beta = 1 by two standard errors at every noise."""
    assert (whole.standstill == -1).all()


def test_standing_still_is_compared_on_paired_seeds() -> None:
    assert _made_up([[3, 2, 1], [4, 3, 2]]).standstill.item() == 1
    assert _made_up([[3, 1, 2], [4, 2, 3]]).standstill.item() == -1
    assert _made_up([[3, 2, 2.5], [1, 2.9, 2]]).standstill.item() == 0  # within two standard errors


def test_batches_of_seeds_change_nothing(monkeypatch) -> None:
    arguments = {"n": (2,), "betas": (0.0, 0.4), "levels": (0.1,), "seeds": 5, "iterations": 10}
    together = figure1(LAKE, **arguments).errors
    monkeypatch.setattr(figure, "BATCH_BYTES", 1)
    np.testing.assert_allclose(figure1(LAKE, **arguments).errors, together, atol=1e-12)
    later = figure1(LAKE, seed=2, **{**arguments, "seeds": 3}).errors
    np.testing.assert_allclose(later, together[..., 2:], atol=1e-12)


def test_numbers_are_those_of_pmpi() -> None:
    mdp = garnet(6, 2, 6, seed=1)  # full rows: planned densely
    result = figure1(mdp, n=(3,), betas=(0.2, 0.7), levels=(0.5,), seeds=4, iterations=6)
    out = iterate(mdp, iterations=6, n=3, beta=[0.2, 0.7], noise=Noise([0.5]), seed=range(4))
    errors = policy_error(mdp, out.policy)
    np.testing.assert_allclose(result.errors[0], errors, atol=1e-12)
    np.testing.assert_allclose(result.mean[0], errors.mean(axis=-1))
    np.testing.assert_allclose(
        result.standard_error[0], errors.std(axis=-1, ddof=1) / 2, atol=1e-15
    )


def _made_up(errors: list[list[float]]) -> Figure1:
    array = np.array(errors).T[None, None]  # [1, 1, betas, seeds]
    betas = np.linspace(0, 1, array.shape[2])
    return Figure1("made up", 0.9, 1, "gaussian", 0.0, (1,), np.array([0.1]), betas, array)


def test_what_counts_as_a_u() -> None:
    assert _made_up([[3, 1, 3], [4, 2, 4]]).is_u_shaped.item()
    assert not _made_up([[1, 1, 3], [2, 2, 4]]).is_u_shaped.item()  # a tie goes to beta = 0
    assert not _made_up([[3, 1, 0], [4, 2, 1]]).is_u_shaped.item()  # best at the end
    assert not _made_up([[3, 1, 9], [1, 2.9, 9]]).is_u_shaped.item()  # within two standard errors
    assert _made_up([[3, 1, 9]]).is_u_shaped.item()  # one seed: only the means count
    assert math.isnan(_made_up([[3, 1, 9]]).standard_error[0, 0, 0])


def test_files_contain_the_protocol_and_are_reproducible(tmp_path) -> None:
    result = figure1(LAKE, n=(1, math.inf), betas=(0.5, 0.0, 1.0), levels=(0.1, 0.0), seeds=2)
    first = [path.read_bytes() for path in save(result, tmp_path / "a")]
    second = [path.read_bytes() for path in save(result, tmp_path / "b")]
    assert first == second
    with (tmp_path / "a" / "figure1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3
    assert [rows[0][key] for key in ("n", "noise", "beta")] == ["1", "0", "0"]
    assert [rows[-1][key] for key in ("n", "noise", "beta")] == ["inf", "0.1", "1"]
    assert {row["mdp"] for row in rows} == {"FrozenLake8x8-v1"}
    assert {(row["discount"], row["seeds"], row["noise_kind"]) for row in rows} == {
        ("0.99", "2", "gaussian")
    }
    assert float(rows[-1]["mean_error"]) == pytest.approx(result.mean[1, 1, 2], abs=1e-9)


def test_the_five_lines_of_the_documentation_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) == 5
    matplotlib.use("Agg")
    names: dict[str, Any] = {}
    exec(code, names)
    (curve,) = names["plt"].gca().lines
    names["plt"].close("all")
    assert 0 < int(np.argmin(curve.get_ydata())) < 40  # the U


def test_the_drawing_has_a_panel_for_each_n_and_a_dot_for_each_best_beta() -> None:
    result = figure1(LAKE, n=(1, 2, 3), betas=(0.0, 0.5, 1.0), levels=(0.0, 0.1), seeds=2)
    axes = draw(result).axes
    assert [ax.get_title() for ax in axes] == ["$n = 1$", "$n = 2$", "$n = 3$"]
    for panel, ax in enumerate(axes):
        dots = [line for line in ax.lines if line.get_marker() == "o"]
        assert [dot.get_xdata()[0] for dot in dots] == list(result.betas[result.best[panel]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seed": -1}, "seed must be non-negative"),
        ({"betas": ()}, "at least one n, one beta and one noise level"),
        ({"n": (0,)}, "n must be a positive integer"),
        ({"betas": (2.0,)}, r"beta must be in \[0, 1\]"),
        ({"levels": (-1.0,)}, "noise level"),
    ],
)
def test_invalid_arguments_are_named(arguments, words: str) -> None:
    with pytest.raises(UserError, match=words):
        figure1(LAKE, **arguments)
