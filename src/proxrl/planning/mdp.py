"""Finite Markov decision processes as arrays.

    < S, A, R, P, gamma >                                                   (the paper's Section 2)

`transitions` is P, [actions, states, states] as a dense array; a large one is one SciPy CSR matrix
[actions * states, states] whose row a * states + s holds P(s, a, .). `rewards` is R,
[actions, states], the mean reward of an action. `discount` is gamma, in [0, 1).

A *terminal* state is absorbing with reward 0 under every action, so its value is 0.
"""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from proxrl.errors import UserError, did_you_mean
from proxrl.types import Array

ROW_SUM_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP, validated on construction (`UserError`).

    `transitions` may be dense, CSR, or a sequence of `actions` sparse matrices.
    """

    transitions: Any  # [actions, states, states], or CSR [actions * states, states]
    rewards: Array  # [actions, states]
    discount: float
    name: str = "MDP"
    terminal: Array = field(init=False, repr=False)  # [states], bool

    def __post_init__(self) -> None:
        _set(self, "rewards", _numbers("rewards", self.rewards))
        _set(self, "transitions", _transitions(self.transitions))
        _set(self, "discount", _discount(self.discount))
        _check_shapes(self)
        _check_probabilities(self)
        _set(self, "terminal", _terminal(self))

    @property
    def actions(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def states(self) -> int:
        return int(self.rewards.shape[1])

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.transitions))

    @property
    def nonzeros(self) -> int:
        """Transitions with non-zero probability; the cost of an iteration is proportional to it."""
        stored = self.transitions
        return int(stored.nnz if self.is_sparse else np.count_nonzero(stored))

    def expected(self, values: Array) -> Array:
        """P v for every action: [states, ...] to [actions, states, ...]."""
        rows = self.transitions if self.is_sparse else self.transitions.reshape(-1, self.states)
        next_values: Array = rows @ values.reshape(self.states, -1)
        return next_values.reshape(self.actions, *values.shape)

    def under(self, policy: Array) -> tuple[Any, Array]:
        """P^pi [states, states] and R^pi [states] of one deterministic policy [states]."""
        here = np.arange(self.states)
        if self.is_sparse:
            return self.transitions[policy * self.states + here], self.rewards[policy, here]
        return self.transitions[policy, here], self.rewards[policy, here]

    def to_sparse(self) -> "MDP":
        """The same MDP with its transitions as CSR."""
        rows = self.transitions if self.is_sparse else self.transitions.reshape(-1, self.states)
        return MDP(sparse.csr_array(rows), self.rewards, self.discount, self.name)


def from_gymnasium(env: str, discount: float = 0.99, **options: Any) -> MDP:
    """The MDP of a Gymnasium environment with a transition table (FrozenLake, Taxi, CliffWalking).

    `options` are passed to `gymnasium.make`, as in is_slippery=False. A terminating transition is
    worth only its reward. A state that is only entered by terminating transitions (a hole, a goal)
    is terminal; if it is also entered otherwise (Taxi), one terminal state is appended.
    """
    table = _table(env, options)
    states, actions = len(table), len(table[0])
    entries = [
        (state, action, float(probability), int(after), float(reward), bool(ended))
        for state, choices in table.items()
        for action, outcomes in choices.items()
        for probability, after, reward, ended in outcomes
    ]
    ends = {after for _, _, _, after, _, ended in entries if ended}
    entered_alive = {
        after for state, _, _, after, _, ended in entries if not ended and state not in ends
    }
    mixed = bool(ends & entered_alive)
    end_states = {states} if mixed else ends

    size = states + mixed
    transitions = np.zeros((actions, size, size))
    rewards = np.zeros((actions, size))
    for state, action, probability, after, reward, ended in entries:
        if state in end_states:
            continue
        transitions[action, state, states if ended and mixed else after] += probability
        rewards[action, state] += probability * reward
    for state in end_states:
        transitions[:, state, state] = 1.0
    return MDP(transitions, rewards, discount, env)


def from_file(path: Path | str, discount: float | None = None) -> MDP:
    """Load an .npz file with the arrays transitions [actions, states, states], rewards
    [actions, states] and discount; `discount` overrides the file's."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file.items())
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        raise UserError(
            f"{path} is not an .npz file of plain arrays; write one with "
            "np.savez(file, transitions=..., rewards=..., discount=...)"
        ) from None
    wanted = (
        ("transitions", "rewards")
        if discount is not None
        else ("transitions", "rewards", "discount")
    )
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise UserError(
            f"{path} has no array {' or '.join(missing)}; found {', '.join(arrays) or 'none'}"
        )
    try:
        chosen = arrays["discount"] if discount is None else discount
        return MDP(arrays["transitions"], arrays["rewards"], chosen, path.stem)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def garnet(
    states: int,
    actions: int = 4,
    branching: int = 3,
    discount: float = 0.95,
    seed: int | np.random.Generator = 0,
    as_sparse: bool = False,
) -> MDP:
    """A random MDP: each (state, action) has `branching` distinct successors, drawn uniformly, with
    probabilities cut at random from [0, 1], and a standard normal reward."""
    if not 1 <= branching <= states:
        raise UserError(f"branching must be in [1, states = {states}], got {branching}")
    generator = np.random.default_rng(seed)
    rows = actions * states
    successors = _distinct(generator, rows, branching, states)
    cuts = np.sort(generator.random((rows, branching - 1)), axis=1)
    probabilities = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    starts = np.arange(0, rows * branching + 1, branching)
    matrix = sparse.csr_array(
        (probabilities.ravel(), successors.ravel(), starts), shape=(rows, states)
    )
    transitions = matrix if as_sparse else matrix.toarray().reshape(actions, states, states)
    rewards = generator.standard_normal((actions, states))
    return MDP(transitions, rewards, discount, f"Garnet({states}, {actions}, {branching})")


