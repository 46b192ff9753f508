"""Exploration, by hand."""

import numpy as np
import pytest

from proxrl.agents.policy import epsilon_greedy, linear_epsilon
from proxrl.types import Array


@pytest.mark.parametrize(
    ("step", "epsilon"),
    [
        *((0, 1.0), (20_000, 1.0), (145_000, 0.505)),
        *((269_999, 0.01 + 0.99 / 250_000), (270_000, 0.01), (10_000_000, 0.01)),
    ],
)
def test_the_papers_schedule(step: int, epsilon: float) -> None:
    """Burn-in 20,000 steps, then from 1 to 0.01 over 250,000."""
    assert linear_epsilon(step, 20_000, 250_000, 0.01) == pytest.approx(epsilon)


def test_no_decay_is_a_jump() -> None:
    assert linear_epsilon(9, 10, 0, 0.1) == 1.0
    assert linear_epsilon(10, 10, 0, 0.1) == 1.0
    assert linear_epsilon(11, 10, 0, 0.1) == 0.1


def values(state: Array) -> Array:
    return np.array([0.0, 2.0, 1.0, 2.0])


def test_greedy_takes_the_largest_value_and_the_lowest_index_on_ties() -> None:
    generator = np.random.default_rng(0)
    actions = {epsilon_greedy(values, np.zeros(1), 0.0, 4, generator) for _ in range(20)}
    assert actions == {1}


def test_epsilon_is_the_share_of_random_actions() -> None:
    generator = np.random.default_rng(0)
    actions = [epsilon_greedy(values, np.zeros(1), 0.5, 4, generator) for _ in range(8000)]
    shares = np.bincount(actions, minlength=4) / len(actions)
    assert shares == pytest.approx([0.125, 0.625, 0.125, 0.125], abs=0.02)
