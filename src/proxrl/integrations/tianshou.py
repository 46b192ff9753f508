"""DQN Pro, C51 Pro and Rainbow Pro for Tianshou 2: its algorithms with the pull in the optimizer.

    from proxrl.integrations.tianshou import DQNPro

    algorithm = DQNPro(policy=policy, optim=AdamOptimizerFactory(lr=1e-4), target_update_freq=2000,
                       c=0.2)                        # the paper's c-tilde, or pull_per_sync=1.0,
                                                     # or c="adaptive"

Pass `c` or `pull_per_sync`; the default is the paper's kappa, 1 for DQN Pro and 2.5 for Rainbow Pro
if its period counts agent steps (docs/drop-in.md). Tianshou's `target_update_freq` counts updates,
so kappa = (lr/c) x target_update_freq, with the initial learning rate.

Training statistics have two more fields, `target_distance`: ||w - theta|| before the last sync, and
`kappa`, the current pull per sync.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from proxrl.integrations.versions import require

require("tianshou")

from tianshou.algorithm.modelfree.c51 import C51  # noqa: E402
from tianshou.algorithm.modelfree.dqn import DQN, QLearningOffPolicyAlgorithm  # noqa: E402
from tianshou.algorithm.modelfree.rainbow import RainbowDQN  # noqa: E402
from tianshou.algorithm.modelfree.reinforce import (  # noqa: E402
    LossSequenceTrainingStats,
    SimpleLossTrainingStats,
)
from torch import Tensor  # noqa: E402

from proxrl.proximal import (  # noqa: E402
    ADAPTIVE,
    AdaptiveOptions,
    Proximal,
    c_from_pull_per_sync,
    not_both,
    pull_strength,
)


@dataclass(kw_only=True)
class DQNProTrainingStats(SimpleLossTrainingStats):
    """DQN's, ||w - theta|| before the last sync, and the pull per sync."""

    target_distance: float
    kappa: float


@dataclass(kw_only=True)
class C51ProTrainingStats(LossSequenceTrainingStats):
    """C51's, ||w - theta|| before the last sync, and the pull per sync."""

    target_distance: float
    kappa: float


class ProximalTerm(QLearningOffPolicyAlgorithm[Any]):
    """Mixin for the algorithms; comes first in the bases."""

    paper_pull_per_sync: ClassVar[float] = 1.0
    training_stats: ClassVar[type[DQNProTrainingStats | C51ProTrainingStats]] = C51ProTrainingStats

    def __init__(
        self,
        *,
        c: float | str | None = None,
        pull_per_sync: float | None = None,
        adaptive: AdaptiveOptions | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        not_both(c, pull_per_sync)
        if not self.use_target_network:
            raise ValueError("target_update_freq = 0 means no target network: the pull needs one")
        inner = self.optim._optim
        if c is None:
            kappa = self.paper_pull_per_sync if pull_per_sync is None else pull_per_sync
            rate = float(inner.param_groups[0]["lr"])
            c = c_from_pull_per_sync(kappa, rate, self.target_update_freq)
        self.proximal = Proximal(
            inner, self._anchor, c, updates_per_sync=self.target_update_freq, adaptive=adaptive
        )
        self._c = c
        self.optim._optim = self.proximal
        self.target_distance = self.proximal.distance()  # raises now if the anchor does not match

    @property
    def c(self) -> float | str:
        """The current c-tilde, or "adaptive"; may be changed during training."""
        return self._c

    @c.setter
    def c(self, value: float | str) -> None:
        if value != ADAPTIVE:
            pull_strength(float(self.proximal.param_groups[0]["lr"]), float(value))
        self._c = self.proximal.c = value

    @property
    def kappa(self) -> float:
        """The current pull per sync."""
        return self.proximal.kappa or 0.0

    def _anchor(self) -> list[Tensor]:
        """The target parameter for each parameter of the optimizer.

        Parameters of the policy outside its model, such as C51's support, are frozen and have no
        counterpart: they are their own anchor.
        """
        assert self.model_old is not None
        self.model_old.requires_grad_(False)  # never trained
        model, target = self.policy.model.parameters(), self.model_old.parameters()
        counterpart = dict(zip(model, target, strict=True))
        return [counterpart.get(weight, weight) for weight in self.policy.parameters()]

    def _update_with_batch(self, batch: Any) -> Any:
        if self._iter % self.target_update_freq == 0:
            self.target_distance = self.proximal.distance()  # super() syncs first
        stats: Any = super()._update_with_batch(batch)  # type: ignore[safe-super]
        return self.training_stats(
            loss=stats.loss, target_distance=self.target_distance, kappa=self.kappa
        )

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        keys = super().load_state_dict(*args, **kwargs)
        self.proximal.c = self._c  # belongs to this algorithm, not to the loaded weights
        return keys


class DQNPro(ProximalTerm, DQN[Any]):
    """Tianshou's `DQN` with `c` (a number or "adaptive") or `pull_per_sync`."""

    training_stats = DQNProTrainingStats


class C51Pro(ProximalTerm, C51):
    """Tianshou's `C51` with `c` (a number or "adaptive") or `pull_per_sync`."""


class RainbowPro(ProximalTerm, RainbowDQN):
    """Tianshou's `RainbowDQN` with `c` (a number or "adaptive") or `pull_per_sync`."""

    paper_pull_per_sync = 2.5
