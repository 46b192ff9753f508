"""DQN Pro in Stable-Baselines3: its DQN in every respect, with the pull in its optimizer.

    from proxrl.integrations.stable_baselines3 import DQNPro

    model = DQNPro("CnnPolicy", env, c=0.2)               # the paper's c-tilde, or
    model = DQNPro("CnnPolicy", env, pull_per_sync=1.0)   # kappa = (lr/c) x updates per sync

Say `c` or `pull_per_sync`; neither means kappa = 1, the paper's DQN Pro (docs/drop-in.md). c is
computed from kappa once, with the learning rate that training starts with; a schedule then acts
on step and pull alike. c = inf is plain DQN, bit for bit.

Besides DQN's own values it logs `train/target_distance`, ||w - theta||: just before the last sync
(the size of that target update), or for Polyak targets at the time of logging.
"""

import functools
import math
from typing import Any, ClassVar, Self

from proxrl.integrations.versions import require

require("stable-baselines3")

from stable_baselines3 import DQN  # noqa: E402
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm  # noqa: E402
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit  # noqa: E402

from proxrl.proximal import Proximal, c_from_pull_per_sync, not_both, pull_strength  # noqa: E402

PAPER_PULL_PER_SYNC = 1.0


def updates_per_sync(model: OffPolicyAlgorithm) -> float:
    """Gradient updates between two target syncs, by the model's own settings.

    A sync comes every `target_update_interval // n_envs` calls of `env.step`, learning every
    `train_freq` calls; where learning is rarer, only the first sync after it moves the target. With
    Polyak targets it is the time constant: the same divided by the share that is moved.
    """
    frequency = model.train_freq
    assert isinstance(frequency, TrainFreq)  # SB3 converts it when it sets the model up
    if frequency.unit != TrainFrequencyUnit.STEP:
        raise ValueError(
            f"train_freq = ({frequency.frequency}, 'episode') leaves open how many updates a sync "
            "has: say c instead of pull_per_sync"
        )
    if not 0.0 < model.tau <= 1.0:
        raise ValueError(f"tau = {model.tau} leaves open what a sync is: say c")
    calls = calls_per_sync(model)
    syncs = max(1, frequency.frequency // calls)  # from one phase of learning to the next
    moved = 1.0 - (1.0 - model.tau) ** syncs
    if model.gradient_steps < 0:  # as many as transitions were collected
        updates_per_call = float(model.n_envs)
    else:
        updates_per_call = model.gradient_steps / frequency.frequency
    return max(calls, frequency.frequency) * updates_per_call / moved


def calls_per_sync(model: Any) -> int:
    """Calls of `env.step` between two syncs (SB3's `DQN._on_step`)."""
    calls: int = max(model.target_update_interval // model.n_envs, 1)
    return calls


class ProximalTerm(OffPolicyAlgorithm):
    """What DQN and QRDQN gain; mixed in before the one or the other."""

    target_network: ClassVar[str]  # the policy's attribute that holds it
    _n_calls: int  # of env.step, counted by SB3
    _n_updates: int

    def __init__(
        self,
        *args: Any,
        c: float | None = None,
        pull_per_sync: float | None = None,
        **kwargs: Any,
    ) -> None:
        not_both(c, pull_per_sync)
        if c is None and pull_per_sync is None:
            pull_per_sync = PAPER_PULL_PER_SYNC
        self.pull_per_sync = pull_per_sync
        self._c = math.inf if c is None else c
        self.target_distance: float | None = None  # before the first sync it has no size
        self._synced_updates = 0  # that had been done at the last sync
        super().__init__(*args, **kwargs)

    @property
    def c(self) -> float:
        """The paper's c-tilde in force; it may be changed while training."""
        return self._c

    @c.setter
    def c(self, value: float) -> None:
        pull_strength(self.lr_schedule(1.0), value)
        self._c, self.pull_per_sync = value, None
        self.proximal.c = value

    @property
    def proximal(self) -> Proximal:
        """The optimizer: SB3's own inside the pull."""
        optimizer = self.policy.optimizer
        assert isinstance(optimizer, Proximal)
        return optimizer

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.pull_per_sync is not None:
            updates = updates_per_sync(self)
            if self.pull_per_sync > updates:
                raise ValueError(
                    f"pull_per_sync = {self.pull_per_sync:g} is more than {updates:g} updates per "
                    "sync can do: say a smaller one, or c (inf: no pull)"
                )
            self._c = c_from_pull_per_sync(self.pull_per_sync, self.lr_schedule(1.0), updates)
        getattr(self.policy, self.target_network).requires_grad_(False)  # SB3 never trains it
        # The policy's own: a copy or a pickle of the policy must not drag the model along.
        anchor = functools.partial(getattr, self.policy, self.target_network)
        self.policy.optimizer = Proximal(self.policy.optimizer, anchor, self._c)
        self.proximal.distance()  # a misfit shows now, not while training

    def _on_step(self) -> None:
        due = (self._n_calls + 1) % calls_per_sync(self) == 0  # the sync comes in the last line
        if due and getattr(self, self.target_network) is not getattr(
            self.policy, self.target_network
        ):
            name = self.target_network
            raise ValueError(f"model.{name} is another than model.policy.{name}: replace both")
        if due and self.tau == 1.0 and self._n_updates > self._synced_updates:
            self._synced_updates = self._n_updates
            self.target_distance = self.proximal.distance()
        super()._on_step()

    def dump_logs(self) -> None:
        if self.tau != 1.0:
            self.target_distance = self.proximal.distance()
        if self.target_distance is not None:
            self.logger.record("train/target_distance", self.target_distance)
        super().dump_logs()

    def set_parameters(self, *args: Any, **kwargs: Any) -> None:
        super().set_parameters(*args, **kwargs)
        self.proximal.c = self._c  # a setting of this model, not of the weights it was given

    @classmethod
    def load(cls, *args: Any, **kwargs: Any) -> Self:
        """SB3's; `c` or `pull_per_sync` given here replaces what the file says of either."""
        c, pull_per_sync = kwargs.pop("c", None), kwargs.pop("pull_per_sync", None)
        not_both(c, pull_per_sync)
        if c is not None or pull_per_sync is not None:
            kwargs |= {"_c": c, "pull_per_sync": pull_per_sync}
        return super().load(*args, **kwargs)


class DQNPro(ProximalTerm, DQN):
    """Stable-Baselines3's `DQN` with `c` or `pull_per_sync`."""

    target_network = "q_net_target"