def _distinct(generator: np.random.Generator, rows: int, count: int, below: int) -> Array:
    """`count` distinct integers of range(below) in each row (Floyd's method, all rows at once)."""
    chosen = np.empty((rows, count), dtype=np.int64)
    for column, largest in enumerate(range(below - count, below)):
        draw = generator.integers(0, largest + 1, size=rows)
        taken = (chosen[:, :column] == draw[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, largest, draw)
    return chosen


def _table(env: str, options: dict[str, Any]) -> dict[int, dict[int, list[Any]]]:
    import gymnasium

    try:
        table = getattr(gymnasium.make(env, **options).unwrapped, "P", None)
    except gymnasium.error.UnregisteredEnv:
        hint = did_you_mean(env, gymnasium.registry, most=3)
        raise UserError(f"unknown environment {env}{hint}") from None
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        reason = str(error).splitlines()[0].split(" was raised from")[0]
        raise UserError(f"cannot make {env}: {reason}") from None
    if not isinstance(table, dict):
        raise UserError(
            f"{env} has no transition table to plan with; FrozenLake8x8-v1, FrozenLake-v1, "
            "Taxi-v4 and CliffWalking-v1 have one"
        )
    return table


def _set(mdp: MDP, name: str, value: Any) -> None:
    object.__setattr__(mdp, name, value)  # the dataclass is frozen


def _numbers(name: str, values: npt.ArrayLike) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be an array of real numbers") from None
    if not np.isfinite(array).all():
        raise UserError(
            f"{name} must be finite, got NaN or infinity at index {_first(~np.isfinite(array))}"
        )
    return array


def _transitions(given: Any) -> Any:
    if isinstance(given, (list, tuple)) and given and all(map(sparse.issparse, given)):
        given = sparse.vstack(given, format="csr")
    if not sparse.issparse(given):
        return _numbers("transitions", given)
    matrix = sparse.csr_array(given, dtype=np.float64)
    matrix.sum_duplicates()
    _numbers("transitions", matrix.data)
    return matrix


def _discount(given: Any) -> float:
    try:
        discount = float(given)
    except (TypeError, ValueError):
        raise UserError(f"discount must be a number in [0, 1), got {given}") from None
    if not 0.0 <= discount < 1.0:
        raise UserError(f"discount must be in [0, 1), got {discount:g}")
    return discount


def _check_shapes(mdp: MDP) -> None:
    if mdp.rewards.ndim != 2 or 0 in mdp.rewards.shape:
        raise UserError(f"rewards must be [actions, states], got shape {mdp.rewards.shape}")
    actions, states = mdp.rewards.shape
    wanted = (actions * states, states) if mdp.is_sparse else (actions, states, states)
    if mdp.transitions.shape != wanted:
        raise UserError(
            f"transitions must have shape {wanted} for rewards of shape {mdp.rewards.shape} = "
            f"(actions, states), got {mdp.transitions.shape}"
        )


def _check_probabilities(mdp: MDP) -> None:
    stored = mdp.transitions.data if mdp.is_sparse else mdp.transitions
    if stored.size and np.min(stored) < 0.0:
        raise UserError(f"probabilities must be non-negative, got {np.min(stored):g}")
    sums = np.asarray(mdp.transitions.sum(axis=-1)).reshape(mdp.actions, mdp.states)
    wrong = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if wrong.any():
        action, state = _first(wrong)
        raise UserError(
            f"probabilities must sum to 1: those of action {action} in state {state} sum to "
            f"{sums[action, state]:.9g}"
        )


def _terminal(mdp: MDP) -> Array:
    here = np.arange(mdp.states)
    if mdp.is_sparse:
        each = (mdp.transitions[action * mdp.states + here] for action in range(mdp.actions))
        stays = np.array([matrix.diagonal() for matrix in each])
    else:
        stays = mdp.transitions[:, here, here]
    terminal: Array = ((stays == 1.0) & (mdp.rewards == 0.0)).all(axis=0)
    return terminal


def _first(where: Array) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(where)[0])
