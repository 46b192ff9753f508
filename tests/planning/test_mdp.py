"""Finite MDPs: construction and error messages."""

import numpy as np
import pytest
from scipy import sparse

from proxrl.errors import UserError
from proxrl.planning.mdp import MDP, from_file, from_gymnasium, garnet

# Two states, two actions: 0 stays, 1 swaps.
STAY, SWAP = np.eye(2), np.eye(2)[::-1]
REWARDS = np.array([[0.0, 1.0], [2.0, 3.0]])


def test_shapes_and_expectations() -> None:
    mdp = MDP(np.stack([STAY, SWAP]), REWARDS, 0.9)
    assert (mdp.actions, mdp.states, mdp.nonzeros) == (2, 2, 4)
    assert mdp.expected(np.array([5.0, 7.0])).tolist() == [[5.0, 7.0], [7.0, 5.0]]
    transitions, rewards = mdp.under(np.array([1, 0]))
    assert transitions.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert rewards.tolist() == [2.0, 1.0]


def test_sparse_equals_dense() -> None:
    dense = garnet(20, 3, 4, seed=1)
    listed = MDP([sparse.csr_array(one) for one in dense.transitions], dense.rewards, 0.95)
    values = np.random.default_rng(0).standard_normal((20, 2, 3))
    policy = np.arange(20) % 3
    for mdp in (dense.to_sparse(), listed, garnet(20, 3, 4, seed=1, as_sparse=True)):
        assert mdp.is_sparse
        assert mdp.nonzeros == dense.nonzeros == 3 * 20 * 4
        np.testing.assert_allclose(mdp.expected(values), dense.expected(values), atol=1e-14)
        np.testing.assert_array_equal(mdp.under(policy)[0].toarray(), dense.under(policy)[0])
        np.testing.assert_array_equal(mdp.terminal, dense.terminal)


def test_terminal_states_loop_to_themselves_without_reward() -> None:
    rewards = np.array([[0.0, 0.0], [0.0, 1.0]])
    mdp = MDP(np.stack([STAY, STAY]), rewards, 0.9)
    assert mdp.terminal.tolist() == [True, False]  # the second is absorbing too, but with a reward
    assert mdp.to_sparse().terminal.tolist() == [True, False]


