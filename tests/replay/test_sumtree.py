"""The sum tree against a naive oracle: a cumulative sum over all leaves, searched from the left."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxrl.native import FANOUT, library
from proxrl.replay import sumtree
from proxrl.replay.sumtree import SumTree

SIZES = [1, 7, FANOUT, FANOUT + 1, FANOUT**2, FANOUT**2 + 3]


def tree_of(weights: np.ndarray) -> SumTree:
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), weights)
    return tree


@pytest.mark.parametrize("size", SIZES)
def test_draws_are_the_oracles(size: int) -> None:
    """Integer weights add without rounding, so both must find the same leaves."""
    weights = np.random.default_rng(size).integers(0, 5, size).astype(float)
    weights[size // 2] = 3.0
    tree = tree_of(weights)
    assert tree.total == weights.sum()
    drawn = tree.draw(500, np.random.default_rng(1))
    places = (np.arange(500) + np.random.default_rng(1).random(500)) * (weights.sum() / 500)
    np.testing.assert_array_equal(drawn, np.searchsorted(weights.cumsum(), places, side="right"))


def test_by_hand() -> None:
    """Weights 1, 0, 3 and two strata: the lower one ends at 2, so it holds leaf 0 and a third of
    leaf 2; the upper one is leaf 2 alone."""
    drawn = [
        tree_of(np.array([1.0, 0.0, 3.0])).draw(2, np.random.default_rng(s)) for s in range(50)
    ]
    assert {int(low) for low, _ in drawn} == {0, 2}
    assert {int(high) for _, high in drawn} == {2}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.sampled_from(SIZES), scale=st.integers(-12, 12))
def test_a_leaf_of_weight_zero_is_never_drawn(seed: int, size: int, scale: int) -> None:
    """Despite rounding, over twenty-four orders of magnitude within one tree."""
    generator = np.random.default_rng(seed)
    weights = 10.0 ** generator.uniform(-abs(scale), abs(scale), size)
    weights[generator.random(size) < 0.5] = 0.0
    weights[generator.integers(size)] = 10.0**scale
    drawn = tree_of(weights).draw(256, generator)
    assert (drawn < size).all()
    assert (weights[drawn] > 0).all()


@pytest.mark.skipif(library() is None, reason="proxrl was installed without a C compiler")
@pytest.mark.parametrize("size", SIZES)
def test_compiled_trees_have_numpys_bits(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights over many orders of magnitude, set again and again, also twice in one call."""
    compiled, plain = SumTree(size), SumTree(size)
    generator = np.random.default_rng(size)
    for _ in range(20):
        leaves = generator.integers(0, size, 32)
        weights = 10.0 ** generator.uniform(-9.0, 3.0, 32)
        seed = int(generator.integers(1 << 30))
        compiled.set(leaves, weights)
        drawn = compiled.draw(32, np.random.default_rng(seed))
        with monkeypatch.context() as patch:
            patch.setattr(sumtree, "library", lambda: None)
            plain.set(leaves, weights)
            expected = plain.draw(32, np.random.default_rng(seed))
        assert np.array_equal(drawn, expected)
        for mine, its in zip(compiled._levels, plain._levels, strict=True):
            assert np.array_equal(mine, its)


@pytest.mark.parametrize("leaf", [-1, 7])
def test_a_leaf_that_does_not_exist_is_refused(leaf: int) -> None:
    with pytest.raises(IndexError):
        SumTree(7).set(np.array([leaf + FANOUT * (leaf > 0)]), np.array([1.0]))


def test_weights_are_broadcast_and_a_copy_is_a_tree_of_its_own() -> None:
    tree = SumTree(7)
    tree.set(np.arange(7), np.arange(14.0)[::2])
    assert tree.leaves.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    copied = copy.deepcopy(tree)
    copied.set(np.array([1, 2]), 3.0)
    assert copied.leaves.tolist()[:3] == [0.0, 3.0, 3.0]
    assert tree.leaves.tolist()[:3] == [0.0, 2.0, 4.0]
    with pytest.raises(ValueError, match="broadcast"):
        tree.set(np.arange(3), np.ones(2))


class Edge(np.random.Generator):
    """Draws the largest number below 1, where rounding is most likely to overshoot."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: int) -> np.ndarray:  # type: ignore[override]
        return np.full(size, np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("scale", [1.0, 1e-9])
@pytest.mark.parametrize("seed", range(20))
def test_the_edge_of_a_stratum_stays_inside_the_tree(seed: int, scale: float) -> None:
    weights = np.random.default_rng(seed).random(1000) * scale
    weights[-300:] = 0.0
    drawn = tree_of(weights).draw(32, Edge())
    assert (weights[drawn] > 0).all()


class Lowest(np.random.Generator):
    """Draws 0, the lower end of every stratum."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: int) -> np.ndarray:  # type: ignore[override]
        return np.zeros(size)


def test_the_lower_end_of_a_stratum_belongs_to_the_leaf_that_begins_there() -> None:
    """Leaves begin at 0 (weight zero), 0, 1, 3 (weight zero), 3; strata at 0, 1, 2, 3."""
    tree = tree_of(np.array([0.0, 1.0, 2.0, 0.0, 1.0]))
    assert tree.draw(4, Lowest()).tolist() == [1, 2, 2, 4]


def test_frequencies_follow_the_weights() -> None:
    """Chi-square over 40 leaves, 40,000 draws: below the 99.9% point of 39 degrees, 72.1."""
    weights = np.random.default_rng(0).random(40) + 0.1
    tree, generator = tree_of(weights), np.random.default_rng(1)
    drawn = np.concatenate([tree.draw(1, generator) for _ in range(40_000)])
    expected = 40_000 * weights / weights.sum()
    counts = np.bincount(drawn, minlength=40)
    assert ((counts - expected) ** 2 / expected).sum() < 72.1


def test_the_tree_depends_only_on_its_leaves() -> None:
    """Draws are bit-identical, however and in whatever order the leaves were set."""
    generator = np.random.default_rng(0)
    size = FANOUT**2 + 3
    changed = SumTree(size)
    for _ in range(200):
        changed.set(generator.integers(0, size, 64), generator.random(64))
    loaded = SumTree(size)
    loaded.load(changed.leaves.copy())
    assert changed.total == loaded.total
    for level, other in zip(changed._levels, loaded._levels, strict=True):
        assert level.tobytes() == other.tobytes()


def test_the_last_weight_wins_for_duplicate_leaves() -> None:
    tree = SumTree(5)
    tree.set(np.array([3, 1, 3]), np.array([1.0, 2.0, 4.0]))
    assert tree.leaves.tolist() == [0.0, 2.0, 0.0, 4.0, 0.0]
    assert tree.total == 6.0
