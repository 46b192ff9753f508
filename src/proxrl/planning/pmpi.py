"""Proximal Modified Policy Iteration, batched over noise levels, betas and seeds.

    pi_k  <-  G v_{k-1}                                                        (equation 2)
    v_k   <-  argmin_v'  ||v' - ((T^{pi_k})^n v_{k-1} + eps_k)||^2 + (1/c) D_f(v', v_{k-1})

With D_f = ||v' - v||^2 the second line is v_k <- (1 - beta) ((T^{pi_k})^n v_{k-1} + eps_k)
+ beta v_{k-1}, beta = 1/(1 + c) (Section 5.1). beta = 0 is modified policy iteration: n = 1 value
iteration, n = inf policy iteration; beta = 1 never moves.

*Evaluation noise* eps_k has mean 0 and standard deviation `scale` in every state that is not
terminal (the value of a terminal state is 0 by definition). A seed's noise is the same for every
beta and, up to its scale, for every level: curves are compared on common random numbers, and a
seed's result is independent of other seeds up to rounding.

*A rule* sets beta_k itself, from the noisy backup b_k = (T^{pi_k})^n v_{k-1} + eps_k and v_{k-1}:
see `adaptive`.

*Greedification error* e takes any action within e of the best, uniformly at random, so that
T^pi v_k - T^{pi_{k+1}} v_k <= e for all pi: the appendix's assumption on eps'.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from proxrl.errors import UserError
from proxrl.planning.bregman import Divergence, beta_from_c, check_c, mix
from proxrl.planning.mdp import MDP
from proxrl.planning.operators import (
    action_values,
    bellman,
    check_steps,
    chosen,
    greedy_action,
    optimal,
    policy_value,
)
from proxrl.types import Array


@dataclass(frozen=True, eq=False)
class Noise:
    """The error of policy evaluation: eps_k."""

    scale: npt.ArrayLike = 0.0
    """Standard deviation, in units of value; an array adds an axis of levels."""
    kind: Literal["gaussian", "uniform"] = "gaussian"
    """Distribution: normal, or uniform with the same standard deviation."""

    def __post_init__(self) -> None:
        if self.kind not in ("gaussian", "uniform"):
            raise UserError(f"noise must be gaussian or uniform, got {self.kind}")
        scale = np.asarray(self.scale, dtype=np.float64)
        if not (np.isfinite(scale) & (scale >= 0.0)).all():
            raise UserError(f"a noise level must be finite and non-negative, got {self.scale}")

    def draw(self, generators: list[np.random.Generator], states: int) -> Array:
        """Unit noise, [states, seeds]."""
        if self.kind == "gaussian":
            return np.stack([one.standard_normal(states) for one in generators], axis=1)
        half_width = np.sqrt(3.0)  # a uniform of this half-width has standard deviation 1
        return np.stack(
            [one.uniform(-half_width, half_width, states) for one in generators], axis=1
        )


class BetaRule(Protocol):
    """Sets beta_k from past iterations; may keep state, so use one object per run."""

    def __call__(self, target: Array, values: Array) -> Array:
        """beta_k [*batch] for the noisy backup b_k and v_{k-1}, both [states, *batch]."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The result of PMPI. `batch` = levels + betas + seeds, an axis for each that is an array."""

    values: Array  # [states, *batch], v_K
    policy: Array  # [states, *batch], pi_K
    trace: "Trace | None"


@dataclass(frozen=True)
class Trace:
    """The quantities of Theorem 2 for each iteration; k counts from 0."""

    values: Array  # [K + 1, states, *batch]: v_0 ... v_K
    policies: Array  # [K, states, *batch]: pi_1 ... pi_K
    noise: Array  # [K, states, *batch]: eps_1 ... eps_K
    weights: Array  # [K, *batch]: beta_1 ... beta_K; c with a divergence


