"""What a proximal rule is: the places of an update where it may act."""

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.config import RuleOptions, RunConfig
from proxrl.config.options import read_options
from proxrl.errors import UserError
from proxrl.proximal.pull import c_from_pull_per_sync
from proxrl.types import Batch, State


class Moments(Protocol):
    """The optimizer as a rule sees it: Adam's moments, and how the weights are laid out.

    Weights, anchor and moments are lists of vectors, nearly always of one (agents/weights.py).
    """

    mean: list[Tensor]  # running mean of the gradient, not bias-corrected
    square: list[Tensor]  # running mean of its square
    steps: list[Tensor]  # optimizer steps taken, one scalar for each vector
    betas: tuple[float, float]

    def views(self, vectors: list[Tensor]) -> dict[str, Tensor]:
        """Each parameter's part of the vectors, by its name and in its shape."""


class Rule:
    """A rule that does nothing (plain DQN): subclass it and override the places where you act."""

    Options: ClassVar[type[RuleOptions]] = RuleOptions
    """Frozen dataclass of the rule's options; `self.options` is one, from `proximal.options`."""
    group: ClassVar[str | None] = None
    """Built-in rules: the group of `ProximalConfig` that holds the options instead."""
    needs_syncs: ClassVar[bool] = False
    """The rule acts at syncs: Polyak targets are refused."""
    sets_kappa: ClassVar[bool] = False
    """The rule sets kappa itself: a finite c is refused."""
    draws: ClassVar[bool] = False
    """The rule draws random numbers from `self.generator`, whose state checkpoints hold."""

    options: RuleOptions
    generator: np.random.Generator  # set by the learner
    moments: Moments  # set by the learner
    loss: Callable[[Batch], Tensor]  # set by the learner: h(w) of a batch, w being what it is now

    def __init__(self, config: RunConfig) -> None:
        rule = config.proximal.rule
        if self.needs_syncs and config.target.rule == "polyak":
            raise UserError(f"proximal.rule = {rule} needs target.rule = periodic")
        if self.sets_kappa and math.isfinite(config.c):
            raise UserError(f"proximal.rule = {rule} sets kappa itself: leave c at inf, as in dqn")
        self.config = config
        self.c = config.c
        self.options = self.read_options(config)

    @classmethod
    def read_options(cls, config: RunConfig) -> RuleOptions:
        """The options as `config` has them, or a `UserError`. A subclass of a built-in rule with
        `Options` of its own has these."""
        own, rule = config.proximal.options, config.proximal.rule
        if cls.group is None or not isinstance(getattr(config.proximal, cls.group), cls.Options):
            return read_options(cls.Options, own, rule)
        if own:
            raise UserError(f"proximal.options: {rule} has the settings proximal.{cls.group}.*")
        options: RuleOptions = getattr(config.proximal, cls.group)
        return options

    def strength(self, kappa: float, rate: float) -> float:
        """alpha/c of a pull per sync, for `pull_` at the learning rate `rate`; at most 1."""
        alpha, updates = self.config.learner.learning_rate, self.config.updates_per_sync
        return min(1.0, rate / c_from_pull_per_sync(kappa, alpha, updates))

    def penalty(self, online: nn.Module, target: nn.Module, batch: Batch) -> Tensor | None:
        """A term to add to the loss."""
        return None

    def change_gradient(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        """After the backward pass, before the step."""

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        """With the gradient taken, before the optimizer's step of learning rate `rate`."""

    def synced(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        """After the target network moved."""

    def metrics(self) -> Mapping[str, Tensor | float]:
        """After each update, scalars to average over an interval of metrics.jsonl: `kappa` is
        logged as `rule/kappa`. Do not wait for a device here: return its tensors."""
        return {}

    def state(self) -> State:
        """What the next update depends on besides weights and config: tensors and plain values."""
        return {}

    def load(self, state: State) -> None:
        """Continue where `state` was taken."""

    def saved(self, prefix: str, vectors: list[Tensor]) -> State:
        """Vectors like the weights, for `state`: `PREFIX.PARAMETER` -> its part."""
        views = self.moments.views(vectors) if vectors else {}
        return {f"{prefix}.{name}": view for name, view in views.items()}

    def restored(self, prefix: str, state: State) -> list[Tensor]:
        """The vectors that were `saved`; an empty list if there were none."""
        if not any(name.startswith(f"{prefix}.") for name in state):
            return []
        vectors = [torch.zeros_like(mean) for mean in self.moments.mean]
        for name, view in self.moments.views(vectors).items():
            view.copy_(state[f"{prefix}.{name}"])
        return vectors
