"""Theorems 1 and 2, computed: every quantity, both sides of every inequality.

Theorem 1 (n = 1). T*_{c,f} is a contraction with fixed point v*. The appendix proves the factor

    (gamma c + 1) / (c - 1)      if  c > 2/(1 - gamma)  and  grad f is 1-Lipschitz,

in a norm in which T* is a gamma-contraction: here, and for T* in general, the sup norm. For
D_f = ||v' - v||^2 the operator is (1 - beta) T* + beta I, with the exact factor
(gamma c + 1)/(c + 1) < 1 for every c > 0.

Theorem 2 (any n, D_f = ||v' - v||^2), with the *appendix's* indices:

    b_k = v_k - T^{pi_{k+1}} v_k              Bellman residual
    d_k = v* - (T_beta^{pi_k})^n v_{k-1}      distance to the optimum
    s_k = (T_beta^{pi_k})^n v_{k-1} - v^{pi_k}  shift;         v* - v^{pi_k} = d_k + s_k
    x_k = (I - gamma P^{pi_k}) eps_k,   y_k = gamma P* eps_k

    b_k     <= ((1-beta) (gamma P^{pi_k})^n + beta I) b_{k-1} + (1-beta) x_k + eps'_{k+1}
    d_{k+1} <= gamma P* d_k - (1-beta) y_k - beta b_k
               + (1-beta) sum_{j=1}^{n-1} (gamma P^{pi_{k+1}})^j b_k + eps'_{k+1}
    s_k      = ((1-beta) (gamma P^{pi_k})^n + beta I) (I - gamma P^{pi_k})^{-1} b_{k-1}

(T_beta)^n v stands for (1-beta) T^n v + beta v, not for n proximal steps. The main text defines d_k
and s_k one iteration later, with v_k and pi_{k+1}; its bounds hold for the indices above.
eps'_{k+1} is measured: T* v_k - T^{pi_{k+1}} v_k, the smallest value that the assumption allows.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from proxrl.planning.bregman import Divergence, mix, proximal_optimality
from proxrl.planning.mdp import MDP
from proxrl.planning.operators import bellman, greedy, optimal, optimality, policy_value
from proxrl.planning.pmpi import Trace
from proxrl.types import Array


def theorem1_factor(discount: float, c: float) -> float:
    """(gamma c + 1)/(c - 1), as the appendix states it."""
    return (discount * c + 1.0) / (c - 1.0)


def quadratic_factor(discount: float, c: float) -> float:
    """(gamma c + 1)/(c + 1), exact for D_f = ||v' - v||_2^2."""
    return (discount * c + 1.0) / (c + 1.0)


def outside_theorem1(discount: float, c: float, divergence: Divergence) -> str:
    """Why the appendix's proof does not cover this case, or an empty string if it does."""
    reasons = []
    if not c > 2.0 / (1.0 - discount):
        reasons.append("c <= 2/(1 - gamma)")
    if not divergence.gradient_lipschitz() <= 1.0:
        reasons.append("grad f not 1-Lipschitz")
    return " and ".join(reasons)


