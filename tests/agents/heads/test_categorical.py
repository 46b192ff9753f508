"""The projection by hand and against the textbook loop; the cross-entropy by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxrl.agents.heads import Categorical
from proxrl.agents.heads.categorical import expected_values, project
from proxrl.types import Batch

SUPPORT = torch.tensor([0.0, 1.0, 2.0])


def batch(returns: list[float], discounts: list[float]) -> Batch:
    empty = torch.zeros(0)
    return Batch(
        states=empty,
        actions=empty,
        returns=torch.tensor(returns),
        discounts=torch.tensor(discounts),
        next_states=empty,
        indices=np.arange(len(returns)),
    )


@pytest.mark.parametrize(
    ("case", "reward", "discount", "before", "after"),
    [
        ("on atoms", 1.0, 1.0, [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]),
        ("between atoms", 0.25, 1.0, [1.0, 0.0, 0.0], [0.75, 0.25, 0.0]),
        ("shrunk", 0.0, 0.5, [0.0, 0.4, 0.6], [0.2, 0.8, 0.0]),
        ("terminal", 1.5, 0.0, [0.2, 0.3, 0.5], [0.0, 0.5, 0.5]),
        ("above the support", 7.0, 0.9, [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]),
        ("below the support", -7.0, 0.9, [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]),
        ("nothing happens", 0.0, 1.0, [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ],
)
def test_by_hand(
    case: str, reward: float, discount: float, before: list[float], after: list[float]
) -> None:
    """Support 0, 1, 2: where r + gamma z falls, and how its probability is split."""
    got = project(torch.tensor([before]), batch([reward], [discount]), SUPPORT)
    torch.testing.assert_close(got, torch.tensor([after]), rtol=0, atol=1e-6, msg=case)


def slow_projection(p: np.ndarray, reward: float, discount: float, z: np.ndarray) -> np.ndarray:
    """One atom at a time, as in Algorithm 1 of the C51 paper."""
    out, gap = np.zeros_like(p), z[1] - z[0]
    for mass, atom in zip(p, z, strict=True):
        place = (min(max(reward + discount * atom, z[0]), z[-1]) - z[0]) / gap
        low, high = math.floor(place + 1e-9), math.ceil(place - 1e-9)
        if low == high:
            out[low] += mass
        else:
            out[low] += mass * (high - place)
            out[high] += mass * (place - low)
    return out


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    atoms=st.integers(2, 60),
    low=st.floats(-100, 0),
    width=st.floats(0.5, 200),
)
def test_against_the_loop(seed: int, atoms: int, low: float, width: float) -> None:
    generator = np.random.default_rng(seed)
    z = np.linspace(low, low + width, atoms)
    p = generator.dirichlet(np.ones(atoms), 6)
    rewards = generator.normal(0, width / 2, 6)
    discounts = generator.choice([0.0, 0.5, 0.97, 1.0], 6)
    got = project(
        torch.from_numpy(p), batch(rewards.tolist(), discounts.tolist()), torch.from_numpy(z)
    ).numpy()
    expected = [slow_projection(*row, z) for row in zip(p, rewards, discounts, strict=True)]
    np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_allclose(got.sum(axis=1), 1.0, atol=1e-5)  # mass is conserved


def test_float32_keeps_the_mass_at_the_papers_size() -> None:
    """51 atoms over [-10, 10], batch 64: within 1e-5, as the network sees it."""
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(64, 51, generator=generator).softmax(dim=1)
    rewards = torch.randn(64, generator=generator).tolist()
    got = project(p, batch(rewards, [0.99**3] * 64), torch.linspace(-10, 10, 51))
    torch.testing.assert_close(got.sum(dim=1), torch.ones(64), rtol=0, atol=1e-5)


def test_cross_entropy_and_expectation_by_hand() -> None:
    """Probabilities 1/4, 1/4, 1/2: -(0.5 ln 1/4 + 0.5 ln 1/2) = 1.5 ln 2; Q = 1/4 + 2/2."""
    logits = torch.tensor([[[0.0, 0.0, math.log(2.0)]]])  # one state, one action
    head = Categorical(atoms=3, v_min=0.0, v_max=2.0)
    found = head.loss(logits, torch.tensor([0]), torch.tensor([[0.5, 0.0, 0.5]]))
    assert found.losses.item() == pytest.approx(1.5 * math.log(2.0))
    assert found.priorities.item() == found.losses.item()
    assert found.gradients[0, 0].tolist() == pytest.approx([-0.25, 0.25, 0.0])
    assert found.values.item() == pytest.approx(1.25)
    assert expected_values(logits, SUPPORT).item() == pytest.approx(1.25)


def test_the_gradient_is_autograds() -> None:
    logits = torch.randn(6, 3, 5, requires_grad=True)
    actions, targets = torch.tensor([0, 1, 2, 2, 1, 0]), torch.rand(6, 5).softmax(dim=1)
    found = Categorical(5, -1.0, 1.0).loss(logits, actions, targets)
    found.losses.mean().backward()
    expected = logits.grad
    torch.testing.assert_close(found.gradients.detach(), expected)


@pytest.mark.parametrize("actions", [1, 2, 6])
@pytest.mark.parametrize("atoms", [2, 51])
def test_compiled_targets_and_losses_are_pytorchs(actions: int, atoms: int) -> None:
    """Up to rounding; updates are in inference mode, where the compiled functions are used if there
    are any."""
    generator, size = torch.Generator().manual_seed(0), 33
    head = Categorical(atoms, -10.0, 10.0)
    for scale in (0.1, 3.0, 30.0):
        logits, following = torch.randn(2, size, actions, atoms, generator=generator) * scale
        rewards = (torch.randn(size, generator=generator) * 6.0).tolist()
        each = batch(rewards, [0.0, *[0.97] * (size - 1)])
        taken = torch.randint(actions, (size,), generator=generator)
        targets = head.targets(each, following)
        expected = head.loss(logits, taken, targets)
        with torch.inference_mode():
            mine = head.targets(each, following)
            found = head.loss(logits, taken, targets)
        torch.testing.assert_close(mine, targets, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine.sum(dim=1), torch.ones(size))
        for ours, its in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, its, rtol=1e-4, atol=1e-5)
        values = np.stack([head.of_state()(one.numpy()) for one in logits])
        torch.testing.assert_close(
            torch.from_numpy(values), head.values(logits), rtol=1e-4, atol=1e-4
        )


def test_other_dtypes_are_left_to_pytorch() -> None:
    logits = torch.randn(4, 2, 5, dtype=torch.float64)
    head, actions = Categorical(5, -1.0, 1.0).double(), torch.tensor([0, 1, 1, 0])
    targets = torch.rand(4, 5, dtype=torch.float64).softmax(dim=1)
    expected = head.loss(logits, actions, targets)
    with torch.inference_mode():
        assert all(map(torch.equal, head.loss(logits, actions, targets), expected))
    np.testing.assert_allclose(head.of_state()(logits[0].numpy()), head.values(logits)[0])


def test_shapes_that_do_not_fit_are_refused_as_by_pytorch() -> None:
    head, logits = Categorical(5, -1.0, 1.0), torch.randn(4, 2, 5)
    actions, targets = torch.tensor([0, 1, 1, 0]), torch.rand(4, 5)
    each = batch([0.0] * 4, [1.0] * 4)
    with torch.inference_mode():
        for other in (torch.rand(4, 3), torch.rand(2, 5)):
            with pytest.raises(RuntimeError):
                head.loss(logits, actions, other)
        for atoms in (3, 9):
            with pytest.raises(RuntimeError):
                head.targets(each, torch.randn(4, 2, atoms))
            with pytest.raises(ValueError, match=r"atoms|mismatch"):
                head.of_state()(np.zeros((2, atoms), np.float32))
        assert head.loss(logits, actions, targets).losses.isfinite().all()


def test_what_is_not_a_number_stays_so() -> None:
    """Otherwise a diverging run would not be noticed."""
    head, logits = Categorical(3, 0.0, 2.0), torch.zeros(2, 2, 3)
    logits[0, 1, 2] = torch.nan
    with torch.inference_mode():
        targets = head.targets(batch([0.0, 0.0], [1.0, 1.0]), logits)
        assert targets.isnan().all(dim=1).tolist() == [True, False]
        losses = head.loss(logits, torch.tensor([1, 0]), torch.full((2, 3), 1 / 3)).losses
        assert losses.isnan().tolist() == [True, False]
        lost = head.targets(batch([torch.nan, 0.0], [1.0, 1.0]), torch.zeros(2, 2, 3))
        assert lost.isnan().any(dim=1).tolist() == [True, False]


def test_the_support_follows_from_the_config_and_is_no_part_of_the_state() -> None:
    head = Categorical(atoms=5, v_min=-2.0, v_max=2.0)
    assert head.support.tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert not head.state_dict()
