"""The pull with a kappa that changes linearly: the plain baseline of every adaptive rule."""

from collections.abc import Mapping

from torch import Tensor

from proxrl.config import RunConfig, ScheduledOptions
from proxrl.proximal.pull import pull_
from proxrl.proximal.rules.base import Rule
from proxrl.types import State


class Scheduled(Rule):
    """kappa(t) = first + (last - first) min(1, t/steps), t agent steps after the first update."""

    Options = ScheduledOptions
    group = "scheduled"
    sets_kappa = True
    options: ScheduledOptions

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        learner = config.learner
        self._steps_per_update = learner.update_period_steps / learner.updates_per_step
        self._updates = 0
        self.kappa = self.options.first

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        first, last = self.options.first, self.options.last
        passed = min(1.0, self._updates * self._steps_per_update / self.options.steps)
        self.kappa = first + (last - first) * passed
        self._updates += 1
        pull_(weights, anchor, self.strength(self.kappa, rate))

    def metrics(self) -> Mapping[str, Tensor | float]:
        return {"kappa": self.kappa}

    def state(self) -> State:
        return {"updates": self._updates}

    def load(self, state: State) -> None:
        self._updates = state["updates"]
