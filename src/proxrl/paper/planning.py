"""The paper's claims on planning, measured on random MDPs.

Every claim is a margin, right side minus left, that must be at least -1e-10 (rounding). There are
also statements of the paper that are *refuted* as printed; *controls*, deliberately wrong bounds
that must fail, so that passing checks are meaningful; and cases *outside* Theorem 1's assumptions,
with the measured contraction ratio and no verdict. Ids are those of data/paper_claims.csv.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from proxrl.planning.bregman import (
    Divergence,
    LpNorm,
    Mahalanobis,
    SquaredEuclidean,
    proximal_optimality,
)
from proxrl.planning.mdp import MDP, garnet
from proxrl.planning.operators import bellman, greedy, optimal, optimality, policy_value
from proxrl.planning.pmpi import Noise, iterate, policy_error
from proxrl.planning.theory import (
    expansion,
    iterated_factor,
    lipschitz_ratio,
    one_step_bounds,
    outside_theorem1,
    quadratic_factor,
    theorem1_factor,
    theorem2,
)
from proxrl.types import Array

TOLERANCE = 1e-10
ITERATIONS = 8  # of each recorded run of PMPI

Kind = Literal["claim", "refuted", "control", "direction", "outside"]


@dataclass(frozen=True)
class Row:
    """One check; `kind` determines how its margins are interpreted."""

    id: str
    text: str
    kind: Kind = "claim"


@dataclass
class Finding:
    """A row with its measurements; for `outside`, the margin is 1 - ratio."""

    row: Row
    worst: float = math.inf
    cases: int = 0
    violations: int = 0

    def add(self, margin: float) -> None:
        self.worst = min(self.worst, margin)
        self.cases += 1
        self.violations += not margin >= -TOLERANCE

    @property
    def as_expected(self) -> bool:
        """Claims hold in every case; a control or a refuted statement fails in at least one."""
        if self.row.kind in ("control", "refuted"):
            return self.violations > 0
        return self.row.kind != "claim" or self.violations == 0

    @property
    def verdict(self) -> str:
        share = f"{1 - self.violations / self.cases:.1%}"
        return {
            "claim": "holds" if not self.violations else f"FAILS in {self.violations} cases",
            "refuted": f"fails in {self.violations} of {self.cases} cases",
            "control": "fails, as expected"
            if self.violations
            else "PASSES: the check is ineffective",
            "direction": f"in {share} of cases",
            "outside": f"contracts in {share} of cases",
        }[self.row.kind]


ROWS = {
    "theorem 1": Row("C36", "T*_{c,f} contracts by (γc+1)/(c-1): c > 2/(1-γ), ∇f 1-Lipschitz"),
    "theorem 1 quadratic": Row("C36", "D = ||v'-v||²: the factor is (γc+1)/(c+1), attained"),
    "theorem 1 wrong": Row("C36", "deliberately wrong: factor γ", "control"),
    "fixed point": Row("C37", "iterating T*_{c,f} at a constant c reaches v*"),
    "closed form": Row("C38", "the argmin is (1-β)Tv + βv with β = 1/(1+c)"),
    "value iteration": Row("C39", "β = 0, n = 1 is value iteration, for every iterate"),
    "policy iteration": Row("C39", "β = 0, n = ∞ is policy iteration, for every iterate"),
    "expansion": Row("C40", "n > 1: one step of PMPI can expand (an example, ratio > 1)"),
    "residual": Row("C41", "Theorem 2: bound on b_k"),
    "residual wrong": Row("C41", "deliberately wrong: the sign of x_k flipped", "control"),
    "distance": Row("C42", "Theorem 2: bound on d_{k+1}"),
    "distance wrong": Row("C42", "deliberately wrong: the sign of y_k flipped", "control"),
    "distance main text": Row("C42", "with the main text's indices of d_k", "control"),
    "shift": Row("C43", "Theorem 2: s_k, an equality"),
    "shift wrong": Row("C43", "deliberately wrong: the sign of b_{k-1} flipped", "control"),
    "shift main text": Row("C43", "with the main text's indices of s_k", "control"),
    "split": Row("C44", "v* - v^{π_k} = d_k + s_k"),
    "linear": Row("C45", "noise moves v_k - T^{π_k}v_k by (1-β)x_k: linear in β, slope -1"),
    "one step": Row(
        "C46", "no noise, given b_k: bounds on d_{k+1}, s_{k+1} smallest at β = 0", "refuted"
    ),
    "opposite slopes": Row("C46", "their slopes in β add up to 0: no b_k != 0 satisfies it"),
    "iterated residual": Row("C46", "no noise, any n: max b_k <= ρ^k max b_0, ρ = (1-β)γ^n + β"),
    "iterated bounds": Row(
        "C46",
        "no noise, n = 1: ||d_k|| <= ρ^k||d_0||, ||s_k|| <= ρ^k||b_0||/(1-γ): minimal at β = 0",
    ),
    "noise-free values": Row(
        "C46", "no noise, n = 1, v_0 <= T*v_0: ||v* - v_k|| smallest at β = 0"
    ),
    "noise-free policies": Row(
        "C46", "no noise, any n and v_0: ||v* - v^{π_k}|| smallest at β = 0", "direction"
    ),
    "standstill": Row("C47", "β = 1: v_k, d_k and s_k never change, for any noise"),
    "large noise": Row("C47", "very large noise: ||d_k|| and ||s_k|| smallest at β = 1"),
    "large noise policies": Row(
        "C47", "very large noise: ||v* - v^{π_k}|| smallest at β = 1", "direction"
    ),
    "squared Euclidean": Row("C36", "f = ||v||² (∇f 2-Lipschitz), any c", "outside"),
    "small c": Row("C36", "f = ||v||²/2, c <= 2/(1-γ)", "outside"),
    "steep Q": Row("C36", "f = <v,Qv>/2, ||Q||_inf = 10, any c", "outside"),
    "l_1.5": Row("C36", "f = ||v||_1.5²/2, any c", "outside"),
    "l_3": Row("C36", "f = ||v||_3²/2, any c", "outside"),
}


def check_theory(
    mdps: int = 1000, seed: int = 0, progress: Callable[[int], None] = lambda done: None
) -> list[Finding]:
    """Check all `ROWS` on this many random MDPs, each with random beta, c, n and noise."""
    findings = {name: Finding(row) for name, row in ROWS.items()}
    generator = np.random.default_rng(seed)
    for done in range(1, mdps + 1):
        states = int(generator.integers(2, 9))
        mdp = garnet(
            states,
            actions=int(generator.integers(2, 5)),
            branching=int(generator.integers(1, states + 1)),
            discount=float(generator.uniform(0.1, 0.99)),
            seed=generator,
        )
        for part in (
            _theorem1,
            _fixed_point,
            _special_cases,
            _theorem2,
            _noise,
            _noise_free,
            _large_noise,
        ):
            for name, margin in part(mdp, generator).items():
                findings[name].add(margin)
        progress(done)
    return list(findings.values())


def _theorem1(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    identity, gamma = np.eye(mdp.states), mdp.discount
    large = 2.0 / (1.0 - gamma) * (1.0 + 10.0 ** generator.uniform(-3, 1))
    small = 2.0 / (1.0 - gamma) * 10.0 ** generator.uniform(-2, 0)
    anything = 10.0 ** generator.uniform(-1, 2)
    half_square = Mahalanobis(identity)

    def ratio(c: float, divergence: Divergence) -> float:
        return lipschitz_ratio(mdp, c, divergence, generator)

    gentle = Mahalanobis(_random_psd(mdp.states, generator))
    inside = [ratio(large, divergence) for divergence in (half_square, gentle)]
    assert not outside_theorem1(gamma, large, half_square)
    assert not outside_theorem1(gamma, large, gentle)
    quadratic = ratio(anything, SquaredEuclidean())
    steep = Mahalanobis(10.0 * _random_psd(mdp.states, generator))
    return {
        "theorem 1": theorem1_factor(gamma, large) - max(inside),
        "theorem 1 quadratic": -abs(quadratic_factor(gamma, anything) - quadratic),
        "theorem 1 wrong": gamma - max(inside),
        "squared Euclidean": 1.0 - quadratic,
        "small c": 1.0 - ratio(small, half_square),
        "steep Q": 1.0 - ratio(anything, steep),
        "l_1.5": 1.0 - ratio(anything, LpNorm(1.5)),
        "l_3": 1.0 - ratio(anything, LpNorm(3.0)),
    }


def _random_psd(states: int, generator: np.random.Generator) -> Array:
    """A random positive semi-definite matrix with largest absolute row sum 1."""
    root = generator.standard_normal((states, states))
    matrix = root @ root.T
    # Slightly below 1, because of rounding in the sums.
    return np.asarray(matrix / np.abs(matrix).sum(axis=1).max() * (1.0 - 1e-12))


def _fixed_point(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    c = 10.0 ** generator.uniform(-0.5, 2)
    enough = math.ceil(math.log(1e-16) / math.log(quadratic_factor(mdp.discount, c)))
    values = (
        generator.standard_normal((mdp.states, 2)) * 10.0
    )  # two initial values, one fixed point
    for _ in range(enough):
        values = proximal_optimality(mdp, values, c, SquaredEuclidean())
    target, old = generator.standard_normal((2, mdp.states))
    closed = SquaredEuclidean().proximal(target, old, c)
    numerical = LpNorm(2.0).proximal(target, old, c / 2.0)  # ||.||^2 / (2 (c/2)) is ||.||^2 / c
    return {
        "fixed point": -float(np.abs(values - optimal(mdp).values[:, None]).max()),
        "closed form": -float(np.abs(closed - numerical).max()),
    }


def _special_cases(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    start = generator.standard_normal(mdp.states)
    margins = {}
    for name, n in (("value iteration", 1.0), ("policy iteration", math.inf)):
        trace = iterate(mdp, iterations=ITERATIONS, n=n, beta=0.0, initial=start, record=True).trace
        assert trace is not None
        values, worst = start, 0.0
        for reached in trace.values[1:]:
            values = optimality(mdp, values) if n == 1 else policy_value(mdp, greedy(mdp, values))
            worst = max(worst, float(np.abs(values - reached).max()))
        margins[name] = -worst
    n = float(generator.choice([2, 3, 5, math.inf]))
    beta = float(generator.uniform(0.0, 0.99))
    margins["expansion"] = expansion(n, beta, mdp.discount, gap=1e-4).ratio - 1.0
    return margins


def _theorem2(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    n = float(generator.choice([1, 2, 3, 5, 10, math.inf]))
    beta = float(generator.uniform())
    trace = iterate(
        mdp,
        iterations=ITERATIONS,
        n=n,
        beta=beta,
        noise=Noise(
            10.0 ** generator.uniform(-2, 1),
            "gaussian" if generator.random() < 0.5 else "uniform",
        ),
        greedy_error=float(generator.uniform() * (generator.random() < 0.5)),
        seed=int(generator.integers(2**32)),
        initial=generator.standard_normal(mdp.states) * 10.0,
        record=True,
    ).trace
    assert trace is not None
    found = theorem2(mdp, trace, beta, n)
    distance = found.distance
    # The main text calls the appendix's d_{k+1} d_k, and bounds it with b_{k-1} and y_{k-1}.
    late_distance = sum(term[:-1] for name, term in distance.terms.items() if name != "d")
    late_distance = late_distance + distance.terms["d"][1:] - distance.left[1:]
    # Its s_k is (T_beta^{pi_{k+1}})^n v_k - v^{pi_k} = s_k - (d_{k+1} - d_k).
    late_shift = found.shift.right()[:-1] - (found.s[:-1] - (found.d[1:] - found.d[:-1]))
    return {
        "residual": found.residual.margin(),
        "residual wrong": found.residual.margin(flip="x"),
        "distance": distance.margin(),
        "distance wrong": distance.margin(flip="y"),
        "distance main text": float(np.min(late_distance)),
        "shift": found.shift.margin(),
        "shift wrong": found.shift.margin(flip="b"),
        "shift main text": float(late_shift.min()),
        "split": found.split.margin(),
    }


def _noise(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    betas = np.linspace(0.0, 1.0, 11)
    start = generator.standard_normal(mdp.states) * 10.0
    policy, error = greedy(mdp, start), generator.standard_normal(mdp.states)

    def residual(noise: Array) -> Array:
        moved = (1 - betas) * (bellman(mdp, policy, start) + noise)[:, None] + betas * start[
            :, None
        ]
        return np.asarray(moved - bellman(mdp, policy, moved))  # v_k - T^{pi_k} v_k

    transitions, _ = mdp.under(policy)
    x = error - mdp.discount * transitions @ error
    effect = residual(error) - residual(np.zeros_like(error))

    n = float(generator.choice([1, 2, 3, 5]))
    free = iterate(mdp, iterations=ITERATIONS, n=n, beta=betas, initial=start)
    losses = policy_error(mdp, free.policy)
    low = np.full(mdp.states, mdp.rewards.min() / (1.0 - mdp.discount))  # v_0 <= T* v_0
    from_below = iterate(mdp, iterations=ITERATIONS, beta=betas, initial=low)
    misses = np.abs(optimal(mdp).values[:, None] - from_below.values).max(axis=0)
    frozen = iterate(
        mdp, iterations=ITERATIONS, n=n, beta=1.0, noise=Noise(10.0), initial=start, record=True
    ).trace
    assert frozen is not None
    still = theorem2(mdp, frozen, 1.0, n)
    drift = [np.ptp(series, axis=0).max() for series in (frozen.values, still.d, still.s)]
    return {
        "linear": -float(np.abs(effect - (1 - betas) * x[:, None]).max()),
        "noise-free values": float(misses.min() - misses[0]),
        "noise-free policies": float(losses.min() - losses[0]),
        "standstill": -float(max(drift)),
    }


def _noise_free(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    """C46: the bounds of Theorem 2 without noise, for one step and for several."""
    betas = np.linspace(0.0, 1.0, 11)
    n = float(generator.choice([1, 2, 3, 5, math.inf]))
    start = generator.standard_normal(mdp.states) * 10.0
    given = generator.standard_normal(mdp.states)  # any d_k: beta does not affect it
    bounds = one_step_bounds(mdp, start, given, n, betas)
    both = (bounds.distance, bounds.shift)
    slopes = sum(bound[-1] - bound[0] for bound in both)
    found = {
        "one step": float(min((bound - bound[0]).min() for bound in both)),
        "opposite slopes": -float(np.abs(slopes).max() / max(np.abs(both).max(), 1.0)),
        "iterated residual": math.inf,
        "iterated bounds": math.inf,
    }
    beta = float(generator.uniform(0.0, 0.99))
    for name, steps in (("iterated residual", n), ("iterated bounds", 1.0)):
        trace = iterate(
            mdp, iterations=ITERATIONS, n=steps, beta=beta, initial=start, record=True
        ).trace
        assert trace is not None
        seen = theorem2(mdp, trace, beta, steps)
        powers = iterated_factor(mdp.discount, steps, beta) ** np.arange(ITERATIONS + 1)
        if name == "iterated residual":
            margins = [powers[:-1] * max(seen.b[0].max(), 0.0) - seen.b.max(axis=1)]
        else:
            first = np.abs(optimal(mdp).values - start).max(), np.abs(seen.b[0]).max()
            margins = [
                powers[1:] * first[0] - np.abs(seen.d).max(axis=1),
                powers[1:] * first[1] / (1.0 - mdp.discount) - np.abs(seen.s).max(axis=1),
            ]
        found[name] = float(min(margin.min() for margin in margins))
    return found


def _large_noise(mdp: MDP, generator: np.random.Generator) -> dict[str, float]:
    """C47: noise larger than all values, even after n discounted steps."""
    betas = np.linspace(0.0, 1.0, 11)
    n = float(generator.choice([1, 2, 3, 5]))
    start = generator.standard_normal(mdp.states) * 10.0
    best = optimal(mdp).values
    size = max(np.abs(best).max(), np.abs(start).max(), 1.0) / (1.0 - mdp.discount)
    scale = 1e3 * float(size) / mdp.discount**n
    noise, seed = Noise(scale), int(generator.integers(2**32))
    moved = iterate(
        mdp, iterations=ITERATIONS, n=n, beta=betas, noise=noise, seed=seed, initial=start
    )
    losses = policy_error(mdp, moved.policy)
    sizes = []
    for beta in betas.tolist():
        trace = iterate(
            *(mdp,),
            iterations=3,
            n=n,
            beta=beta,
            noise=noise,
            seed=seed,
            initial=start,
            record=True,
        ).trace
        assert trace is not None
        seen = theorem2(mdp, trace, beta, n)
        sizes.append([np.abs(seen.d[-1]).max(), np.abs(seen.s[-1]).max()])
    others = np.array(sizes)  # [betas, 2]
    return {
        "large noise": float((others[:-1] - others[-1]).min()),
        "large noise policies": float(losses.min() - losses[-1]),
    }