@pytest.mark.parametrize(
    ("transitions", "rewards", "discount", "words"),
    [
        (np.stack([STAY, SWAP]) * 0.9, REWARDS, 0.9, "action 0 in state 0 sum to 0.9"),
        ([[[1.5, -0.5], [0, 1]]], [[0, 0]], 0.9, "must be non-negative, got -0.5"),
        ([[[np.nan, 1], [0, 1]]], [[0, 0]], 0.9, r"transitions must be finite.*\(0, 0, 0\)"),
        ([STAY], [[0, np.inf]], 0.9, r"rewards must be finite.*\(0, 1\)"),
        ([STAY], [[0, 0, 0]], 0.9, r"must have shape \(1, 3, 3\) .* got \(1, 2, 2\)"),
        ([STAY], [0, 0], 0.9, r"rewards must be \[actions, states\]"),
        ([STAY], np.zeros((0, 2)), 0.9, r"rewards must be \[actions, states\]"),
        ([STAY], [["a", "b"]], 0.9, "rewards must be an array of real numbers"),
        ([STAY], [[0, 0]], 1.0, r"discount must be in \[0, 1\), got 1"),
        ([STAY], [[0, 0]], -0.1, r"discount must be in \[0, 1\)"),
        ([STAY], [[0, 0]], float("nan"), r"discount must be in \[0, 1\)"),
        (sparse.csr_array(STAY * 2), [[0, 0]], 0.9, "sum to 2"),
        (sparse.csr_array(STAY), [[0, 0], [0, 0]], 0.9, r"must have shape \(4, 2\)"),
    ],
)
def test_malformed(transitions: object, rewards: object, discount: float, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        MDP(transitions, rewards, discount)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_frozen_lake_has_its_holes_and_its_goal() -> None:
    lake = from_gymnasium("FrozenLake-v1", is_slippery=False)
    assert lake.states == 16
    assert np.flatnonzero(lake.terminal).tolist() == [5, 7, 11, 12, 15]
    left, down, right, up = range(4)
    assert lake.transitions[right, 14, 15] == 1.0
    assert lake.rewards[right, 14] == 1.0
    assert lake.rewards.sum() == 1.0  # only that move pays
    assert lake.transitions[left, 0, 0] == lake.transitions[up, 0, 0] == 1.0
    assert lake.transitions[down, 0, 4] == 1.0


def test_slippery_ice_goes_each_of_three_ways() -> None:
    lake = from_gymnasium("FrozenLake8x8-v1")
    assert lake.states == 64
    down = 1
    np.testing.assert_allclose(lake.transitions[down, 9, [8, 10, 17]], 1 / 3)
    assert lake.terminal.sum() == 11  # ten holes and the goal


def test_taxi_ends_in_an_additional_state() -> None:
    # Taxi's table continues after a delivery: making that state terminal would change others.
    taxi = from_gymnasium("Taxi-v4")
    assert taxi.states == 501
    assert np.flatnonzero(taxi.terminal).tolist() == [500]
    dropoff = 5
    delivered = taxi.transitions[dropoff, :500, 500] > 0.0
    assert (taxi.rewards[dropoff, :500][delivered] == 20.0).all()


def test_cliff_walking_ends_at_the_goal() -> None:
    cliff = from_gymnasium("CliffWalking-v1")
    assert np.flatnonzero(cliff.terminal).tolist() == [47]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (
            "FrozenLake9x9-v1",
            "unknown environment FrozenLake9x9-v1; did you mean .*FrozenLake8x8-v1",
        ),
        ("CartPole-v1", "CartPole-v1 has no transition table"),
        ("no such thing", "unknown environment|cannot make"),
    ],
)
def test_unusable_environments(env: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        from_gymnasium(env)
    assert "\n" not in str(caught.value)


def test_an_option_the_environment_does_not_have() -> None:
    with pytest.raises(UserError, match="cannot make Taxi-v4"):
        from_gymnasium("Taxi-v4", is_slippery=True)


def test_garnet_is_seeded_and_has_the_given_branching() -> None:
    one, same, other = (garnet(30, 2, 5, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.transitions, same.transitions)
    assert (one.transitions != other.transitions).any()
    assert (np.count_nonzero(one.transitions, axis=2) == 5).all()
    assert np.count_nonzero(garnet(4, 2, 4).transitions) == 2 * 4 * 4  # every state a successor
    with pytest.raises(UserError, match="branching"):
        garnet(4, 2, 5)


def test_garnet_successors_are_uniform() -> None:
    # 4,000 rows of 2 out of 5: each state is chosen with probability 2/5.
    transitions = garnet(5, 4_000 // 5, 2, seed=0).transitions
    shares = (transitions > 0).mean(axis=(0, 1))
    assert np.abs(shares - 0.4).max() < 4 * np.sqrt(0.4 * 0.6 / 4_000)


def test_files(tmp_path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, transitions=np.stack([STAY, SWAP]), rewards=REWARDS, discount=0.9)
    mdp = from_file(path)
    assert (mdp.name, mdp.discount, mdp.states) == ("two", 0.9, 2)
    assert from_file(path, discount=0.5).discount == 0.5


def test_malformed_files(tmp_path) -> None:
    with pytest.raises(UserError, match="no such file"):
        from_file(tmp_path / "absent.npz")
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    with pytest.raises(UserError, match=r"is not an \.npz file of plain arrays"):
        from_file(text)
    single = tmp_path / "single.npy"
    np.save(single, STAY)
    with pytest.raises(UserError, match=r"is not an \.npz file of plain arrays"):
        from_file(single)
    code = tmp_path / "code.npz"
    np.savez(code, transitions=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UserError, match=r"is not an \.npz file of plain arrays"):
        from_file(code)  # nothing that is loaded can execute code
    partial = tmp_path / "partial.npz"
    np.savez(partial, transitions=np.stack([STAY, SWAP]))
    with pytest.raises(UserError, match="has no array rewards or discount; found transitions"):
        from_file(partial)
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, transitions=np.stack([STAY, SWAP]) / 2, rewards=REWARDS, discount=0.9)
    with pytest.raises(UserError, match=r"wrong.npz: probabilities must sum to 1"):
        from_file(wrong)
