"""Episodes played side by side do not affect each other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proxrl import presets
from proxrl.agents.networks import build_network
from proxrl.config import RunConfig
from proxrl.envs import Environment
from proxrl.training.environments import scoring_environment, side_by_side
from proxrl.training.evaluate import Evaluation, Interrupted, evaluate, no_time_limit
from proxrl.types import TimeStep

CPU = torch.device("cpu")


def config(env: str = "MinAtar/Breakout-v1", **evaluation: object) -> RunConfig:
    changes = {f"evaluation.{name}": value for name, value in evaluation.items()}
    return presets.make("dqn", env, {"protocol.max_episode_steps": 60, **changes})


def environments_of(run: RunConfig, episodes: int | None) -> list[Environment]:
    return [scoring_environment(run) for _ in range(side_by_side(run, episodes))]


def score(
    run: RunConfig, episodes: int | None, stop: Callable[[], bool] = lambda: False, step: int = 7
) -> Evaluation:
    environments = environments_of(run, episodes)
    spec, actions = environments[0].observation, environments[0].actions
    network = build_network(spec, actions, run.network, run.seed, run.head)
    return evaluate(network, environments, run, step, CPU, episodes, stop=stop)


def test_an_evaluation_repeats_itself_and_depends_on_seed_and_step() -> None:
    run = config("CartPole-v1", epsilon=0.2)
    assert score(run, 6) == score(run, 6)
    assert score(run, 6).returns != score(run, 6, step=8).returns
    assert score(run, 6).returns != score(run.override({"seed": 1}), 6).returns


@pytest.mark.parametrize("env", ["MinAtar/Asterix-v1", "CartPole-v1"])
def test_an_episode_is_the_same_whatever_the_others_do(env: str) -> None:
    """The first three of nine episodes equal those of an evaluation of three, although the other
    episodes end at other times."""
    run = config(env, epsilon=0.1, environments=3)
    assert score(run, 9).returns[:3] == score(run, 3).returns
    assert score(run, 9).lengths[:3] == score(run, 3).lengths


class Idle(nn.Module):
    """Prefers the first action, whatever the number of rows."""

    def forward(self, states: Tensor) -> Tensor:
        return torch.tensor([1.0, 0.0]).expand(len(states), 2)


def test_every_episode_is_the_same_in_any_number_of_environments() -> None:
    """With more environments, other episodes precede and accompany it."""
    found = []
    for count in (1, 2, 3, 5, 9):
        run = config("CartPole-v1", epsilon=0.7, environments=count)
        found.append(evaluate(Idle(), environments_of(run, 9), run, 7, CPU, 9))
    assert len(set(found[0].lengths)) > 3
    for other in found[1:]:
        assert (other.returns, other.lengths) == (found[0].returns, found[0].lengths)


class Recording:
    """An environment that keeps the actions of each episode."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.episodes: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        self.episodes.append([])
        return self._environment.reset(seed)

    def step(self, action: int) -> TimeStep:
        self.episodes[-1].append(action)
        return self._environment.step(action)


def test_episodes_draw_different_actions() -> None:
    run = config("CartPole-v1", epsilon=1.0, environments=2)
    recordings = [Recording(environment) for environment in environments_of(run, 6)]
    evaluate(Idle(), recordings, run, 7, CPU, 6)  # type: ignore[arg-type]
    drawn = {tuple(actions[:8]) for one in recordings for actions in one.episodes}
    assert len(drawn) == 6


def test_episodes_end_at_different_times_and_are_reported_in_order() -> None:
    found = score(config("CartPole-v1", epsilon=1.0, environments=4), 10)
    assert len(found.returns) == len(found.lengths) == 10
    assert len(set(found.lengths)) > 3
    assert found.returns == [float(length) for length in found.lengths]  # a reward of 1 per step


class Counting(nn.Module):
    """Records the shape of every call."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, ...]] = set()

    def forward(self, states: Tensor) -> Tensor:
        self.shapes.add(tuple(states.shape))
        return torch.zeros(len(states), 2)


def test_every_call_has_a_row_for_each_environment() -> None:
    run = config("CartPole-v1", environments=4)
    network, environments = Counting(), environments_of(run, 6)
    evaluate(network, environments, run, 0, CPU, 6)
    assert network.shapes == {(4, 1, 4)}


def test_one_environment_has_the_rows_of_the_runs_evaluations() -> None:
    """So that a video, or `proxrl eval` of few episodes, has the bits of the run's own."""
    run = config("CartPole-v1", environments=4, episodes=6)
    network = Counting()
    evaluate(network, environments_of(run, 1), run, 0, CPU, 1)
    assert network.shapes == {(4, 1, 4)}


def test_no_more_environments_than_episodes_are_made() -> None:
    assert side_by_side(config(environments=4), 3) == 3
    assert side_by_side(config(environments=4), 9) == 4
    assert side_by_side(config(environments=4, episodes=2)) == 2
    assert side_by_side(config(environments=4, episodes=2, min_steps=100)) == 4


@pytest.mark.parametrize(
    ("env", "limit", "said"),
    [
        ("MinAtar/Breakout-v1", None, "evaluation episodes are truncated after 27,000 steps"),
        ("MinAtar/Breakout-v1", 500, ""),
        ("ALE/Pong-v5", 500, ""),
        ("CartPole-v1", None, ""),
    ],
)
def test_a_cap_that_nothing_declares_is_said(env: str, limit: int | None, said: str) -> None:
    run = config(env).override({"protocol.max_episode_steps": limit})
    line = no_time_limit(scoring_environment(run), run)
    assert said in line
    assert bool(line) == bool(said)


def test_it_stops_when_asked() -> None:
    asked = iter([False] * 5)
    with pytest.raises(Interrupted):
        score(config(), 4, stop=lambda: next(asked, True))


def test_the_first_environment_is_filmed_to_its_last_picture() -> None:
    run = config(environments=1)
    environments = environments_of(run, 1)
    spec = environments[0].observation
    network = build_network(spec, environments[0].actions, run.network, 0, run.head)
    pictures: list[np.ndarray] = []
    found = evaluate(network, environments, run, 0, CPU, 1, watch=pictures.append)
    assert len(pictures) == found.lengths[0] + 1


@pytest.mark.parametrize("environments", [1, 3])
def test_further_episodes_are_played_until_there_are_enough_steps(environments: int) -> None:
    """As few as needed, by number, whichever end first; `episodes` overrides."""
    run = config("CartPole-v1", epsilon=1.0, environments=environments, episodes=2, min_steps=150)
    found = score(run, None)
    assert sum(found.lengths) >= 150 > sum(found.lengths[:-1])
    assert len(found.lengths) > 2
    assert found.protocol["min_steps"] == 150
    assert len(score(run, 2).lengths) == 2