def lipschitz_ratio(
    mdp: MDP, c: float, divergence: Divergence, generator: np.random.Generator, pairs: int = 64
) -> float:
    """The largest ||T*_{c,f} v_1 - T*_{c,f} v_2||_inf / ||v_1 - v_2||_inf over random pairs.

    A quarter of the pairs differ by a constant, the direction in which T* contracts least; the rest
    in random directions, at distances over four orders of magnitude. This is a lower bound on the
    true Lipschitz constant.
    """
    first = generator.standard_normal((mdp.states, pairs)) * 10.0 ** generator.uniform(-1, 2, pairs)
    step = generator.standard_normal((mdp.states, pairs)) * 10.0 ** generator.uniform(-2, 2, pairs)
    step[:, : pairs // 4] = 10.0 ** generator.uniform(-2, 2, pairs // 4)
    second = first + step
    moved = proximal_optimality(mdp, first, c, divergence) - proximal_optimality(
        mdp, second, c, divergence
    )
    apart = np.abs(first - second).max(axis=0)
    return float((np.abs(moved).max(axis=0) / apart).max())


@dataclass(frozen=True)
class Inequality:
    """left <= the sum of `terms`, elementwise; or an equality, as in the appendix."""

    left: Array  # [iterations, states]
    terms: dict[str, Array]  # the right side, term by term, signs included
    is_equality: bool = False

    def right(self, flip: str = "") -> Array:
        """The right side; `flip` names a term whose sign is flipped, for a wrong bound."""
        total: Array = np.sum(
            [-term if name == flip else term for name, term in self.terms.items()], axis=0
        )
        return total

    def margin(self, flip: str = "") -> float:
        """The minimum of right - left (for an equality, minus the largest difference)."""
        if not self.left.size:
            return math.inf
        slack = self.right(flip) - self.left
        return float(-np.abs(slack).max() if self.is_equality else slack.min())


@dataclass(frozen=True)
class Theorem2:
    """The theorem on one run of K iterations; every array is [iterations, states]."""

    b: Array  # b_0 ... b_{K-1}
    d: Array  # d_1 ... d_K
    s: Array  # s_1 ... s_K
    x: Array  # x_1 ... x_K
    y: Array  # y_1 ... y_K
    greedy_error: Array  # eps'_1 ... eps'_K
    residual: Inequality  # on b_k, k = 1 ... K-1
    distance: Inequality  # on d_{k+1}, k = 1 ... K-1
    shift: Inequality  # on s_k, k = 1 ... K
    split: Inequality  # v* - v^{pi_k} = d_k + s_k, k = 1 ... K


def theorem2(mdp: MDP, trace: Trace, beta: float, n: float) -> Theorem2:
    """Both sides of Theorem 2 on a recorded run with one seed, one beta and one noise level."""
    if trace.values.ndim != 2:
        raise ValueError("theorem2 takes the trace of a single run: scalar beta, noise and seed")
    best = optimal(mdp)
    before = trace.values[:-1]  # v_0 ... v_{K-1}
    policies, noise = trace.policies, trace.noise  # pi_1 ..., eps_1 ...
    steps = [_discounted(mdp, policy) for policy in policies]  # gamma P^{pi_1} ...
    optimal_step = _discounted(mdp, best.policy)  # gamma P*

    pairs = list(zip(policies, before, strict=True))
    once = np.stack([bellman(mdp, policy, values) for policy, values in pairs])
    reached = np.stack([mix(bellman(mdp, policy, v, n), v, beta) for policy, v in pairs])
    policy_values = np.stack([policy_value(mdp, policy) for policy in policies])

    b = before - once
    d = best.values - reached
    s = reached - policy_values
    x = np.stack([error - step @ error for step, error in zip(steps, noise, strict=True)])
    y = noise @ optimal_step.T
    greedy_error = np.stack([optimality(mdp, values) for values in before]) - once

    carried = np.stack(
        [mix(_power(step, n) @ one, one, beta) for step, one in zip(steps, b, strict=True)]
    )  # ((1-beta) (gamma P^{pi_k})^n + beta I) b_{k-1}
    partial = np.stack([_partial_sum(step, n, one) for step, one in zip(steps, b, strict=True)])
    solved = np.stack([_resolvent(step) @ one for step, one in zip(steps, carried, strict=True)])
    return Theorem2(
        b,
        d,
        s,
        x,
        y,
        greedy_error,
        residual=Inequality(
            b[1:],
            {"b": carried[:-1], "x": (1.0 - beta) * x[:-1], "eps'": greedy_error[1:]},
        ),
        distance=Inequality(
            d[1:],
            {
                "d": d[:-1] @ optimal_step.T,
                "y": -(1.0 - beta) * y[:-1],
                "beta b": -beta * b[1:],
                "sum": (1.0 - beta) * partial[1:],
                "eps'": greedy_error[1:],
            },
        ),
        # (I - gamma P)^{-1} commutes with the powers of P in front of it.
        shift=Inequality(s, {"b": solved}, is_equality=True),
        split=Inequality(best.values - policy_values, {"d": d, "s": s}, is_equality=True),
    )


@dataclass(frozen=True)
class OneStepBounds:
    """Theorem 2's bounds on d_{k+1} and s_{k+1} without noise, at given b_k and d_k (C46)."""

    distance: Array  # [betas, states]
    shift: Array  # [betas, states]


def one_step_bounds(
    mdp: MDP, values: Array, distance: Array, n: float, betas: Array
) -> OneStepBounds:
    """Both right sides as functions of beta, at v_k = `values` and d_k = `distance`.

    With A = sum_{j=0}^{n-1} (gamma P)^j = (I - (gamma P)^n)(I - gamma P)^{-1}, P = P^{pi_{k+1}}:

        bound on d_{k+1} = gamma P* d_k + (A - I) b_k           - beta A b_k
        bound on s_{k+1} = (gamma P)^n (I - gamma P)^{-1} b_k   + beta A b_k

    The slopes in beta are opposite, so the bound on the loss d_{k+1} + s_{k+1} does not depend on
    beta (pi_{k+1} is chosen before beta acts). A is invertible: unless b_k = 0, in each state with
    A b_k != 0 one of the two bounds is smallest at beta = 1. "Both are least at beta = 0"
    (Section 3) therefore holds for no b_k != 0. What does hold concerns several iterations: see
    `iterated_factor`.
    """
    policy = greedy(mdp, values)
    step = _discounted(mdp, policy)
    b = values - bellman(mdp, policy, values)
    rows = np.asarray(betas)[:, None]
    kept = distance @ _discounted(mdp, optimal(mdp).policy).T
    partial = _partial_sum(step, n, b)
    carried = (1.0 - rows) * (_power(step, n) @ b) + rows * b
    return OneStepBounds(kept - rows * b + (1.0 - rows) * partial, carried @ _resolvent(step).T)


def iterated_factor(discount: float, n: float, betas: npt.ArrayLike) -> Array:
    """rho = (1 - beta) gamma^n + beta, smallest at beta = 0: the sup norm of the matrix that maps
    b_{k-1} to b_k.

    Without noise max(b_k, 0) <= rho^k max b_0 for every n. For n = 1 the operator contracts by rho,
    so that ||d_k|| <= rho^k ||v* - v_0|| and ||s_k|| <= rho^k ||b_0|| / (1 - gamma): over k
    iterations these bounds are all smallest at beta = 0.
    """
    betas = np.asarray(betas)
    return np.asarray((1.0 - betas) * discount**n + betas)


@dataclass(frozen=True)
class Expansion:
    """Two value functions whose distance grows in one PMPI step: ratio > 1 (claim C40)."""

    mdp: MDP
    first: Array  # [states]
    second: Array  # [states]
    ratio: float  # measured, sup norm
    predicted: float  # closed form


def expansion(n: float, beta: float, discount: float = 0.9, gap: float = 1e-3) -> Expansion:
    """One step may expand if n > 1, after Scherrer et al. (2015), cited by the paper.

    Two states, reward 1 in the second for any action; action 0 stays, action 1 changes state.
    The greedy policy of v_1 = (gap, 0) goes to the first state, that of v_2 = (0, gap) to the
    second. After n steps the values differ by (gamma - gamma^n)/(1 - gamma) in both states, however
    small the gap, so

        ratio = (1 - beta) (gamma - gamma^n) / ((1 - gamma) gap) + beta:

    unbounded for n > 1 as the gap closes, and beta <= 1 for n = 1.
    """
    stay, change = np.eye(2), np.eye(2)[::-1]
    mdp = MDP(np.stack([stay, change]), np.array([[0.0, 1.0], [0.0, 1.0]]), discount, "two states")
    pair = np.array([[gap, 0.0], [0.0, gap]])  # [states, 2]
    after = mix(bellman(mdp, greedy(mdp, pair), pair, n), pair, beta)
    ratio = float(np.abs(after[:, 0] - after[:, 1]).max() / gap)
    spread = (discount - discount**n) / (1.0 - discount)
    return Expansion(mdp, pair[:, 0], pair[:, 1], ratio, (1.0 - beta) * spread / gap + beta)


def _discounted(mdp: MDP, policy: Array) -> Array:
    """gamma P^pi as a dense matrix (the MDPs are small)."""
    transitions, _ = mdp.under(policy)
    dense = transitions.toarray() if mdp.is_sparse else transitions
    return np.asarray(mdp.discount * dense)


def _power(step: Array, n: float) -> Array:
    """(gamma P)^n; 0 for n = inf."""
    return np.zeros_like(step) if n == math.inf else np.linalg.matrix_power(step, int(n))


def _resolvent(step: Array) -> Array:
    return np.asarray(np.linalg.inv(np.eye(len(step)) - step))


def _partial_sum(step: Array, n: float, vector: Array) -> Array:
    """sum_{j=1}^{n-1} (gamma P)^j b; a geometric series for n = inf."""
    if n == math.inf:
        return np.asarray(_resolvent(step) @ vector - vector)
    total, term = np.zeros_like(vector), vector
    for _ in range(1, int(n)):
        term = step @ term
        total = total + term
    return total
