"""How much of a DQN run's motion is signal: as the adaptive rules measure it, and otherwise.

    python -m benchmarks.signal --env MinAtar/Asterix-v1 --steps 120_000 --seed 100

For every 10,000 agent steps, means over updates of

    m^2/v       0.0526 for independent noise
    rho, rho+   the share of signal (proximal/kappa.py) and its positive part
    lag k       correlation of a gradient with the one k updates before it

and, of the displacement of w between two syncs, which contains all of Adam's steps,

    halves      correlation of its first half with its second: r/(2 + r) for signal-to-noise ratio r
    syncs       correlation with the displacement before

No pull acts.
"""

import argparse
import tempfile
from collections import deque
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from benchmarks.command_line import count, parser
from proxrl import Callback, presets, train
from proxrl.proximal.kappa import signal_shares
from proxrl.proximal.rules import Moments
from proxrl.training.loop import Trainer

LAGS = (1, 2, 5, 10, 20)
INTERVAL = 10_000  # agent steps


class Watch(Callback):
    """Prints a line per interval."""

    def __init__(self) -> None:
        self._updates = 0
        self._gradients: deque[Tensor] = deque(maxlen=max(LAGS))
        self._weights: deque[Tensor] = deque(maxlen=5)  # at the last syncs, and between them
        self._rows: list[list[float]] = []
        self._products: list[list[float]] = []

    def on_step(self, run: Trainer) -> None:
        learner = run.learner
        if learner.updates > self._updates:
            self._updates = learner.updates
            self._add_gradient(learner.weights[0].grad, learner.rule.moments)
            if self._updates % (run.config.updates_per_sync // 2) == 0:
                self._weights.append(learner.weights[0].detach().clone())
            if self._updates % run.config.updates_per_sync == 0 and len(self._weights) == 5:
                self._add_displacement()
        if run.step % INTERVAL == 0 and self._rows and self._products:
            ratio, share, positive, *lags = np.mean(self._rows, axis=0)
            crossed, first, second, following, whole = np.mean(self._products, axis=0)
            correlations = [*lags, 2 * crossed / (first + second), following / whole]
            text = " ".join(f"{one:+.3f}" for one in correlations)
            print(f"{run.step:>9,}  {ratio:.4f}  {share:+.4f}  {positive:.4f}  {text}", flush=True)
            self._rows.clear()
            self._products.clear()

    def _add_gradient(self, gradient: Tensor, moments: Moments) -> None:
        if len(self._gradients) == max(LAGS):
            share = signal_shares(moments, together=True).item()
            ratio = (moments.mean[0].square().sum() / moments.square[0].sum()).item()
            sizes = [(gradient.norm() * self._gradients[-lag].norm()).item() for lag in LAGS]
            dots = [(gradient @ self._gradients[-lag]).item() for lag in LAGS]
            lags = [dot / size if size else 0.0 for dot, size in zip(dots, sizes, strict=True)]
            self._rows.append([ratio, share, max(0.0, share), *lags])
        self._gradients.append(gradient.clone())

    def _add_displacement(self) -> None:
        """From the weights at three syncs and half-way between them."""
        start, _, synced, middle, now = self._weights
        first, second, before = middle - synced, now - middle, synced - start
        whole = first + second
        pairs = ((first, second), (first, first), (second, second), (whole, before), (whole, whole))
        self._products.append([(one @ other).item() for one, other in pairs])


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("--env", default="MinAtar/Asterix-v1")
    accepted.add_argument("--steps", type=count, default=120_000, help="of the run (120_000)")
    accepted.add_argument("--seed", type=int, default=100)
    return accepted.parse_args(argv)


def main(env: str, steps: int, seed: int) -> None:
    settings = {"seed": seed, "threads": 1, "logging.tensorboard": False}
    lags = " ".join(f"lag {lag:<2}" for lag in LAGS)
    print(f"     step  m^2/v   rho      rho+    {lags} halves syncs")
    with tempfile.TemporaryDirectory() as folder:
        config = presets.make("dqn", env, {**settings, "steps": steps})
        assert config.updates_per_sync % 2 == 0, "a period must have two halves"
        train(config, f"{folder}/run", callbacks=[Watch()])


if __name__ == "__main__":
    options = arguments()
    main(options.env, options.steps, options.seed)
