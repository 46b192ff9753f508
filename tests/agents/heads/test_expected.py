"""Targets, losses and their gradients by hand."""

import numpy as np
import pytest
import torch

from proxrl.agents.heads import Expected, at_action, of_action
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
    assert found.gradients.tolist() == [-3.0, -0.5]
    assert found.values.tolist() == [0.0, 1.0]
    assert found.priorities.tolist() == [3.0, 0.5]


def test_huber_is_half_quadratic_then_linear() -> None:
    found = Expected("huber").loss(OUTPUTS, ACTIONS, TARGETS)
    assert found.losses.tolist() == pytest.approx([2.5, 0.125])
    assert found.gradients.tolist() == [-0.5, -0.25]


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_gradient_is_autograds(loss: str) -> None:
    outputs = torch.randn(6, 3).mul_(2.0).requires_grad_()
    actions, targets = torch.tensor([0, 1, 2, 2, 1, 0]), torch.randn(6)
    found = Expected(loss).loss(outputs, actions, targets)
    found.losses.mean().backward()
    torch.testing.assert_close(at_action(found.gradients, actions, outputs), outputs.grad)


def test_of_action_and_its_inverse() -> None:
    outputs = torch.arange(12.0).view(2, 3, 2)  # two states, three actions, two numbers each
    actions = torch.tensor([2, 0])
    assert of_action(outputs, actions).tolist() == [[4.0, 5.0], [6.0, 7.0]]
    chosen = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    expected = [[[0, 0], [0, 0], [1, 2]], [[3, 4], [0, 0], [0, 0]]]
    assert at_action(chosen, actions, outputs).tolist() == expected
