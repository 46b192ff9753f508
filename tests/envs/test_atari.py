"""Atari compared with Gymnasium's wrappers, and independent episodes."""

from dataclasses import replace

import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing

from proxrl.config import ProtocolConfig
from proxrl.envs import Episodes, make
from proxrl.envs.atari import Atari
from proxrl.types import Array, End

DOPAMINE = ProtocolConfig(stack=4, frame_skip=4, sticky_actions=0.25)
STEADY = ProtocolConfig(stack=4, frame_skip=4, sticky_actions=0.0)


def seed(number: int = 0) -> np.random.SeedSequence:
    return np.random.SeedSequence(number)


@pytest.mark.parametrize(
    ("game", "skip", "size", "gray"),
    [
        ("Breakout", 4, 84, True),
        ("Pong", 4, 84, True),
        ("SpaceInvaders", 4, 84, True),
        ("Pong", 2, 84, True),
        ("Pong", 1, 84, True),
        ("SpaceInvaders", 4, 64, True),
        ("Breakout", 4, 96, False),
        ("Pong", 1, 84, False),
    ],
)
def test_frames_and_rewards_are_gymnasiums(game: str, skip: int, size: int, gray: bool) -> None:
    """Same actions, no stickiness: every frame and reward equals that of `AtariPreprocessing`."""
    protocol = replace(STEADY, frame_skip=skip, frame_size=size, grayscale=gray)
    mine = make(f"ALE/{game}-v5", protocol)
    raw = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    theirs = AtariPreprocessing(
        raw, noop_max=0, frame_skip=skip, screen_size=size, grayscale_obs=gray
    )
    assert mine.raw_shape == mine.observation.shape == theirs.observation_space.shape
    actions = np.random.default_rng(0).integers(mine.actions, size=400)

    now = mine.reset(seed())
    frame, _ = theirs.reset(seed=0)
    np.testing.assert_array_equal(now.observation, frame)
    rewards = 0.0
    for action in actions:
        now = mine.step(int(action))
        frame, reward, terminated, _, _ = theirs.step(int(action))
        np.testing.assert_array_equal(now.observation, frame)
        assert now.reward == reward
        assert now.game_over == terminated
        rewards += abs(now.reward)
        if terminated:
            break
    assert rewards > 0, "a game without rewards compares nothing"


class Slow:
    """Dopamine's rules one emulator frame at a time, on Gymnasium's unprocessed environment: a lost
    life ends the skip, and its observation is made from the available screens."""

    def __init__(self, game: str) -> None:
        raw = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
        self.raw, self.ale = raw, raw.unwrapped.ale  # type: ignore[attr-defined]
        self.last_two: dict[int, Array] = {}

    def reset(self) -> Array:
        self.raw.reset(seed=0)
        self.lives = self.ale.lives()
        screen = self.ale.getScreenGrayscale()
        self.last_two = {2: np.zeros_like(screen), 3: screen}
        return self.observation()

    def step(self, action: int) -> tuple[Array, float, bool, int]:
        """Observation, reward, whether a life or the game was lost, frames played."""
        total = 0.0
        for frame in range(4):
            _, reward, over, _, _ = self.raw.step(action)
            total += float(reward)
            lives, self.lives = self.lives, self.ale.lives()
            if over or self.lives < lives:
                return self.observation(), total, True, frame + 1
            self.last_two[frame] = self.ale.getScreenGrayscale()
        return self.observation(), total, False, 4

    def observation(self) -> Array:
        screen = np.maximum(self.last_two[2], self.last_two[3])
        small: Array = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
        return small


