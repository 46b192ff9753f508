"""Bregman divergences and the proximal Bellman operator.

    D_f(v', v) = f(v') - f(v) - <grad f(v), v' - v>                            (Section 3)

    (T^pi_{c,f})^n v = argmin_v'  ||v' - (T^pi)^n v||_2^2 + (1/c) D_f(v', v)   (equation 1)

with c in (0, inf]: c = inf is the plain operator. The argmin t -> v' for a target t is each
divergence's `proximal`. Its optimality condition, which the tests check, is

    2 (v' - t) + (1/c) (grad f(v') - grad f(v)) = 0.

| divergence       | f             | v' for a target t                                        |
|------------------|---------------|----------------------------------------------------------|
| SquaredEuclidean | ||v||_2^2     | (1 - beta) t + beta v,  beta = 1/(1 + c)                 |
| Mahalanobis(Q)   | <v, Q v> / 2  | t + (2c I + Q)^{-1} Q (v - t)                            |
| LpNorm(p)        | ||v||_p^2 / 2 | no closed form: two nested scalar equations, `LpNorm`    |

The paper's examples carry the factor 1/2, its D = ||v' - v||^2 does not: LpNorm(2) with c equals
SquaredEuclidean with 2c. Values are [states, ...]; c broadcasts against the batch.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from proxrl.errors import UserError
from proxrl.planning.mdp import MDP
from proxrl.planning.operators import bellman, optimality
from proxrl.types import Array


class Divergence(Protocol):
    """A convex f with its gradient, its Bregman divergence and its proximal operator."""

    def f(self, values: Array) -> Array: ...
    def gradient(self, values: Array) -> Array: ...
    def __call__(self, new: Array, old: Array) -> Array: ...
    def proximal(self, target: Array, old: Array, c: npt.ArrayLike) -> Array: ...
    def gradient_lipschitz(self) -> float:
        """The Lipschitz constant of grad f in the sup norm; inf if no bound is known."""
        ...


def proximal_bellman(
    mdp: MDP, policy: Array, values: Array, c: npt.ArrayLike, divergence: Divergence, n: float = 1
) -> Array:
    """(T^pi_{c,f})^n v: one argmin after n applications, not n proximal steps."""
    return divergence.proximal(bellman(mdp, policy, values, n), values, c)


def proximal_optimality(mdp: MDP, values: Array, c: npt.ArrayLike, divergence: Divergence) -> Array:
    """T*_{c,f} v, the operator of Theorem 1."""
    return divergence.proximal(optimality(mdp, values), values, c)


def beta_from_c(c: npt.ArrayLike) -> Array:
    """beta = 1/(1 + c), for D_f = ||v' - v||_2^2."""
    return np.asarray(1.0 / (1.0 + check_c(c)))


def check_c(c: npt.ArrayLike) -> Array:
    """Require c > 0; inf means no proximal term."""
    array = np.asarray(c, dtype=np.float64)
    if not (array > 0.0).all():
        raise UserError(
            f"c must be positive (inf for no proximal term), got {_first_invalid(array)}"
        )
    return array


def _first_invalid(c: Array) -> str:
    return f"{np.ravel(c)[~(np.ravel(c) > 0.0)][0]:g}"


@dataclass(frozen=True)
class SquaredEuclidean:
    """f(v) = ||v||_2^2, D = ||v' - v||_2^2: the paper's choice after equation 1."""

    def f(self, values: Array) -> Array:
        return np.asarray(np.sum(values**2, axis=0))

    def gradient(self, values: Array) -> Array:
        return 2.0 * values

    def __call__(self, new: Array, old: Array) -> Array:
        return self.f(new - old)

    def proximal(self, target: Array, old: Array, c: npt.ArrayLike) -> Array:
        return mix(target, old, beta_from_c(c))

    def gradient_lipschitz(self) -> float:
        return 2.0


def mix(target: Array, old: Array, beta: npt.ArrayLike) -> Array:
    """(1 - beta) t + beta v; exactly t at beta = 0 and exactly v at beta = 1."""
    mixed: Array = (1.0 - np.asarray(beta)) * target
    mixed += beta * old
    return mixed


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """f(v) = <v, Q v> / 2 for a symmetric positive semi-definite Q, [states, states]."""

    matrix: Array
    _eigenvalues: Array = field(init=False, repr=False)  # [states]
    _eigenvectors: Array = field(init=False, repr=False)  # [states, states], in columns

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise UserError(f"Q must be a square matrix, got shape {matrix.shape}")
        if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-12):
            raise UserError("Q must be symmetric")
        eigenvalues, eigenvectors = np.linalg.eigh(matrix)
        if eigenvalues[0] < -1e-10 * max(1.0, eigenvalues[-1]):
            raise UserError(
                f"Q must be positive semi-definite, its smallest eigenvalue is {eigenvalues[0]:g}"
            )
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "_eigenvalues", np.maximum(eigenvalues, 0.0))
        object.__setattr__(self, "_eigenvectors", eigenvectors)

    def f(self, values: Array) -> Array:
        return np.asarray(0.5 * np.sum(values * self.gradient(values), axis=0))

    def gradient(self, values: Array) -> Array:
        return np.tensordot(self.matrix, values, axes=1)

    def __call__(self, new: Array, old: Array) -> Array:
        return self.f(new - old)

    def proximal(self, target: Array, old: Array, c: npt.ArrayLike) -> Array:
        """Closed form in Q's eigenbasis, where (2c I + Q)^{-1} Q is the diagonal q / (2c + q)."""
        rotated = np.tensordot(self._eigenvectors.T, old - target, axes=1)
        spread = self._eigenvalues.reshape(-1, *(1,) * (rotated.ndim - 1))
        rotated *= spread / (2.0 * check_c(c) + spread)
        return np.asarray(target + np.tensordot(self._eigenvectors, rotated, axes=1))

    def gradient_lipschitz(self) -> float:
        return float(np.abs(self.matrix).sum(axis=1).max())


