"""The share of signal in the gradient, in a DQN run: what the adaptive rules measure.

    python -m benchmarks.signal [ENV] [steps] [seed]    (MinAtar/Asterix-v1 120000 100)

For every 10,000 agent steps: the mean of m^2/v (0.0526 for independent noise), of rho and of its
positive part (proximal/kappa.py), and the mean correlation of a gradient with the one 1, 2, 5, 10
and 20 updates before it. No pull acts.
"""

import sys
import tempfile
from collections import deque

import numpy as np
from torch import Tensor

from proxrl import Callback, presets, train
from proxrl.proximal.kappa import signal_shares
from proxrl.training.loop import Trainer

LAGS = (1, 2, 5, 10, 20)
INTERVAL = 10_000  # agent steps


class Watch(Callback):
    """Prints a line per interval."""

    def __init__(self) -> None:
        self._updates = 0
        self._past: deque[Tensor] = deque(maxlen=max(LAGS))
        self._rows: list[tuple[float, ...]] = []

    def on_step(self, run: Trainer) -> None:
        learner = run.learner
        if learner.updates > self._updates:
            self._updates = learner.updates
            self._measure(learner.weights[0].grad, learner.rule.moments)
        if run.step % INTERVAL == 0 and self._rows:
            ratio, share, positive, *lags = np.mean(self._rows, axis=0)
            correlations = " ".join(f"{lag:+.3f}" for lag in lags)
            print(f"{run.step:>9,}  {ratio:.4f}  {share:+.4f}  {positive:.4f}  {correlations}")
            self._rows.clear()

    def _measure(self, gradient: Tensor, moments: object) -> None:
        if len(self._past) == max(LAGS):
            share = signal_shares(moments, together=True).item()
            ratio = (moments.mean[0].square().sum() / moments.square[0].sum()).item()
            sizes = [(gradient.norm() * self._past[-lag].norm()).item() for lag in LAGS]
            dots = [(gradient @ self._past[-lag]).item() for lag in LAGS]
            lags = [dot / size if size else 0.0 for dot, size in zip(dots, sizes, strict=True)]
            self._rows.append((ratio, share, max(0.0, share), *lags))
        self._past.append(gradient.clone())


def main() -> None:
    given = sys.argv[1:]
    env, steps, seed = [*given, *("MinAtar/Asterix-v1", "120000", "100")[len(given) :]]
    settings = {"seed": int(seed), "threads": 1, "logging.tensorboard": False}
    lags = " ".join(f"lag {lag:<2}" for lag in LAGS)
    print(f"     step  m^2/v   rho      rho+    {lags}")
    with tempfile.TemporaryDirectory() as folder:
        config = presets.make("dqn", env, {**settings, "steps": int(steps)})
        train(config, f"{folder}/run", callbacks=[Watch()])


if __name__ == "__main__":
    main()