@pytest.mark.parametrize(
    "game",
    [
        *("Breakout", "Qbert"),
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("MsPacman", "Seaquest", "SpaceInvaders")
        ),
    ],
)
def test_a_terminal_life_loss_ends_the_frame_skip(game: str) -> None:
    """Frames, rewards and ends equal, until five lives were lost in the middle of a skip."""
    mine = make(f"ALE/{game}-v5", replace(STEADY, life_loss_terminal=True))
    theirs = Slow(game)
    generator = np.random.default_rng(0)
    np.testing.assert_array_equal(mine.reset(seed()).observation, theirs.reset())
    cut_short = 0
    for _ in range(10_000):
        action = int(generator.integers(mine.actions))
        now = mine.step(action)
        frame, reward, terminated, frames = theirs.step(action)
        np.testing.assert_array_equal(now.observation, frame)
        assert now.reward == reward
        assert now.end == (End.TERMINATED if terminated else End.NO)
        assert now.game_over == theirs.ale.game_over()
        cut_short += frames < 4 and not now.game_over
        if cut_short == 5:
            return
        if now.game_over:
            np.testing.assert_array_equal(mine.reset(seed()).observation, theirs.reset())
    pytest.fail("too few lives were lost in the middle of a skip")


def lived(environment: Atari, number: int, actions: Array) -> list[tuple[Array, float]]:
    episodes = Episodes(environment, seed=3, stream=(0,))
    return [(now.observation, now.reward) for now in episodes.relive(number, actions.tolist())]


@pytest.mark.parametrize("game", ["Breakout", "Seaquest"])
def test_an_episode_is_independent_of_earlier_ones(game: str) -> None:
    environment = make(f"ALE/{game}-v5", DOPAMINE)
    assert isinstance(environment, Atari)
    actions = np.random.default_rng(1).integers(environment.actions, size=120)
    first = lived(environment, 7, actions)
    episodes = Episodes(environment, seed=3, stream=(0,))
    for _ in range(6):  # whole games in between: ALE's reset does not undo all of them
        now = episodes.begin()
        while not now.game_over:
            now = episodes.step(1 + len(episodes.actions) % (environment.actions - 1))
    again = lived(environment, 7, actions)
    fresh = make(f"ALE/{game}-v5", DOPAMINE)
    assert isinstance(fresh, Atari)
    for other in (again, lived(fresh, 7, actions)):
        for (frame, reward), (its_frame, its_reward) in zip(first, other, strict=True):
            np.testing.assert_array_equal(frame, its_frame)
            assert reward == its_reward
    another = lived(environment, 8, actions)
    assert any(not np.array_equal(a, b) for (a, _), (b, _) in zip(first, another, strict=True))


def test_sticky_actions_repeat_a_quarter_of_the_frames() -> None:
    """Counted at the emulator: frames that executed a different action than requested."""
    environment = Atari("ALE/Pong-v5", DOPAMINE)
    executed: list[int] = []

    class Recorder:
        def __init__(self, ale: object) -> None:
            self._ale = ale

        def act(self, action: object) -> float:
            executed.append(environment._action_set.index(action))
            return self._ale.act(action)  # type: ignore[attr-defined, no-any-return]

        def __getattr__(self, name: str) -> object:
            return getattr(self._ale, name)

    environment._ale = Recorder(environment._ale)
    environment.reset(seed())
    asked = []
    for step in range(700):  # before a game can be lost
        environment.step(step % 2)
        asked += [step % 2] * 4
    # An action requested for four frames is late with probability 1/4, 1/16, 1/64, 1/256.
    late = np.mean(np.array(executed) != np.array(asked))
    assert late == pytest.approx((1 / 4 + 1 / 16 + 1 / 64 + 1 / 256) / 4, abs=0.015)


def test_a_lost_life_is_terminal_only_on_request() -> None:
    ends = {}
    for terminal in (False, True):
        protocol = ProtocolConfig(stack=4, frame_skip=4, life_loss_terminal=terminal)
        environment = make("ALE/Breakout-v5", protocol)
        environment.reset(seed())
        steps = [environment.step(1) for _ in range(200)]
        ends[terminal] = [now for now in steps if now.end != End.NO]
    assert all(now.game_over for now in ends[False])
    assert any(now.end == End.TERMINATED and not now.game_over for now in ends[True])
