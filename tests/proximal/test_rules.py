"""Every proximal rule's gradient against a hand-written formula, and a rule of one's own."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proxrl import presets
from proxrl.config import RunConfig, validated
from proxrl.errors import UserError
from proxrl.proximal import pull_
from proxrl.proximal.rules import Gradient, Rule, Values, make_rule, register_rule
from proxrl.types import Batch


def config(**proximal: Any) -> RunConfig:
    settings = {f"proximal.{name}": value for name, value in proximal.items()}
    return validated(presets.make("dqn", "CartPole-v1", settings))


class Linear(nn.Module):
    """Q(s, a; w) = w_a . s, small enough for gradients by hand."""

    def __init__(self, weights: list[list[float]]) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights))

    def forward(self, states: Tensor) -> Tensor:
        return states @ self.weights.T


ONLINE = [[1.0, 2.0], [0.0, -1.0]]
TARGET = [[0.5, 2.0], [0.0, 1.0]]
STATES = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
ACTIONS = torch.tensor([0, 1, 1])
BATCH = Batch(STATES, ACTIONS, torch.zeros(3), torch.zeros(3), STATES, np.arange(3))


def test_the_gradient_rule_adds_the_distance_over_c() -> None:
    """grad of (1/2c) ||w - theta||^2 is (w - theta)/c, here with c = 0.1 on a gradient of 1."""
    w, theta = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.0])
    w.grad = torch.ones(2)
    Gradient(config(rule="gradient", c=0.1)).change_gradient([w], [theta])
    assert w.grad.tolist() == pytest.approx([1.0 + 5.0, 1.0 - 20.0])


def l2_loss(difference: Tensor) -> Tensor:
    """TensorFlow's: half the sum of squares."""
    return difference.square().sum() / 2


@pytest.mark.parametrize("importance", [(1.0, 1.0, 1.0), (1.0, 0.5, 0.3)])
def test_the_gradient_rule_is_autograds(importance: tuple[float, ...]) -> None:
    """nu * l2_loss with nu = 0.005 is c = 200. Added to each transition's loss before importance
    weights, as in the authors' code, the term counts by their mean m: c = 200 / m."""
    online, target = Linear(ONLINE), Linear(TARGET)
    weights = torch.tensor(importance)
    losses = online(STATES).square().mean(dim=1)
    penalty = 0.005 * l2_loss(online.weights - target.weights.detach())
    (expected,) = torch.autograd.grad((weights * (losses + penalty)).mean(), online.weights)
    (weights * online(STATES).square().mean(dim=1)).mean().backward()
    rule = Gradient(config(rule="gradient", c=200.0 / weights.mean().item()))
    rule.change_gradient([online.weights], [target.weights.detach()])
    torch.testing.assert_close(online.weights.grad, expected)


def test_the_value_rule_over_the_actions_taken_by_hand() -> None:
    """Differences d_i = (w - theta)_{a_i} . s_i = 0.5, -2, -6; grad_a = (2/3c) sum_i d_i s_i."""
    online, target = Linear(ONLINE), Linear(TARGET)
    penalty = Values(config(rule="values", c=0.5)).penalty(online, target, BATCH)
    assert penalty is not None
    assert penalty.item() == pytest.approx((0.25 + 4.0 + 36.0) / 3 / 0.5)
    penalty.backward()
    expected = [[0.5 * 1.0, 0.0], [-2.0 * 2.0, -2.0 * 1.0 - 6.0 * 3.0]]
    torch.testing.assert_close(online.weights.grad, torch.tensor(expected) * 2 / 3 / 0.5)
    assert target.weights.grad is None


def test_the_value_rule_over_all_actions_by_hand() -> None:
    """Six differences: 0.5, 1, 0 of action 0; 0, -2, -6 of action 1."""
    online, target = Linear(ONLINE), Linear(TARGET)
    penalty = Values(config(rule="values", c=2.0, actions="all")).penalty(online, target, BATCH)
    assert penalty is not None
    assert penalty.item() == pytest.approx((0.25 + 1.0 + 4.0 + 36.0) / 6 / 2.0)
    penalty.backward()
    expected = [[0.5 * 1.0 + 1.0 * 2.0, 1.0], [-4.0, -2.0 - 18.0]]
    torch.testing.assert_close(online.weights.grad, torch.tensor(expected) * 2 / 6 / 2.0)


@pytest.mark.parametrize("rule", ["gradient", "values"])
def test_infinite_c_does_nothing(rule: str) -> None:
    made = make_rule(config(rule=rule, c=math.inf))
    online, target = Linear(ONLINE), Linear(TARGET)
    assert made.penalty(online, target, BATCH) is None
    online.weights.grad = torch.ones(2, 2)
    made.change_gradient([online.weights], [target.weights])
    assert torch.equal(online.weights.grad, torch.ones(2, 2))


class Doubling(Rule):
    """An adaptive c, in a few lines: the pull, half as strong after each sync."""

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        pull_(weights, anchor, rate / self.c)

    def synced(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        self.c *= 2

    def state(self) -> dict[str, Tensor]:
        return {"c": torch.tensor(self.c, dtype=torch.float64)}

    def load(self, state: dict[str, Tensor]) -> None:
        self.c = state["c"].item()


def test_a_rule_of_ones_own_touches_nothing_else() -> None:
    """Registered or named by its module, with state that a checkpoint keeps."""
    from proxrl.agents.learner import Learner
    from tests.agents.test_learner import batches, learner, online

    register_rule("doubling", Doubling)
    settings = {"network.hidden": (16,), "target.period": 10, "proximal.c": 0.05}
    run = presets.make("dqn", "CartPole-v1", {**settings, "proximal.rule": "doubling"})
    by_module = run.override({"proximal.rule": f"{__name__}:Doubling"})

    whole, part = learner(run), learner(by_module)
    history = batches(40)
    for batch in history[:17]:
        whole.update(batch)
        part.update(batch)
    resumed: Learner = learner(run)
    resumed.load(part.state())
    for batch in history[17:]:
        whole.update(batch)
        resumed.update(batch)
    assert whole.rule.c == resumed.rule.c == 0.05 * 2**8
    assert torch.equal(online(whole), online(resumed))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("elastic", "choose from parameters, gradient, values"),
        ("no_module:R", "cannot be imported"),
        (f"{__name__}:Linear", "no subclass"),
        (f"{__name__}:l2_loss", "no subclass"),
    ],
)
def test_an_unknown_rule_is_named(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_rule(config(rule=name))
