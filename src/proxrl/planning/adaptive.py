"""Adaptive beta: PMPI that knows neither the noise nor v*.

    delta_k = b_k - v_{k-1}                         innovation; b_k the noisy backup
    v_k     = v_{k-1} + g_k delta_k                 the paper's second line, g_k = 1 - beta_k
    g_{k+1} = g_k exp(eta <delta_{k+1}, delta_k> / <delta_k, delta_k>),  within [1/(k + 4), 1]

Innovations are signal (the remaining distance) and noise. Signal persists from one backup to the
next: successive innovations are aligned, and a larger gain would have been better. Noise does not,
and a gain that is too large carries it into v, where the next innovation reverses it: successive
innovations are opposed. For a fixed policy, A = I - (gamma P)^n symmetric, e = v^pi - v_{k-1} and
white noise of covariance N, with delta_k = A e + eps_k and e' = e - g delta_k:

    E <delta_{k+1}, delta_k> = ||A e||^2 - g (<A e, A A e> + tr(A N)) = -1/2 d/dg E <e', A e'>

so the sign of the correlation tells on which side of the best gain g_k was, for any A, e and N, and
the best gain is the one that makes innovations white, as in a Kalman filter.

The greedy policy does not change when a constant is added to every state, so innovations are
centred. Products and squares are summed over iterations with exponential forgetting. The first gain
is 1/4, as if v_0 were worth three backups, and g_k never falls below averaging, 1/(k + 3): sum g_k
diverges and the iteration cannot stall. What is proved and what is only observed: docs/planning.md.
"""

import numpy as np

from proxrl.errors import UserError
from proxrl.types import Array

FIRST_GAIN = 0.25  # these three were tuned on development seeds, docs/planning.md
STEP = 0.7
MEMORY = 0.95


class AdaptiveBeta:
    """beta_k from the correlation of successive innovations, one for each run of the batch.

    `step` is eta, `memory` the forgetting factor of the sums.
    """

    def __init__(
        self, first_gain: float = FIRST_GAIN, step: float = STEP, memory: float = MEMORY
    ) -> None:
        if not 0.0 < first_gain <= 1.0:
            raise UserError(f"invalid first_gain {first_gain:g}: must be in (0, 1]")
        if not 0.0 <= step < np.inf:
            raise UserError(f"invalid step {step:g}: must be finite and non-negative")
        if not 0.0 <= memory <= 1.0:
            raise UserError(f"invalid memory {memory:g}: must be in [0, 1]")
        self._first_gain, self._step, self._memory = first_gain, step, memory
        self._iteration = 0
        self._before: Array | None = None  # delta_{k-1} without its mean, [states, *batch]
        self._gain = np.zeros(())  # [*batch]
        self._products = np.zeros(())  # [*batch], <delta_k, delta_{k-1}> summed with the memory
        self._squares = np.zeros(())  # [*batch], <delta_{k-1}, delta_{k-1}>, likewise

    def __call__(self, target: Array, values: Array) -> Array:
        """beta_k [*batch] for the noisy backup b_k and v_{k-1}, both [states, *batch]."""
        innovation = target - values
        innovation -= innovation.mean(axis=0)
        if self._before is None:
            self._gain = np.full(target.shape[1:], self._first_gain)
        else:
            before = self._before
            self._products = self._memory * self._products + (innovation * before).sum(axis=0)
            self._squares = self._memory * self._squares + (before * before).sum(axis=0)
            correlation = np.divide(
                self._products,
                self._squares,
                out=np.zeros_like(self._products),
                where=self._squares > 0.0,
            )
            lowest = 1.0 / (1.0 / self._first_gain + self._iteration)
            moved = self._gain * np.exp(self._step * np.clip(correlation, -1.0, 1.0))
            self._gain = np.clip(moved, lowest, 1.0)
        self._before = innovation
        self._iteration += 1
        return np.asarray(1.0 - self._gain)
