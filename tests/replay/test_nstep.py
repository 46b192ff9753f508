"""n-step returns by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxrl.replay.nstep import n_step
from proxrl.types import End

GO, OVER, CUT = End.NO, End.TERMINATED, End.TRUNCATED


def test_by_hand() -> None:
    """gamma = 0.5, n = 3: full window; terminated at once; truncated in the middle."""
    rewards = np.array([[1, 2, 4], [1, 9, 9], [1, 2, 9]], dtype=np.float32)
    ends = np.array([[GO, GO, GO], [OVER, GO, GO], [GO, CUT, OVER]])
    returns, discounts, spans = n_step(rewards, ends, 0.5)
    assert returns.tolist() == [1 + 1 + 1, 1, 1 + 1]
    assert discounts.tolist() == [0.125, 0.0, 0.25]
    assert spans.tolist() == [3, 1, 2]


def test_a_termination_on_the_last_step_does_not_bootstrap_and_a_truncation_does() -> None:
    rewards = np.ones((2, 2), dtype=np.float32)
    _, discounts, spans = n_step(rewards, np.array([[GO, OVER], [GO, CUT]]), 0.5)
    assert discounts.tolist() == [0.0, 0.25]
    assert spans.tolist() == [2, 2]


def test_garbage_after_an_end_is_ignored() -> None:
    rewards = np.array([[1.0, np.nan]], dtype=np.float32)
    returns, _, _ = n_step(rewards, np.array([[OVER, GO]]), 0.9)
    assert returns.tolist() == [1.0]


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_one_step_is_the_reward_bit_for_bit(rewards: list[float], discount: float) -> None:
    column = np.array(rewards, dtype=np.float32)[:, None]
    returns, discounts, spans = n_step(column, np.full(column.shape, GO), discount)
    assert np.array_equal(returns, column[:, 0])
    assert np.array_equal(discounts, np.full(len(rewards), discount, np.float32))
    assert (spans == 1).all()
