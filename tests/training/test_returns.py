"""Training returns per period, by hand."""

import json

from proxrl.training.returns import KEY, TrainingReturns


def test_an_episode_belongs_to_the_period_it_ended_in() -> None:
    returns = TrainingReturns(100, step=0)
    for step, episode_return in ((40, 1.0), (100, 3.0), (101, 7.0), (260, 5.0)):
        returns.add(step, episode_return)
    assert returns.take(300) == {KEY: [(100, 2.0, 2), (200, 7.0, 1), (300, 5.0, 1)]}


def test_only_completed_periods_are_taken_and_each_once() -> None:
    returns = TrainingReturns(100, step=0)
    returns.add(90, 2.0)
    assert returns.take(99) == {}
    assert returns.take(100) == {KEY: [(100, 2.0, 1)]}
    assert returns.take(199) == {}


def test_a_period_in_which_no_episode_ended_has_no_mean() -> None:
    returns = TrainingReturns(100, step=0)
    returns.add(250, 4.0)
    assert returns.take(200) == {KEY: [(100, None, 0), (200, None, 0)]}
    assert returns.take(300) == {KEY: [(300, 4.0, 1)]}


def test_it_continues_from_its_state() -> None:
    """Saved and restored through JSON at any step, the periods are the same."""
    history = [(30, 1.0), (80, 2.0), (130, 0.1), (170, 0.2), (310, 5.0)]
    for stop in range(0, 320, 10):
        whole, part = TrainingReturns(100, 0), TrainingReturns(100, 0)
        for step, value in history:
            whole.add(step, value)
            if step <= stop:
                part.add(step, value)
        resumed = TrainingReturns(100, stop)
        resumed.load(json.loads(json.dumps(part.state())))
        for step, value in history:
            if step > stop:
                resumed.add(step, value)
        assert resumed.state() == whole.state()
        assert resumed.take(400) == whole.take(400)


def test_a_period_entered_in_its_middle_is_left_out() -> None:
    """A checkpoint without this state, or with another period."""
    older = TrainingReturns(100, step=150)
    changed = TrainingReturns(100, step=150)
    changed.load(TrainingReturns(70, step=0).state())
    for returns in (older, changed):
        returns.add(180, 1.0)
        returns.add(230, 2.0)
        assert returns.take(300) == {KEY: [(300, 2.0, 1)]}
    assert TrainingReturns(100, step=200).take(300) == {KEY: [(300, None, 0)]}
