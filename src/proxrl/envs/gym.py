"""Any Gymnasium environment with discrete actions.

uint8 and boolean arrays of two or three dimensions are images, and so are bounded floats of three;
they are kept as images, channels last. Every other observation (vectors, discrete states,
dictionaries) is flattened to a float32 vector. What the environment returns is checked (checks.py).
"""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from proxrl.config import ProtocolConfig
from proxrl.envs import checks
from proxrl.errors import EnvironmentFault, UserError
from proxrl.types import Array, End, ObservationSpec, TimeStep

MOST_ACTIONS = 2**15  # replay and journal store actions in 16 bits
CHECKED_EPISODES = 3  # whose observations are compared with the bounds of their space
DISCRETE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)  # checked on every step


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
        if not isinstance(made.observation_space, spaces.Space):
            raise UserError(f"{env} has observation space {made.observation_space}: not a space")
        self._env = made
        self._name = env
        self._space = made.observation_space
        self._is_image, self._channels_first = _image_layout(self._space)
        self._is_discrete = isinstance(self._space, DISCRETE)
        self._begun = 0  # episodes
        self.time_limit = made.spec.max_episode_steps if made.spec is not None else None
        self.first_action = int(made.action_space.start)
        self.raw_shape = self._space.shape
        self.actions = int(made.action_space.n)
        self.observation = _observation_spec(env, self._space, protocol.stack, self._is_image)
        self._is_float = self.observation.dtype == "float32"

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        number = int(seed.generate_state(1)[0])
        try:
            with checks.staying(), checks.calling("reset"):
                answer = self._env.reset(seed=number)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise checks.wrong_answer("reset", answer, "observation, info")
            self._begun += 1
            return TimeStep(self._observed(answer[0]), 0.0, End.NO, game_over=False)
        except EnvironmentFault as fault:
            raise self._named(fault) from fault.__cause__

    def step(self, action: int) -> TimeStep:
        try:
            return self._step(action)
        except EnvironmentFault as fault:
            raise self._named(fault) from fault.__cause__

    def _step(self, action: int) -> TimeStep:
        try:
            answer = self._env.step(self.first_action + action)
        except checks.PASSED_ON:
            raise
        except checks.OF_THE_ENVIRONMENT as error:
            raise checks.raised("step", error) from error
        if not isinstance(answer, tuple) or len(answer) != 5:
            names = "observation, reward, terminated, truncated, info"
            raise checks.wrong_answer("step", answer, names)
        raw, reward, terminated, truncated, _ = answer
        if type(reward) is not float or not -checks.LARGEST <= reward <= checks.LARGEST:
            reward = checks.number(reward)
        end = End.NO
        if terminated is not False or truncated is not False:
            over, cut = checks.flag(terminated, "terminated"), checks.flag(truncated, "truncated")
            end = End.TERMINATED if over else End.TRUNCATED if cut else End.NO
        return TimeStep(self._observed(raw), reward, end, end != End.NO)

    def _named(self, fault: EnvironmentFault) -> EnvironmentFault:
        return EnvironmentFault(f"{self._name}: {fault}")

    def render(self) -> Array:
        try:
            picture: Any = self._env.render()
        except (gymnasium.error.Error, NotImplementedError) as error:
            why = " ".join(str(error).split()) or "it has no render()"
            raise UserError(f"cannot render {self._name}: {why}") from None
        except checks.OF_THE_ENVIRONMENT as error:
            raise UserError(f"cannot render {self._name}: {checks.raised('render', error)}") from (
                error
            )
        if not isinstance(picture, np.ndarray):
            raise UserError(f"cannot render {self._name}: it has no rgb_array render mode")
        if picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
            raise UserError(
                f"cannot render {self._name}: render() returned an array of shape {picture.shape}, "
                "not [height, width, 3]"
            )
        if picture.dtype != np.uint8:
            picture = (np.clip(picture, 0.0, 1.0) * 255).astype(np.uint8)
        drawn: Array = picture
        return drawn

    def close(self) -> None:
        """Close the environment; an exception is only logged, because the run is complete."""
        try:
            self._env.close()
        except checks.OF_THE_ENVIRONMENT as error:
            checks.warn_once(self._name, f"{checks.raised('close', error)}; ignored")

    def _observed(self, raw: Any) -> Array:
        """The encoded observation, after checks of its shape, dtype and, at first, its range."""
        if (
            raw.__class__ is not np.ndarray
            or raw.shape != self.raw_shape
            or raw.dtype != self._space.dtype
        ):
            if self._is_image:
                assert isinstance(self._space, spaces.Box)
                checks.require_image(self._space, raw)
            else:
                checks.require_valid(self._space, raw)
        elif self._is_discrete:
            checks.require_valid(self._space, raw)
        if self._begun <= CHECKED_EPISODES:
            self._check_range(raw)
        encoded = self.encode(raw)
        if self._is_float:
            flat = encoded.reshape(-1)
            if not math.isfinite(flat.dot(flat)):  # a value is not finite, or huge
                checks.require_finite(flat)
        return encoded

    def _check_range(self, raw: Any) -> None:
        outside = checks.out_of_range(self._space, raw)
        if outside is None:
            return
        if self._is_image:  # networks scale images by their upper bound
            raise EnvironmentFault(f"the observation has the value {outside}")
        checks.warn_once(self._name, f"an observation has the value {outside}")

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