def iterate(
    mdp: MDP,
    *,
    iterations: int,
    n: float = 1,
    beta: npt.ArrayLike | None = None,
    c: npt.ArrayLike | None = None,
    rule: Callable[[], BetaRule] | None = None,
    divergence: Divergence | None = None,
    noise: Noise | None = None,
    greedy_error: float = 0.0,
    seed: int | Sequence[int] = 0,
    initial: Array | None = None,
    record: bool = False,
    progress: Callable[[int], None] = lambda k: None,
) -> Outcome:
    """`iterations` rounds of PMPI from `initial` (0): the paper's two lines.

    Pass one of `beta` in [0, 1], `c` in (0, inf] (with a `divergence`, by default the squared
    Euclidean one), or a factory of a `rule` that sets beta_k: `rule=adaptive.AdaptiveBeta`.
    Arrays of noise levels, of betas (or c) and of seeds give the axes [levels, betas, seeds].
    `record` keeps the trace; `progress` is called with the number of each finished iteration.
    """
    n = check_steps(n)
    weight = _weight(beta, c, rule, divergence)
    set_beta = rule() if rule else None
    proximal = mix if divergence is None else divergence.proximal
    noise = noise or Noise()
    scale = np.asarray(noise.scale, dtype=np.float64)
    generators = [np.random.default_rng(one) for one in np.atleast_1d(seed)]

    batch = scale.shape + weight.shape + np.shape(seed)  # [levels, betas, seeds]
    scale = scale.reshape(scale.shape + (1,) * (weight.ndim + np.ndim(seed)))
    weight = weight.reshape(weight.shape + (1,) * np.ndim(seed))
    each_seed = (1,) * (len(batch) - np.ndim(seed)) + np.shape(seed)

    values = _initial(mdp, initial, batch)
    policy = np.zeros(values.shape, dtype=np.intp)
    error = np.zeros(values.shape[:1] + (1,) * len(batch))
    history = _History(values) if record else None
    for k in range(1, _check_iterations(iterations) + 1):
        q = action_values(mdp, values)
        policy = _greedy(q, greedy_error, generators, each_seed)  # pi_k <- G v_{k-1}
        target = bellman(mdp, policy, chosen(q, policy), n - 1)  # (T^{pi_k})^n v_{k-1}
        if np.any(scale > 0.0):
            unit = np.where(mdp.terminal[:, None], 0.0, noise.draw(generators, mdp.states))
            error = scale * unit.reshape(mdp.states, *each_seed)  # eps_k
            target += error
        if set_beta:
            weight = set_beta(target, values)  # beta_k
        values = proximal(target, values, weight)  # v_k
        if history:
            history.add(values, policy, error, weight)
        progress(k)
    return Outcome(values, policy, history.trace() if history else None)


def policy_error(mdp: MDP, policy: Array) -> Array:
    """||v* - v^pi||_inf of each policy of the batch: Figure 1's measure."""
    best = optimal(mdp).values
    loss = best.reshape(-1, *(1,) * (policy.ndim - 1)) - policy_value(mdp, policy)
    return np.asarray(np.abs(loss).max(axis=0))


def check_beta(beta: npt.ArrayLike) -> Array:
    """Require beta in [0, 1]."""
    array = np.asarray(beta, dtype=np.float64)
    inside = (array >= 0.0) & (array <= 1.0)
    if not inside.all():
        raise UserError(f"beta must be in [0, 1], got {array[~inside].ravel()[0]:g}")
    return array


class _History:
    """Collects the trace."""

    def __init__(self, values: Array) -> None:
        self._values, self._policies, self._noise = [values], list[Array](), list[Array]()
        self._weights = list[Array]()

    def add(self, values: Array, policy: Array, noise: Array, weight: Array) -> None:
        self._values.append(values)
        self._policies.append(policy)
        self._noise.append(np.broadcast_to(noise, values.shape))
        self._weights.append(np.broadcast_to(weight, values.shape[1:]))

    def trace(self) -> Trace:
        parts = (self._values, self._policies, self._noise, self._weights)
        return Trace(*(np.stack(part) for part in parts))


def _weight(
    beta: npt.ArrayLike | None,
    c: npt.ArrayLike | None,
    rule: Callable[[], BetaRule] | None,
    divergence: Divergence | None,
) -> Array:
    """The argument of the proximal step: c with a divergence, beta without."""
    if sum(one is not None for one in (beta, c, rule)) != 1:
        raise UserError("pass exactly one of beta, c (beta = 1/(1 + c)) and rule")
    if rule is not None:
        if divergence is not None:
            raise UserError("a rule needs the squared Euclidean divergence")
        return np.zeros(())  # placeholder; the rule overwrites it
    if beta is not None:
        if divergence is not None:
            raise UserError("beta needs the squared Euclidean divergence; pass c for another")
        return check_beta(beta)
    assert c is not None
    return beta_from_c(c) if divergence is None else check_c(c)


def _greedy(
    q: Array, error: float, generators: list[np.random.Generator], each_seed: tuple[int, ...]
) -> Array:
    """The best action, or a random one among those within `error` of it."""
    if error == 0.0:
        return greedy_action(q)
    if not 0.0 < error < np.inf:
        raise UserError(f"the greedification error must be finite and non-negative, got {error:g}")
    luck = np.stack([one.random(q.shape[:2]) for one in generators], axis=-1)
    luck = luck.reshape(*q.shape[:2], *each_seed)  # [actions, states, 1, 1, seeds]
    return greedy_action(np.where(q >= q.max(axis=0) - error, luck, -1.0))


def _initial(mdp: MDP, initial: Array | None, batch: tuple[int, ...]) -> Array:
    """v_0 for the batch: 0, one [states] for all, or [states, *batch]."""
    given = np.zeros(mdp.states) if initial is None else np.asarray(initial, dtype=np.float64)
    if given.shape not in ((mdp.states,), (mdp.states, *batch)):
        raise UserError(
            f"initial values must be [states] = ({mdp.states},) or {(mdp.states, *batch)}, "
            f"got shape {given.shape}"
        )
    if given[mdp.terminal].any():
        raise UserError("the initial value of a terminal state must be 0")
    if given.ndim == 1:
        given = given.reshape(-1, *(1,) * len(batch))
    return np.broadcast_to(given, (mdp.states, *batch)).copy()


def _check_iterations(iterations: int) -> int:
    if iterations < 1:
        raise UserError(f"iterations must be at least 1, got {iterations}")
    return iterations
