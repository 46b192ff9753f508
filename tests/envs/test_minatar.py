"""MinAtar: every episode is a function of its seed and actions only."""

import numpy as np
import pytest

from proxrl.config import ProtocolConfig
from proxrl.envs import Episodes, make
from proxrl.types import Array

GAMES = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
STICKY = ProtocolConfig(sticky_actions=0.5)  # high, to make a leak visible


def episode(episodes: Episodes, number: int, actions: Array) -> list[tuple[bytes, float]]:
    seen = []
    for now in episodes.relive(number, actions.tolist()):
        seen.append((np.asarray(now.observation).tobytes(), now.reward))
        if now.game_over:
            break
    return seen


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_is_independent_of_earlier_ones(game: str) -> None:
    environment = make(f"MinAtar/{game}-v1", STICKY)
    episodes = Episodes(environment, seed=0, stream=(0,))
    generator = np.random.default_rng(0)
    actions = generator.integers(environment.actions, size=200)
    alone = episode(episodes, 5, actions)
    for last_action in range(environment.actions):
        before = np.append(generator.integers(environment.actions, size=30), last_action)
        episode(episodes, 1 + last_action, before)
        assert episode(episodes, 5, actions) == alone
    others = [episode(episodes, number, actions) for number in range(6, 10)]
    assert any(other != alone for other in others)


def test_the_last_action_would_leak_without_clearing_it() -> None:
    """The bug that the test above guards against: MinAtar's reset keeps the last action."""
    environment = make("MinAtar/Breakout-v1", STICKY)
    environment.reset(np.random.SeedSequence(0))
    environment.step(1)
    environment._env.reset(seed=0)  # type: ignore[attr-defined]
    assert environment._env.game.last_action != 0  # type: ignore[attr-defined]
    environment.reset(np.random.SeedSequence(0))
    assert environment._env.game.last_action == 0  # type: ignore[attr-defined]


def test_rendering() -> None:
    environment = make("MinAtar/Asterix-v1", STICKY)
    environment.reset(np.random.SeedSequence(0))
    picture = environment.render()
    assert picture.shape == (160, 160, 3)
    assert picture.dtype == np.uint8
    assert picture.max() > 0
