"""Any Gymnasium environment with discrete actions.

uint8 and boolean arrays of two or three dimensions are images, and so are bounded floats of three;
they are kept as images, channels last. Every other observation (vectors, discrete states,
dictionaries) is flattened to a float32 vector.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from proxrl.config import ProtocolConfig
from proxrl.errors import UserError
from proxrl.types import Array, End, ObservationSpec, TimeStep

MOST_ACTIONS = 2**15  # replay and journal store actions in 16 bits


class Gym:
    """One environment; every episode has its own seed."""

    def __init__(self, env: str, made: "gymnasium.Env[Any, Any]", protocol: ProtocolConfig) -> None:
        if not isinstance(made.action_space, spaces.Discrete):
            raise UserError(
                f"{env} has action space {made.action_space}: only discrete actions "
                "(gymnasium.spaces.Discrete) are supported"
            )
        if made.action_space.n > MOST_ACTIONS:
            raise UserError(
                f"{env} has {made.action_space.n:,} actions: must be at most {MOST_ACTIONS:,}"
            )
        self._env = made
        self._space = made.observation_space
        self._is_image, self._channels_first = _image_layout(self._space)
        self.first_action = int(made.action_space.start)
        self.raw_shape = self._space.shape
        self.actions = int(made.action_space.n)
        self.observation = _observation_spec(env, self._space, protocol.stack, self._is_image)

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        observation, _ = self._env.reset(seed=int(seed.generate_state(1)[0]))
        return TimeStep(self.encode(observation), 0.0, End.NO, game_over=False)

    def step(self, action: int) -> TimeStep:
        raw, reward, terminated, truncated, _ = self._env.step(self.first_action + action)
        end = End.TERMINATED if terminated else End.TRUNCATED if truncated else End.NO
        return TimeStep(self.encode(raw), float(reward), end, end != End.NO)

    def render(self) -> Array:
        try:
            picture: Any = self._env.render()
        except (gymnasium.error.Error, NotImplementedError) as error:
            why = str(error) or "it has no render()"
            raise UserError(f"cannot render this environment: {why}") from None
        if not isinstance(picture, np.ndarray):
            raise UserError("cannot render this environment: it has no rgb_array render mode")
        if picture.dtype != np.uint8:
            picture = (np.clip(picture, 0.0, 1.0) * 255).astype(np.uint8)
        drawn: Array = picture
        return drawn

    def close(self) -> None:
        self._env.close()

    def encode(self, raw: Any) -> Array:
        if self._is_image:
            # A copy: some environments reuse one array.
            image: Array = np.array(raw, dtype=self.observation.dtype)
            return image.transpose(1, 2, 0) if self._channels_first else image
        vector: Array = np.asarray(spaces.flatten(self._space, raw), dtype=np.float32)
        return vector


def _image_layout(space: "spaces.Space[Any]") -> tuple[bool, bool]:
    """(is it an image, are its channels first)."""
    if not isinstance(space, spaces.Box) or 0 in space.shape:
        return False, False
    shape = space.shape
    few_first = len(shape) == 3 and shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4)
    if space.dtype in (np.uint8, np.bool_):
        return len(shape) in (2, 3), few_first
    bounded = bool(np.isfinite(space.high).all()) and float(np.max(space.high)) > 0
    return len(shape) == 3 and bounded and np.issubdtype(space.dtype, np.floating), few_first


def _observation_spec(
    env: str, space: "spaces.Space[Any]", stack: int, is_image: bool
) -> ObservationSpec:
    if is_image:
        assert isinstance(space, spaces.Box)
        shape = space.shape
        if _image_layout(space)[1]:
            shape = (*shape[1:], shape[0])
        dtype = "uint8" if space.dtype in (np.uint8, np.bool_) else "float32"
        return ObservationSpec(shape, dtype, stack, high=float(np.max(space.high)))
    if not _is_flattenable(space):
        raise UserError(f"{env} has observation space {space}, which cannot be flattened")
    if not spaces.flatdim(space):
        raise UserError(f"{env} has observation space {space}, which is empty")
    return ObservationSpec((spaces.flatdim(space),), "float32", stack)


def _is_flattenable(space: "spaces.Space[Any]") -> bool:
    try:
        return bool(space.is_np_flattenable)
    except NotImplementedError:  # custom spaces may not implement it
        return False
