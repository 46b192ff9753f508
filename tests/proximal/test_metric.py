"""The rule metric: the pull of each weight by hand, its mean, off-switches, resumes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.proximal.rules import Metric
from tests.agents.test_learner import batches, learner, online
from tests.proximal.test_adaptive import POLYAK, config, trained

KAPPA = {"proximal.pull_per_sync": 1.0}
POWER = "proximal.metric.power"
HEADS = ["expected", "categorical"]


def metric(**changes: Any) -> RunConfig:
    return config("metric", **{**KAPPA, **changes})


class Three:
    """Adam's second moments of three parameters, in a vector with an element of padding."""

    def __init__(self) -> None:
        self.mean = [torch.zeros(4)]
        self.square = [torch.tensor([1.0, 4.0, 16.0, 0.0])]

    def views(self, vectors: list[Tensor]) -> dict[str, Tensor]:
        return {"a": vectors[0][:1], "b": vectors[0][1:3]}


def three(kappa: float, **changes: Any) -> tuple[Metric, list[list[float]]]:
    """Pulls of weights 1 towards 0 in 11 updates without a gradient; syncs every 10."""
    rule = Metric(metric(**{**changes, "proximal.pull_per_sync": kappa}))
    rule.moments = Three()  # type: ignore[assignment]
    seen = []
    for _ in range(11):
        weights = [torch.ones(4)]
        rule.change_weights(weights, [torch.zeros(4)], rule.config.learner.learning_rate)
        seen.append((1.0 - weights[0]).tolist())
    return rule, seen


@pytest.mark.parametrize(
    ("power", "shares"),
    # sqrt(v) = 1, 2, 4 over its mean 7/3; v = 1, 4, 16 over 7
    [(0.5, [3 / 7, 6 / 7, 12 / 7, 0.0]), (1.0, [1 / 7, 4 / 7, 16 / 7, 0.0])],
)
def test_weights_are_pulled_in_proportion_to_a_power_of_v(
    power: float, shares: list[float]
) -> None:
    """kappa = 1 over 10 updates is a pull of 0.1, on average, and the paper's in the first 10."""
    rule, seen = three(1.0, **{POWER: power})
    for pulls in seen[:10]:
        assert pulls == pytest.approx([0.1] * 4)
    assert seen[10] == pytest.approx([0.1 * share for share in shares], abs=1e-7)
    assert sum(seen[10]) / 3 == pytest.approx(0.1, abs=1e-7), (
        "the mean pull over the parameters is alpha/c"
    )
    squares = sum(share**2 for share in shares) / 3
    assert dict(rule.metrics()) == pytest.approx({"kappa": 1.0, "evenness": 1 / squares})


def test_no_weight_overshoots_and_kappa_says_what_was_lost() -> None:
    """kappa = 7: a mean pull of 0.7, of which 0.3, 0.6 and 1.2 -> 1.0."""
    rule, seen = three(7.0)
    assert seen[10] == pytest.approx([0.3, 0.6, 1.0, 0.0])
    assert float(rule.metrics()["kappa"]) == pytest.approx(10 * 1.9 / 3)


def test_without_any_gradient_nothing_is_pulled() -> None:
    rule = Metric(metric())
    rule.moments = Three()  # type: ignore[assignment]
    rule.moments.square[0].zero_()
    for _ in range(11):
        weights = [torch.ones(4)]
        rule.change_weights(weights, [torch.zeros(4)], 1e-3)
    assert weights[0].tolist() == [1.0] * 4
    assert dict(rule.metrics()) == {"kappa": 0.0, "evenness": 0.0}


@pytest.mark.parametrize("head", HEADS)
def test_a_learner_is_pulled_in_the_metric_of_its_moments_at_the_last_sync(head: str) -> None:
    """Against a learner whose weights are pulled by hand, with v of every tenth update."""
    made = learner(metric(**{"head.kind": head}))
    plain = learner(config("parameters", **{"head.kind": head}))
    number, shares = 0, torch.ones(())

    def by_hand(weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        nonlocal number, shares
        if number and number % 10 == 0:
            roots = plain.rule.moments.square[0].sqrt()
            shares = roots * sum(p.numel() for p in plain.online.parameters()) / roots.sum()
        number += 1
        weights[0].add_(rate / made.rule.c * shares * (anchor[0] - weights[0]))

    plain.rule.change_weights = by_hand
    for batch in batches(60, size=8):
        made.update(batch)
        plain.update(batch)
    torch.testing.assert_close(online(made), online(plain), rtol=1e-4, atol=1e-6)
    fixed = trained(config("parameters", **{**KAPPA, "head.kind": head}))
    assert (online(made) - online(fixed)).abs().max() > 1e-4, "it is not the paper's pull"
    assert 0.0 < float(made.rule.metrics()["evenness"]) < 1.0


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("changes", [{}, POLYAK], ids=["periodic", "polyak"])
def test_no_pull_is_dqn_and_no_power_is_dqn_pro_bit_for_bit(
    changes: dict[str, Any], head: str
) -> None:
    kind = {"head.kind": head, **changes}
    dqn = online(trained(config("parameters", **kind)))
    pro = online(trained(config("parameters", **{**KAPPA, **kind})))
    off = trained(metric(**{**kind, "proximal.pull_per_sync": 0.0}))
    flat = trained(metric(**{**kind, POWER: 0.0}))
    assert torch.equal(online(off), dqn)
    assert off.rule.metrics() == {"kappa": 0.0}
    assert torch.equal(online(flat), pro)
    assert not torch.equal(online(trained(metric(**kind))), pro)


@pytest.mark.parametrize("changes", [{}, POLYAK, {"learner.annealed_rate": 0.0}])
@pytest.mark.parametrize("head", HEADS)
def test_a_resumed_learner_is_bit_identical(changes: dict[str, Any], head: str) -> None:
    run = metric(**{**changes, "head.kind": head})
    whole, early, late = learner(run), learner(run), learner(run)
    resumed = learner(run), learner(run)
    history = batches(60)
    for number, batch in enumerate(history):
        whole.update(batch)
        for part, stop in ((early, 5), (late, 37)):
            if number < stop:
                part.update(batch)
    for made, part, stop in zip(resumed, (early, late), (5, 37), strict=True):
        made.load(part.state())
        for batch in history[stop:]:
            made.update(batch)
        assert torch.equal(online(whole), online(made))
        assert whole.rule.metrics() == made.rule.metrics()


def test_the_pull_follows_an_annealed_rate() -> None:
    rule, _ = three(1.0, **{"learner.annealed_rate": 0.0})
    alpha = rule.config.learner.learning_rate
    for share in (1.0, 0.5, 0.0):
        weights = [torch.ones(4)]
        rule.change_weights(weights, [torch.zeros(4)], share * alpha)
        pulls = [0.1 * share * part / 7 for part in (3, 6, 12, 0)]
        assert (1.0 - weights[0]).tolist() == pytest.approx(pulls, abs=1e-7)


def test_an_invalid_power_is_named() -> None:
    with pytest.raises(UserError, match=r"invalid proximal.metric.power 2\.0: must be in \[0, 1\]"):
        metric(**{POWER: 2.0})
