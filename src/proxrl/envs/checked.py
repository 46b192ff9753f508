"""An `Environment` of a third-party suite, checked on every step as one of Gymnasium is."""

from typing import Any

import numpy as np

from proxrl.envs import checks
from proxrl.envs.gym import MOST_ACTIONS
from proxrl.envs.journal import Environment
from proxrl.errors import EnvironmentFault, UserError
from proxrl.types import Array, End, ObservationSpec, TimeStep


class Checked:
    """One environment; what it returns or raises is an `EnvironmentFault` if it is invalid."""

    def __init__(self, env: str, made: Environment) -> None:
        try:
            self.observation, self.actions = made.observation, made.actions
            self.first_action, self.raw_shape = made.first_action, made.raw_shape
        except AttributeError as error:
            raise UserError(f"cannot use {env}: {error}") from None
        if not isinstance(self.observation, ObservationSpec):
            raise UserError(f"cannot use {env}: its observation is not an ObservationSpec")
        if not 1 <= self.actions <= MOST_ACTIONS:
            raise UserError(f"{env} has {self.actions:,} actions: must be in [1, {MOST_ACTIONS:,}]")
        self._made, self._name = made, env
        self._dtype = np.dtype(self.observation.dtype)

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        with checks.staying():
            return self._checked("reset", seed)

    def step(self, action: int) -> TimeStep:
        return self._checked("step", action)

    def _checked(self, method: str, argument: Any) -> TimeStep:
        try:
            with checks.calling(method):
                step = getattr(self._made, method)(argument)
            if not isinstance(step, TimeStep):
                raise EnvironmentFault(
                    f"{method}() returned {checks.described(step)}: must return a TimeStep"
                )
            self._check(step)
            return step._replace(reward=checks.number(step.reward))
        except EnvironmentFault as fault:
            raise EnvironmentFault(f"{self._name}: {fault}") from fault.__cause__

    def _check(self, step: TimeStep) -> None:
        raw, spec = step.observation, self.observation
        if not isinstance(raw, np.ndarray):
            raise EnvironmentFault(f"the observation is {checks.described(raw)}: must be an array")
        if raw.shape != spec.shape or raw.dtype != self._dtype:
            raise EnvironmentFault(
                f"the observation is {raw.dtype} of shape {raw.shape}: "
                f"its spec declares {spec.dtype} of shape {spec.shape}"
            )
        if self._dtype.kind == "f":
            checks.require_finite(raw)
        if step.end not in tuple(End):
            raise EnvironmentFault(f"end is {checks.described(step.end)}: must be an End")
        if not checks.flag(step.game_over, "game_over") and step.end == End.TRUNCATED:
            raise EnvironmentFault("game_over is False at a truncated step: must be True")

    def encode(self, raw: Any) -> Array:
        return self._made.encode(raw)

    def render(self) -> Array:
        return self._made.render()

    def close(self) -> None:
        """Close the environment; an exception is only logged, because the run is complete."""
        try:
            self._made.close()
        except checks.OF_THE_ENVIRONMENT as error:
            checks.warn_once(self._name, f"{checks.raised('close', error)}; ignored")
