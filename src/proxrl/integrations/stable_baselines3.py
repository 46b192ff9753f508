"""DQN Pro for Stable-Baselines3: its DQN with the pull in the optimizer, otherwise unchanged.

    from proxrl.integrations.stable_baselines3 import DQNPro

    model = DQNPro("CnnPolicy", env, c=0.2)               # the paper's c-tilde, or
    model = DQNPro("CnnPolicy", env, pull_per_sync=1.0)   # kappa = (lr/c) x updates per sync, or
    model = DQNPro("CnnPolicy", env, c="adaptive")        # kappa from Adam's moments

Pass `c` or `pull_per_sync`; the default is kappa = 1, the paper's DQN Pro (docs/drop-in.md). c is
computed from kappa once, with the initial learning rate; a schedule then acts on step and pull
alike (c = "adaptive": on the step only). c = inf is bit-identical to plain DQN.

It also logs `train/target_distance`, ||w - theta||: just before the last sync (the size of that
target update), or for Polyak targets at the time of logging; and `train/kappa` where it is known.
"""

import contextlib
import functools
import math
from typing import Any, ClassVar, Self

from proxrl.integrations.versions import require

require("stable-baselines3")

from stable_baselines3 import DQN  # noqa: E402
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm  # noqa: E402
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit  # noqa: E402

from proxrl.proximal import (  # noqa: E402
    ADAPTIVE,
    AdaptiveOptions,
    Proximal,
    c_from_pull_per_sync,
    not_both,
    only_if_adaptive,
    pull_strength,
)

PAPER_PULL_PER_SYNC = 1.0


def updates_per_sync(model: OffPolicyAlgorithm) -> float:
    """Gradient updates between two target syncs, from the model's settings.

    A sync happens every `target_update_interval // n_envs` calls of `env.step`, learning every
    `train_freq` calls; if learning is less frequent, only the first sync after it moves the target.
    For Polyak targets it is the time constant: the same divided by the fraction moved.
    """
    frequency = model.train_freq
    assert isinstance(frequency, TrainFreq)  # SB3 converts it during setup
    if frequency.unit != TrainFrequencyUnit.STEP:
        raise ValueError(
            "the number of updates per sync is unknown with train_freq = "
            f"({frequency.frequency}, 'episode'): pass a number as c"
        )
    if not 0.0 < model.tau <= 1.0:
        raise ValueError(f"pull_per_sync is undefined for tau = {model.tau}: pass a number as c")
    calls = calls_per_sync(model)
    if model.gradient_steps < 0:  # one per collected transition
        updates_per_call = float(model.n_envs)
    else:
        updates_per_call = model.gradient_steps / frequency.frequency
    return max(calls, frequency.frequency) * updates_per_call / moved_per_sync(model)


