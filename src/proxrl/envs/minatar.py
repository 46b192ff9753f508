"""MinAtar (Young & Tian 2019) through its Gymnasium ids, with episodes that stand alone.

MinAtar's `reset()` keeps the last action, so that its sticky actions leak from one episode into
the next; here it is cleared. MinAtar is GPL-3 and therefore an optional extra.
"""

from typing import Any

import gymnasium
import numpy as np

from proxrl.config import ProtocolConfig
from proxrl.types import Array, End, ObservationSpec, TimeStep

SCALE = 16  # pixels per cell in pictures


def make(env: str, protocol: ProtocolConfig, pictures: bool) -> "MinAtar":
    """As a suite makes it; pictures can always be had."""
    return MinAtar(env, protocol)


class MinAtar:
    """One game; observations [10, 10, channels] of zeros and ones."""

    def __init__(self, env: str, protocol: ProtocolConfig) -> None:
        made = gymnasium.make(
            env, sticky_action_prob=protocol.sticky_actions, disable_env_checker=True
        )
        self._env = made.unwrapped
        self._game: Any = self._env.game  # type: ignore[attr-defined]
        space = made.action_space
        assert isinstance(space, gymnasium.spaces.Discrete)
        shape = made.observation_space.shape
        assert shape is not None
        self.actions = int(space.n)
        self.first_action = 0
        self.raw_shape: tuple[int, ...] | None = shape
        self.observation = ObservationSpec(shape, "uint8", protocol.stack, high=1.0)

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        game, number = self._game, int(seed.generate_state(1)[0])
        if game.env.random is game.random:
            game.random.seed(number)  # as `game.seed` does, which makes a new generator: 100 us
        else:
            game.seed(number)
        game.reset()
        game.last_action = 0
        return TimeStep(game.state(), 0.0, End.NO, game_over=False)

    def step(self, action: int) -> TimeStep:
        observation, reward, terminated, _, _ = self._env.step(action)
        end = End.TERMINATED if terminated else End.NO
        return TimeStep(observation, float(reward), end, bool(terminated))

    def encode(self, raw: Any) -> Array:
        return np.asarray(raw, np.uint8)

    def render(self) -> Array:
        """Each channel in a colour of its own, the topmost channel winning."""
        state: Array = self._game.state()
        channels = state.shape[-1]
        hues = np.linspace(0.0, 1.0, channels, endpoint=False)
        colours = 0.5 + 0.5 * np.cos(2 * np.pi * (hues[:, None] + np.array([0.0, 1 / 3, 2 / 3])))
        palette = np.vstack([np.zeros(3), colours])
        top = (state * np.arange(1, channels + 1)).max(axis=-1)  # [10, 10]
        picture = (palette[top] * 255).astype(np.uint8)
        large: Array = picture.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
        return large

    def close(self) -> None:
        self._env.close()
