"""`adaptive` with a kappa for each parameter tensor."""

from collections.abc import Mapping

from torch import Tensor

from proxrl.config import RunConfig
from proxrl.proximal.kappa import signal_shares
from proxrl.proximal.pull import pull_
from proxrl.proximal.rules.adaptive import Adaptive


class AdaptiveLayers(Adaptive):
    """rho and kappa of each parameter tensor by itself; logged are the means over all weights, and
    kappa of each tensor (`rule/kappa/NAME`)."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._views: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None

    def measured(self) -> Tensor:
        return signal_shares(self.moments, together=False)

    def pull(self, weights: list[Tensor], anchor: list[Tensor], strengths: list[float]) -> None:
        online, target = self._own_views(weights, anchor)
        for name, strength in zip(online, strengths, strict=True):
            pull_([online[name]], [target[name]], strength)

    def _own_views(
        self, weights: list[Tensor], anchor: list[Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        if self._views is None:  # the vectors stay the same for a whole run
            self._views = (self.moments.views(weights), self.moments.views(anchor))
        return self._views

    def metrics(self) -> Mapping[str, Tensor | float]:
        if not self.kappas or self._views is None:
            return {"kappa": 0.0}
        parts, _ = self._views
        sizes = [part.numel() for part in parts.values()]
        return {
            "kappa": _mean(self.kappas, sizes),
            "signal": _mean(self.signals, sizes),
            **{f"kappa/{name}": kappa for name, kappa in zip(parts, self.kappas, strict=True)},
        }


def _mean(values: list[float], sizes: list[int]) -> float:
    return sum(v * size for v, size in zip(values, sizes, strict=True)) / sum(sizes)
