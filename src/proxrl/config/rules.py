"""Options of the built-in proximal rules, one frozen dataclass each.

A rule declares its options as such a dataclass: fields with a type, a default and a docstring (the
help on the command line), and `problems`, which says which values are invalid. Those of the
built-in rules are groups of `ProximalConfig` (`--proximal.adaptive.smoothing 0.9`); those of other
rules are read from `proximal.options` (config/options.py). Knows nothing of torch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Problem = tuple[str, bool, str]  # (option, is it invalid, what would be valid)

PULLS = ("parameters", "accelerated", "metric")  # of a fixed c or pull per sync
SET_KAPPA = ("adaptive", "adaptive-layers", "scheduled")  # themselves: they have no fixed c
WITHOUT_BATCH = (*PULLS, *SET_KAPPA, "gradient")
BUILT_IN = (*WITHOUT_BATCH, "values")


@dataclass(frozen=True)
class RuleOptions:
    """The base of a rule's options; a rule without options has these."""

    def problems(self) -> Sequence[Problem]:
        """Which values are invalid, and what would be valid."""
        return ()


@dataclass(frozen=True)
class AdaptiveOptions(RuleOptions):
    """Rules adaptive and adaptive-layers: kappa from the signal-to-noise ratio of the gradient."""

    kappa_min: float = 0.0
    """Smallest pull per sync after the warm-up."""
    kappa_max: float = 1.0
    """Largest pull per sync (1: the paper's DQN Pro); 0 is plain DQN."""
    smoothing: float = 0.99
    """Weight of the past in the running mean of the signal, which is measured every 10 updates."""
    warmup_updates: int = 1_000
    """Updates before the first measurement; kappa is 0 until the sync after it. 1,000 is what
    Adam's v remembers."""

    def problems(self) -> Sequence[Problem]:
        finite = 0 <= self.kappa_max < math.inf
        return (
            ("kappa_max", not finite, "must be finite and not negative"),
            ("kappa_min", not 0 <= self.kappa_min <= self.kappa_max, "must be in [0, kappa_max]"),
            ("smoothing", not 0 <= self.smoothing < 1, "must be in [0, 1)"),
            ("warmup_updates", self.warmup_updates < 1, "must be at least 1"),
        )


@dataclass(frozen=True)
class ScheduledOptions(RuleOptions):
    """Rule scheduled: kappa changes linearly, then stays."""

    first: float = 0.0
    """Pull per sync at the first update."""
    last: float = 1.0
    """Pull per sync after `steps` (1: the paper's DQN Pro)."""
    steps: int = 500_000
    """Agent steps from the first to the last value, counted from the first update."""

    def problems(self) -> Sequence[Problem]:
        return (
            ("first", not 0 <= self.first < math.inf, "must be finite and not negative"),
            ("last", not 0 <= self.last < math.inf, "must be finite and not negative"),
            ("steps", self.steps < 1, "must be at least 1"),
        )


@dataclass(frozen=True)
class AcceleratedOptions(RuleOptions):
    """Rule accelerated: the pull towards an anchor that is extrapolated at each sync."""

    momentum_max: float = 1.0
    """Largest momentum of Nesterov's sequence, which rises from 0 to 1; 0 is the paper's pull."""
    monitored: bool = True
    """Use the target itself where the extrapolation increases the loss of a fixed batch."""

    def problems(self) -> Sequence[Problem]:
        return (("momentum_max", not 0 <= self.momentum_max <= 1, "must be in [0, 1]"),)


@dataclass(frozen=True)
class MetricOptions(RuleOptions):
    """Rule metric: the pull in a diagonal metric from Adam's second moments v."""

    power: float = 0.5
    """Weights are pulled in proportion to v ** power: 0.5 is Adam's own metric, 1 the diagonal of
    the empirical Fisher matrix, 0 the paper's pull."""

    def problems(self) -> Sequence[Problem]:
        return (("power", not 0 <= self.power <= 1, "must be in [0, 1]"),)
