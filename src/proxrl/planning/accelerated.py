"""Value iteration with an extrapolated anchor and a monitor.

    w_k     = (1 - beta) T* p_k + beta p_k              the proximal step, beta = gamma/(1 + gamma)
    y       = w_k + m (w_k - w_{k-1})                   Nesterov's extrapolation
    p_{k+1} = y         if ||T* y - y|| <= gamma^{k+1} ||T* p_0 - p_0||       (sup norm)
              T* p_k    otherwise: plain value iteration, and the momentum restarts

m = (1 - sqrt(1 - gamma^2))/gamma and beta are Nesterov's constants for eigenvalues of I - gamma P
in [1 - gamma, 1 + gamma] (Goyal and Grand-Clement, 2019). For one policy whose P is reversible the
rate is then 1 - sqrt((1 - gamma)/(1 + gamma)) in place of gamma. For other P no acceleration is
guaranteed, and without the monitor the iteration can diverge.

The monitor is the monotone safeguard of Li and Lin (2015) with the Bellman residual as the
objective and value iteration's bound as the reference value. T* contracts by gamma, so the
fallback always satisfies it:

    ||T* p_k - p_k|| <= gamma^k ||T* p_0 - p_0||  for every k, in every MDP.

A rejected y costs one backup; after each rejection the pause before the next attempt doubles, so k
iterations need at most k + log2(k + 1) + 2 backups.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proxrl.errors import UserError
from proxrl.planning.bregman import mix
from proxrl.planning.mdp import MDP
from proxrl.planning.operators import optimality
from proxrl.types import Array


@dataclass(frozen=True)
class Accelerated:
    """The final values, and the residual after each backup."""

    values: Array  # [states], T* p_K
    residuals: Array  # [K + 1], ||T* p_k - p_k||_inf
    backups: Array  # [K + 1], evaluations of T* up to and including p_k's, with rejected ones
    rejected: int  # extrapolations rejected by the monitor


def momentum(discount: float) -> float:
    """m = (1 - sqrt(1 - gamma^2))/gamma; 0 for gamma = 0."""
    return (1.0 - math.sqrt(1.0 - discount**2)) / discount if discount else 0.0


def accelerated_rate(discount: float) -> float:
    """1 - sqrt((1 - gamma)/(1 + gamma)), per backup, where P is reversible and the policy fixed."""
    return 1.0 - math.sqrt((1.0 - discount) / (1.0 + discount))


def iterate(
    mdp: MDP,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 100_000,
    monitored: bool = True,
    extrapolate: bool = True,
    initial: Array | None = None,
) -> Accelerated:
    """Iterate from `initial` (0) until the Bellman residual is at most `tolerance`.

    `extrapolate=False` is plain value iteration, for comparison; `monitored=False` accepts every
    extrapolation and stops when the residual is not finite or has grown by a factor of a million.
    """
    if not tolerance > 0.0:
        raise UserError(f"invalid tolerance {tolerance:g}: must be positive")
    if max_iterations < 1:
        raise UserError(f"invalid max_iterations {max_iterations}: must be at least 1")
    values = np.zeros(mdp.states) if initial is None else np.array(initial, dtype=np.float64)
    search = _Search(mdp, values, monitored)
    advance: Callable[[], None] = search.accelerate if extrapolate else search.fall_back
    residuals, backups = [search.residual], [search.backups]
    diverged = 1e6 * search.residual
    while tolerance < residuals[-1] <= diverged and len(residuals) <= max_iterations:
        advance()
        residuals.append(search.residual)
        backups.append(search.backups)
    return Accelerated(search.backup, np.array(residuals), np.array(backups), search.rejected)


class _Search:
    """p_k with its backup T* p_k, and the momentum."""

    def __init__(self, mdp: MDP, values: Array, monitored: bool) -> None:
        self._mdp, self._monitored = mdp, monitored
        self._momentum = momentum(mdp.discount)
        self._beta = mdp.discount / (1.0 + mdp.discount)
        self.backups = self.rejected = 0
        self._pause = self._waits = 0
        self._anchor: Array | None = None  # w_{k-1}; None after a momentum restart
        self._move(values, *self._evaluate(values))
        self._bound = self.residual  # gamma^k ||T* p_0 - p_0||

    def accelerate(self) -> None:
        """p_{k+1}: extrapolated if the monitor accepts it."""
        if self._waits:
            self._waits -= 1
            self.fall_back()
            return
        step = mix(self.backup, self._point, self._beta)  # w_k
        previous = step if self._anchor is None else self._anchor
        point = step + self._momentum * (step - previous)  # y
        backup, residual = self._evaluate(point)
        if self._monitored and not residual <= self._mdp.discount * self._bound:
            self.rejected += 1
            self._pause = max(1, 2 * self._pause)
            self._waits = self._pause - 1
            self.fall_back()
            return
        self._anchor = step
        self._bound *= self._mdp.discount
        self._move(point, backup, residual)

    def fall_back(self) -> None:
        """p_{k+1} = T* p_k: value iteration."""
        self._anchor = None
        self._bound *= self._mdp.discount
        self._move(self.backup, *self._evaluate(self.backup))

    def _evaluate(self, point: Array) -> tuple[Array, float]:
        backup = optimality(self._mdp, point)
        self.backups += 1
        return backup, float(np.abs(backup - point).max())

    def _move(self, point: Array, backup: Array, residual: float) -> None:
        self._point, self.backup, self.residual = point, backup, residual