def moved_per_sync(model: Any) -> float:
    """The share of the way by which the target moves between two updates (1: it is copied): tau, or
    more if it moves several times between two learning phases."""
    moves = max(1, model.train_freq.frequency // calls_per_sync(model))
    return float(1.0 - (1.0 - model.tau) ** moves)


def calls_per_sync(model: Any) -> int:
    """Calls of `env.step` between two syncs (SB3's `DQN._on_step`)."""
    calls: int = max(model.target_update_interval // model.n_envs, 1)
    return calls


def _updates_if_known(model: OffPolicyAlgorithm) -> float | None:
    with contextlib.suppress(ValueError):
        updates = updates_per_sync(model)
        return updates if updates >= 1.0 else None
    return None


class ProximalTerm(OffPolicyAlgorithm):
    """Mixin for DQN and QRDQN; comes first in the bases."""

    target_network: ClassVar[str]  # attribute of the policy
    _n_calls: int  # calls of env.step, counted by SB3
    _n_updates: int

    def __init__(
        self,
        *args: Any,
        c: float | str | None = None,
        pull_per_sync: float | None = None,
        adaptive: AdaptiveOptions | None = None,
        **kwargs: Any,
    ) -> None:
        not_both(c, pull_per_sync)
        only_if_adaptive(adaptive, c)
        if c is None and pull_per_sync is None:
            pull_per_sync = PAPER_PULL_PER_SYNC
        self.pull_per_sync = pull_per_sync
        self._c: float | str = math.inf if c is None else c
        self.adaptive = adaptive  # of c = "adaptive"
        self.target_distance: float | None = None  # None before the first sync
        self._synced_updates = 0  # updates until the last sync
        super().__init__(*args, **kwargs)

    @property
    def c(self) -> float | str:
        """The current c-tilde, or "adaptive"; may be changed during training."""
        return self._c

    @c.setter
    def c(self, value: float | str) -> None:
        if value != ADAPTIVE:
            pull_strength(self.lr_schedule(1.0), float(value))
        elif self.adaptive is not None:
            self.proximal.adaptive = self.adaptive
        self.proximal.c = value
        self._c, self.pull_per_sync = value, None

    @property
    def kappa(self) -> float | None:
        """The current pull per sync; None if the updates per sync are unknown."""
        return self.proximal.kappa

    @property
    def proximal(self) -> Proximal:
        """The optimizer, which wraps SB3's."""
        optimizer = self.policy.optimizer
        assert isinstance(optimizer, Proximal)
        return optimizer

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.pull_per_sync is not None:
            updates = updates_per_sync(self)
            if self.pull_per_sync > updates:
                raise ValueError(
                    f"pull_per_sync = {self.pull_per_sync:g} exceeds the {updates:g} updates per "
                    "sync: pass a smaller value, or c (inf: no pull)"
                )
            self._c = c_from_pull_per_sync(self.pull_per_sync, self.lr_schedule(1.0), updates)
        getattr(self.policy, self.target_network).requires_grad_(False)  # SB3 never trains it
        # Refers to the policy: copies and pickles of the policy must not include the model.
        anchor = functools.partial(getattr, self.policy, self.target_network)
        adaptive = self._c == ADAPTIVE
        self.policy.optimizer = Proximal(
            self.policy.optimizer,
            anchor,
            self._c,
            updates_per_sync=updates_per_sync(self) if adaptive else _updates_if_known(self),
            tau=moved_per_sync(self) if 0.0 < self.tau < 1.0 else 1.0,
            adaptive=self.adaptive if adaptive else None,
        )
        self.proximal.distance()  # raises now if the anchor does not match

    def _on_step(self) -> None:
        due = (self._n_calls + 1) % calls_per_sync(self) == 0  # super()._on_step() syncs
        if due and getattr(self, self.target_network) is not getattr(
            self.policy, self.target_network
        ):
            name = self.target_network
            raise ValueError(f"model.{name} is not model.policy.{name}: replace both")
        if due and self.tau == 1.0 and self._n_updates > self._synced_updates:
            self._synced_updates = self._n_updates
            self.target_distance = self.proximal.distance()
        super()._on_step()

    def dump_logs(self) -> None:
        if self.tau != 1.0:
            self.target_distance = self.proximal.distance()
        if self.target_distance is not None:
            self.logger.record("train/target_distance", self.target_distance)
        if self.kappa is not None:
            self.logger.record("train/kappa", self.kappa)
        super().dump_logs()

    def set_parameters(self, *args: Any, **kwargs: Any) -> None:
        super().set_parameters(*args, **kwargs)
        self.proximal.c = self._c  # belongs to this model, not to the loaded weights

    @classmethod
    def load(cls, *args: Any, **kwargs: Any) -> Self:
        """As in SB3; `c` or `pull_per_sync`, and `adaptive`, override the values of the file."""
        c, pull_per_sync = kwargs.pop("c", None), kwargs.pop("pull_per_sync", None)
        not_both(c, pull_per_sync)
        if c is not None or pull_per_sync is not None:
            kwargs |= {"_c": c, "pull_per_sync": pull_per_sync}
        model = super().load(*args, **kwargs)
        only_if_adaptive(kwargs.get("adaptive"), model.c)
        return model


class DQNPro(ProximalTerm, DQN):
    """Stable-Baselines3's `DQN` with `c` (a number or "adaptive") or `pull_per_sync`."""

    target_network = "q_net_target"
