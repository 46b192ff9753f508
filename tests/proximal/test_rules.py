"""Every proximal rule's gradient against an explicit formula, and a custom rule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proxrl import presets
from proxrl.config import AdaptiveOptions, RuleOptions, RunConfig, from_json, to_json, validated
from proxrl.errors import UserError
from proxrl.proximal import pull_
from proxrl.proximal.rules import (
    Accelerated,
    Adaptive,
    Gradient,
    Metric,
    Rule,
    Scheduled,
    Values,
    make_rule,
    register_rule,
)
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
    """TensorFlow's l2_loss: half the sum of squares."""
    return difference.square().sum() / 2


@pytest.mark.parametrize("importance", [(1.0, 1.0, 1.0), (1.0, 0.5, 0.3)])
def test_the_gradient_rule_is_autograds(importance: tuple[float, ...]) -> None:
    """nu * l2_loss with nu = 0.005 is c = 200. Added to each transition's loss before importance
    weights, as in the authors' code, the term is scaled by their mean m: c = 200 / m."""
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


def test_a_custom_rule_needs_no_other_change() -> None:
    """Registered or given as module:Rule, with state that is saved in checkpoints."""
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


@dataclass(frozen=True)
class WaningOptions(RuleOptions):
    """Options of a rule of one's own."""

    factor: float = 2.0
    """What c is multiplied by."""
    at: Literal["sync", "update"] = "sync"
    """When."""
    layers: tuple[int, ...] = ()
    name: str = ""
    strict: bool = False

    def problems(self) -> Sequence[tuple[str, bool, str]]:
        return [("factor", not self.factor >= 1, "must be at least 1")]


class Waning(Doubling):
    Options = WaningOptions
    options: WaningOptions

    def synced(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        self.c *= self.options.factor


WANING = f"{__name__}:Waning"


def test_a_rule_of_ones_own_has_options_of_its_own() -> None:
    given = ("factor=3", "at=update", "layers=[1, 2]", "name=7", "strict=True")
    run = config(rule=WANING, options=given)
    expected = WaningOptions(3.0, "update", (1, 2), "7", True)
    assert make_rule(run).options == expected
    assert make_rule(from_json(to_json(run))).options == expected, "config.json keeps them"
    assert make_rule(config(rule=WANING)).options == WaningOptions()
    register_rule("waning", Waning)
    assert make_rule(config(rule="waning", options=("factor=inf",))).options.factor == math.inf


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("factor", "invalid 'factor': must be KEY=VALUE"),
        ("speed=1", "unknown option speed: choose from factor, at, layers, name, strict"),
        ("factor=fast", "factor"),
        ("at=never", "at"),
        ("factor=0.5", r"factor 0\.5: must be at least 1"),
    ],
)
def test_an_invalid_option_of_a_rule_of_ones_own_is_named(option: str, message: str) -> None:
    with pytest.raises(UserError, match=f"proximal.options of .*{message}"):
        make_rule(config(rule=WANING, options=(option,)))


def test_a_rule_without_options_takes_none() -> None:
    with pytest.raises(UserError, match="the rule has no options"):
        make_rule(config(rule=f"{__name__}:Doubling", options=("factor=3",)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("elastic", "choose from parameters, gradient, values"),
        ("no_module:R", "cannot import proximal.rule"),
        (f"{__name__}:Linear", "not a subclass"),
        (f"{__name__}:l2_loss", "not a subclass"),
    ],
)
def test_an_unknown_rule_is_named(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_rule(config(rule=name))


@dataclass(frozen=True)
class NamedOptions(RuleOptions):
    name: str = "none"
    layers: tuple[str, ...] = ()
    limit: float | None = 1.0


class Named(Adaptive):
    """A built-in rule with options of its own."""

    Options = NamedOptions  # type: ignore[assignment]

    def __init__(self, config: RunConfig) -> None:
        Rule.__init__(self, config)


def test_a_subclass_of_a_built_in_rule_has_its_own_options_or_the_built_in_ones() -> None:
    def made(name: str, *options: str) -> RunConfig:
        settings = {"proximal.rule": name, "proximal.options": options}
        return presets.make("dqn", "CartPole-v1", settings)

    register_rule("named", Named)
    register_rule("same", type("Same", (Adaptive,), {}))
    given = ("name=Conv1", 'layers=["Conv1", "True"]', "limit=None")
    assert make_rule(made("named", *given)).options == NamedOptions(
        "Conv1", ("Conv1", "True"), None
    )
    with pytest.raises(UserError, match="unknown option smoothing: choose from name, layers"):
        make_rule(made("named", "smoothing=0.5"))
    assert make_rule(made("same")).options == AdaptiveOptions()
    with pytest.raises(UserError, match=r"same has the settings proximal\.adaptive\.\*"):
        make_rule(made("same", "smoothing=0.5"))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Accelerated, {"target.rule": "polyak"}, "own:Rule needs target.rule = periodic"),
        (Adaptive, {"proximal.c": 0.2}, "own:Rule sets kappa itself: leave c at inf"),
        (Scheduled, {"proximal.pull_per_sync": 1.0}, "own:Rule sets kappa itself"),
    ],
)
def test_a_subclass_has_the_needs_of_its_rule(
    kind: type[Rule], settings: dict[str, Any], message: str
) -> None:
    own = type("Rule", (kind,), {})
    config = validated(presets.make("dqn", "CartPole-v1", {"proximal.rule": "own:Rule"}))
    own(config)
    with pytest.raises(UserError, match=message):
        own(validated(config.override(settings)))


def test_a_pull_per_sync_is_for_a_rule_of_ones_own_too() -> None:
    settings = {"proximal.rule": "own:Rule", "proximal.pull_per_sync": 0.5}
    config = validated(presets.make("dqn", "CartPole-v1", settings))
    assert type("Rule", (Metric,), {})(config).metrics() == {"kappa": 0.5}
