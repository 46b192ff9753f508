"""Targets, losses and their gradients by hand."""

import numpy as np
import pytest
import torch

from proxrl.agents.heads import Expected, at_action, of_action
from proxrl.native import library
from proxrl.types import Batch


def batch(returns: list[float], discounts: list[float]) -> Batch:
    size = len(returns)
    return Batch(
        states=torch.zeros(size, 1),
        actions=torch.zeros(size, dtype=torch.int64),
        returns=torch.tensor(returns),
        discounts=torch.tensor(discounts),
        next_states=torch.zeros(size, 1),
        indices=np.arange(size),
    )


NEXT = torch.tensor([[1.0, 3.0], [9.0, 2.0]])


def test_targets_bootstrap_from_the_largest_value_unless_terminated() -> None:
    targets = Expected("squared").targets(batch([1.0, 5.0], [0.5, 0.0]), NEXT)
    assert targets.tolist() == [1 + 0.5 * 3, 5.0]


def test_double_lets_the_online_network_choose() -> None:
    online = torch.tensor([[5.0, 4.0], [0.0, 1.0]])  # chooses 0, then 1
    targets = Expected("squared").targets(batch([0.0, 0.0], [1.0, 1.0]), NEXT, online)
    assert targets.tolist() == [1.0, 2.0]


# Q(s, a) is 0, then 1; the targets are 3 and 1.5: errors of -3 and -0.5.
OUTPUTS = torch.tensor([[7.0, 0.0], [1.0, 8.0]])
ACTIONS = torch.tensor([1, 0])
TARGETS = torch.tensor([3.0, 1.5])


def test_squared_is_the_papers_without_a_factor_half() -> None:
    found = Expected("squared").loss(OUTPUTS, ACTIONS, TARGETS)
    assert found.losses.tolist() == [9.0, 0.25]
    assert found.gradients.tolist() == [[0.0, -3.0], [-0.5, 0.0]]
    assert found.values.tolist() == [0.0, 1.0]
    assert found.priorities.tolist() == [3.0, 0.5]


def test_huber_is_half_quadratic_then_linear() -> None:
    found = Expected("huber").loss(OUTPUTS, ACTIONS, TARGETS)
    assert found.losses.tolist() == pytest.approx([2.5, 0.125])
    assert found.gradients.tolist() == [[0.0, -0.5], [-0.25, 0.0]]


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_gradient_is_autograds(loss: str) -> None:
    outputs = torch.randn(6, 3).mul_(2.0).requires_grad_()
    actions, targets = torch.tensor([0, 1, 2, 2, 1, 0]), torch.randn(6)
    found = Expected(loss).loss(outputs, actions, targets)
    found.losses.mean().backward()
    torch.testing.assert_close(found.gradients.detach(), outputs.grad)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("size", [1, 7, 32, 33])
def test_compiled_targets_and_losses_have_pytorchs_bits(loss: str, size: int) -> None:
    """Updates are in inference mode, where the compiled functions are used if there are any."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        values, following = torch.randn(2, size, 5, generator=generator).mul_(3.0)
        returns, discounts = torch.randn(2, size, generator=generator)
        actions = torch.randint(5, (size,), generator=generator)
        head, each = Expected(loss), batch(returns.tolist(), discounts.tolist())
        targets = head.targets(each, following)
        expected = head.loss(values, actions, targets)
        with torch.inference_mode():
            mine = head.targets(each, following)
            found = head.loss(values, actions, mine)
        assert torch.equal(mine, targets)
        assert all(map(torch.equal, found, expected))


def test_compiled_losses_show_what_is_not_a_number_and_no_action() -> None:
    values = torch.tensor([[1.0, torch.nan], [1.0, 2.0], [1.0, 2.0]])
    with torch.inference_mode():
        targets = Expected("huber").targets(batch([0.0] * 3, [1.0] * 3), values)
        assert targets.isnan().tolist() == [True, False, False]
        found = Expected("huber").loss(values, torch.tensor([1, 0, 1]), targets)
    assert found.losses.isnan().tolist() == [True, False, False]


def test_actions_and_targets_that_do_not_fit_are_left_to_pytorch() -> None:
    values, targets, actions = torch.randn(4, 2), torch.randn(4), torch.tensor([0, 1, 1, 0])
    with torch.inference_mode():
        expected = Expected("huber").loss(values, actions, targets)
        found = Expected("huber").loss(values, actions.int(), targets)
        assert all(map(torch.equal, found, expected))
        with pytest.raises(RuntimeError):
            Expected("huber").loss(values, actions, targets[:2])


@pytest.mark.skipif(library() is None, reason="PyTorch raises")
def test_an_action_that_does_not_exist_has_no_finite_loss() -> None:
    with torch.inference_mode():
        values, targets = torch.zeros(3, 2), torch.zeros(3)
        found = Expected("huber").loss(values, torch.tensor([0, 2, -1]), targets)
    assert found.losses.isnan().tolist() == [False, True, True]
    assert found.gradients.tolist() == [[0.0, 0.0]] * 3


def test_of_action_and_its_inverse() -> None:
    outputs = torch.arange(12.0).view(2, 3, 2)  # two states, three actions, two numbers each
    actions = torch.tensor([2, 0])
    assert of_action(outputs, actions).tolist() == [[4.0, 5.0], [6.0, 7.0]]
    chosen = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    expected = [[[0, 0], [0, 0], [1, 2]], [[3, 4], [0, 0], [0, 0]]]
    assert at_action(chosen, actions, outputs).tolist() == expected