@dataclass(frozen=True)
class LpNorm:
    """f(v) = ||v||_p^2 / 2 for 1 < p < inf; grad f(v)_i = ||v||_p^(2-p) |v_i|^(p-1) sign(v_i).

    The optimality condition separates once the norm N = ||v'||_p is known: with
    r = 2t + grad f(v) / c, every |v'_i| is the root u of

        2u + (N^(2-p) / c) u^(p-1) = |r_i|,    sign(v'_i) = sign(r_i),

    and N is the unique root of ||u(N)||_p = N, found by Newton's method with bisection. The
    result satisfies the optimality condition to within `tolerance` x (1 + max |r|) in every state;
    otherwise a RuntimeError is raised.
    """

    p: float
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        if not 1.0 < self.p < np.inf:
            raise UserError(
                f"p must be in (1, inf) (at 1 and inf the norm has no gradient), got {self.p:g}"
            )

    def norm(self, values: Array) -> Array:
        """||v||_p, computed without overflow."""
        largest = np.abs(values).max(axis=0)
        scale = np.where(largest > 0.0, largest, 1.0)
        return np.asarray(scale * np.sum(np.abs(values / scale) ** self.p, axis=0) ** (1 / self.p))

    def f(self, values: Array) -> Array:
        return np.asarray(0.5 * self.norm(values) ** 2)

    def gradient(self, values: Array) -> Array:
        norm = self.norm(values)
        scale = np.where(norm > 0.0, norm, 1.0)
        return np.asarray(norm * np.sign(values) * np.abs(values / scale) ** (self.p - 1.0))

    def __call__(self, new: Array, old: Array) -> Array:
        linear = np.sum(self.gradient(old) * (new - old), axis=0)
        return np.asarray(self.f(new) - self.f(old) - linear)

    def proximal(self, target: Array, old: Array, c: npt.ArrayLike) -> Array:
        c = check_c(c)
        wanted = 2.0 * target + self.gradient(old) / c  # r
        norm = self._solve(np.abs(wanted), c)
        new = np.sign(wanted) * self._sizes(np.abs(wanted), norm, c)
        miss = np.abs(2.0 * new + self.gradient(new) / c - wanted)
        if not np.all(miss <= self.tolerance * (1.0 + np.abs(wanted).max(axis=0))):
            raise RuntimeError(
                f"the l_{self.p:g} proximal step missed its tolerance {self.tolerance:g}: the "
                f"optimality condition is violated by {float(miss.max()):g}"
            )
        return np.asarray(new)

    def _solve(self, wanted: Array, c: Array) -> Array:
        """N by Newton's method on log ||u(N)||_p - log N, which decreases in log N with a slope
        between -1 and -1/(p-1); bisection if a step would leave the bracket."""
        high = self.norm(wanted / 2.0)
        high = np.where(high > 0.0, high, 1.0)  # if all of `wanted` is 0, any norm will do
        low, norm = np.zeros(high.shape), high
        for _ in range(100):
            sizes = self._sizes(wanted, norm, c)
            reached = self.norm(sizes)
            gap = np.log(np.where(reached > 0.0, reached, norm) / norm)
            if np.all(np.abs(gap) <= 1e-15):
                break
            low, high = np.where(gap > 0.0, norm, low), np.where(gap < 0.0, norm, high)
            pulled = wanted - 2.0 * sizes  # the second term of the equation, N^(2-p) u^(p-1) / c
            bend = (self.p - 2.0) * pulled / np.maximum(wanted + (self.p - 2.0) * pulled, 1e-300)
            shares = (sizes / np.where(reached > 0.0, reached, 1.0)) ** self.p
            newton = norm * np.exp(gap / (1.0 - np.sum(shares * bend, axis=0)))
            inside = (newton >= low) & (newton <= high)
            norm = np.where(inside, newton, 0.5 * (low + high))
        return np.asarray(norm)

    def _sizes(self, wanted: Array, norm: Array, c: Array) -> Array:
        """The roots u >= 0 of 2u + (norm^(2-p) / c) u^(p-1) = wanted.

        Written a x + b x^m = wanted with m >= 1 (for p < 2 in x = u^(p-1)), the left side is convex
        and increasing, so Newton's method from above converges monotonically.
        """
        scale = norm ** (2.0 - self.p) / c
        convex = self.p >= 2.0
        power = self.p - 1.0 if convex else 1.0 / (self.p - 1.0)
        a, b = (np.asarray(2.0), scale) if convex else (scale, np.asarray(2.0))
        with np.errstate(divide="ignore", invalid="ignore"):  # c = inf drops one term
            x = np.fmin(wanted / a, (wanted / b) ** (1.0 / power))
        for _ in range(100):
            slope = a + b * power * x ** (power - 1.0)
            step = (a * x + b * x**power - wanted) / np.where(slope > 0.0, slope, 1.0)
            following = np.maximum(x - step, 0.0)
            if np.all(np.abs(following - x) <= 4e-16 * x):
                break
            x = following
        return np.asarray(x if convex else x**power)

    def gradient_lipschitz(self) -> float:
        return 1.0 if self.p == 2.0 else np.inf
