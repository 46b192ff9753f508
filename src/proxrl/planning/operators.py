"""Bellman operators, exact policy values and exact optimal values (the paper's Section 2).

    T^pi v = R^pi + gamma P^pi v,        (T^pi)^n v = T^pi ... T^pi v,        n = inf gives v^pi
    T* v   = max_a R(., a) + gamma P(., a) v
    G v    = argmax_a R(., a) + gamma P(., a) v,     ties go to the lowest index

Values are [states, ...], policies are integers [states, ...] of deterministic actions; the batch
shapes agree, or one policy [states] is used for all. v* is computed by policy iteration, with an
error bound: ||v - v*||_inf <= ||T* v - v||_inf / (1 - gamma) for any v.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from proxrl.errors import UserError
from proxrl.planning.mdp import MDP
from proxrl.types import Array

SOLVE_CHUNK_BYTES = 2**26  # memory for I - gamma P^pi in batched policy evaluation


def action_values(mdp: MDP, values: Array) -> Array:
    """q(s, a) = R(s, a) + gamma sum_s' P(s, a, s') v(s'): [actions, states, ...]."""
    q = mdp.expected(mdp.discount * values)
    q += mdp.rewards.reshape(mdp.rewards.shape + (1,) * (values.ndim - 1))
    return q


def greedy_action(q: Array) -> Array:
    """`q.argmax(0)` (lowest index on ties), several times faster on a batch."""
    best = q.max(axis=0)
    policy = np.zeros(best.shape, dtype=np.min_scalar_type(len(q)))
    for falls_short in reversed(q[:-1] < best):  # count the leading actions that fall short
        policy = falls_short * (policy + policy.dtype.type(1))
    return policy.astype(np.intp)


def chosen(q: Array, policy: Array) -> Array:
    """q(s, pi(s)): [states, ...]."""
    here = np.arange(policy.size)
    picked: Array = q.reshape(-1)[policy.reshape(-1) * policy.size + here]
    return picked.reshape(policy.shape)


def greedy(mdp: MDP, values: Array) -> Array:
    """G v; ties go to the lowest index."""
    return greedy_action(action_values(mdp, values))


def optimality(mdp: MDP, values: Array) -> Array:
    """T* v."""
    best: Array = action_values(mdp, values).max(axis=0)
    return best


def bellman(mdp: MDP, policy: Array, values: Array, n: float = 1) -> Array:
    """(T^pi)^n v; n = 0 is v itself and n = math.inf is v^pi."""
    if n == math.inf:
        return np.broadcast_to(_batched(policy_value(mdp, policy), values), values.shape).copy()
    if policy.ndim == 1 and n > 0:
        transitions, rewards = mdp.under(policy)
        for _ in range(int(n)):
            flat = mdp.discount * (transitions @ values.reshape(mdp.states, -1))
            values = _batched(rewards, values) + flat.reshape(values.shape)
        return values
    for _ in range(int(n)):
        values = chosen(action_values(mdp, values), policy)
    return values


def policy_value(mdp: MDP, policy: Array) -> Array:
    """v^pi = (I - gamma P^pi)^{-1} R^pi, one linear solve for each distinct policy of the batch."""
    columns = policy.reshape(mdp.states, -1)
    distinct, which = np.unique(columns, axis=1, return_inverse=True)
    solved = np.empty((mdp.states, distinct.shape[1]))
    if mdp.is_sparse:
        identity = sparse.eye_array(mdp.states, format="csr")
        for column, one in enumerate(distinct.T):
            transitions, rewards = mdp.under(one)
            system = (identity - mdp.discount * transitions).tocsc()
            solved[:, column] = sparse_linalg.spsolve(system, rewards)
    else:
        chunk = max(1, SOLVE_CHUNK_BYTES // (8 * mdp.states**2))
        here = np.arange(mdp.states)
        for start in range(0, distinct.shape[1], chunk):
            some = distinct[:, start : start + chunk].T  # [policies, states]
            systems = mdp.transitions[some, here]  # I - gamma P^pi, made in place
            systems *= -mdp.discount
            systems[:, here, here] += 1.0
            solution = np.linalg.solve(systems, mdp.rewards[some, here][..., None])
            solved[:, start : start + chunk] = solution[..., 0].T
    solved[mdp.terminal] = 0.0  # by definition; pivoting may leave rounding errors
    return solved[:, which.ravel()].reshape(policy.shape)


@dataclass(frozen=True)
class Optimum:
    """v* with an error bound that holds for every state."""

    values: Array  # [states]
    policy: Array  # [states]
    residual: float  # ||T* v - v||_inf
    error_bound: float  # residual / (1 - gamma)
    iterations: int  # of policy iteration


def optimal(mdp: MDP, tolerance: float = 1e-13) -> Optimum:
    """v* and pi* by policy iteration.

    An action is changed only for a gain above `tolerance` x the largest |q|, so that rounding
    cannot make equivalent policies alternate; every change is an improvement and the loop ends.
    """
    policy = greedy(mdp, np.zeros(mdp.states))
    iterations = 0
    while True:
        iterations += 1
        values = policy_value(mdp, policy)
        q = action_values(mdp, values)
        gains = q.max(axis=0) - chosen(q, policy) > tolerance * np.abs(q).max()
        if not gains.any():
            break
        policy = np.where(gains, greedy_action(q), policy)
    residual = float(np.abs(q.max(axis=0) - values).max())
    return Optimum(values, policy, residual, residual / (1.0 - mdp.discount), iterations)


def check_steps(n: float) -> float:
    """Require n to be a positive integer or infinity."""
    if n == math.inf or (n >= 1 and n == int(n)):
        return n
    raise UserError(f"n must be a positive integer or inf, got {n:g}")


def _batched(column: Array, like: Array) -> Array:
    """[states] with trailing axes of length 1, to broadcast over the batch of `like`."""
    return column.reshape(column.shape + (1,) * (like.ndim - column.ndim))
