"""Targets and losses by hand."""

import numpy as np
import pytest
import torch

from proxrl.agents.losses import td_loss, td_targets
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


def test_targets_bootstrap_from_the_largest_value_unless_terminated() -> None:
    next_values = torch.tensor([[1.0, 3.0], [9.0, 2.0]])
    targets = td_targets(batch([1.0, 5.0], [0.5, 0.0]), next_values)
    assert targets.tolist() == [1 + 0.5 * 3, 5.0]


def test_double_lets_the_online_network_choose() -> None:
    next_values = torch.tensor([[1.0, 3.0], [9.0, 2.0]])
    online = torch.tensor([[5.0, 4.0], [0.0, 1.0]])  # chooses 0, then 1
    targets = td_targets(batch([0.0, 0.0], [1.0, 1.0]), next_values, online)
    assert targets.tolist() == [1.0, 2.0]


def test_squared_is_the_papers_without_a_half() -> None:
    losses = td_loss(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 1.5]), "squared")
    assert losses.tolist() == [9.0, 0.25]


def test_huber_is_half_quadratic_then_linear() -> None:
    losses = td_loss(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 1.5]), "huber")
    assert losses.tolist() == pytest.approx([2.5, 0.125])
