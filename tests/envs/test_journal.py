"""Episodes: truncation, numbering, and replaying."""

import numpy as np

from proxrl.config import ProtocolConfig
from proxrl.envs import Episodes, FrameStack, make
from proxrl.types import End, ObservationSpec


def cartpole(limit: int | None = None) -> Episodes:
    return Episodes(make("CartPole-v1", ProtocolConfig()), 0, (0,), limit)


def test_a_step_limit_truncates() -> None:
    episodes = cartpole(limit=3)
    episodes.begin()
    ends = [episodes.step(action) for action in (0, 1, 0)]
    assert [now.end for now in ends] == [End.NO, End.NO, End.TRUNCATED]
    assert [now.game_over for now in ends] == [False, False, True]


def test_a_termination_on_the_last_allowed_step_stays_a_termination() -> None:
    free = cartpole()
    free.begin()
    length = 1
    while not free.step(1).game_over:
        length += 1
    limited = cartpole(limit=length)
    limited.begin()
    ends = [limited.step(1) for _ in range(length)]
    assert ends[-1].end == End.TERMINATED


def test_a_replayed_episode_is_the_same() -> None:
    episodes = cartpole()
    episodes.begin()
    episodes.begin()
    seen = [episodes.step(action).observation for action in (0, 1, 1, 0)]
    again = cartpole()
    relived = [now.observation for now in again.relive(2, [0, 1, 1, 0])][1:]
    np.testing.assert_array_equal(seen, relived)
    assert (again.number, again.actions) == (2, [0, 1, 1, 0])


def test_seeds_and_streams_differ() -> None:
    environment = make("CartPole-v1", ProtocolConfig())
    firsts = [
        Episodes(environment, seed, stream).begin().observation.tolist()
        for seed, stream in [(0, (0,)), (1, (0,)), (0, (1,))]
    ]
    assert len({tuple(first) for first in firsts}) == 3


def test_a_stack_begins_with_zeros_and_shifts() -> None:
    stack = FrameStack(ObservationSpec((1,), "float32", stack=3))
    stack.begin(np.array([1.0]))
    assert stack.state[:, 0].tolist() == [0, 0, 1]
    stack.push(np.array([2.0]))
    stack.push(np.array([3.0]))
    stack.push(np.array([4.0]))
    assert stack.state[:, 0].tolist() == [2, 3, 4]
    stack.begin(np.array([5.0]))
    assert stack.state[:, 0].tolist() == [0, 0, 5]
