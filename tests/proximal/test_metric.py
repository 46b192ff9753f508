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


SQUARES = (1.0, 4.0, 16.0)
EPSILON = 0.5  # of Adam: the squares of its steps are 4/9, 16/25 and 64/81


def moved(square: float) -> float:
    return square / (square**0.5 + EPSILON) ** 2


def by_hand(power: float) -> list[float]:
    """d of the three, and 0 for the padding."""
    mean = sum(moved(v) * v**power for v in SQUARES) / sum(map(moved, SQUARES))
    return [*(v**power / mean for v in SQUARES), 0.0]


class Three:
    """Adam's second moments of three parameters, in a vector with an element of padding."""

    betas = (0.9, 0.999)

    def __init__(self) -> None:
        self.mean = [torch.zeros(4)]
        self.square = [torch.tensor([*SQUARES, 0.0])]
        self.steps = [torch.tensor(1e6)]

    def views(self, vectors: list[Tensor]) -> dict[str, Tensor]:
        return {"a": vectors[0][:1], "b": vectors[0][1:3]}


def three(kappa: float, **changes: Any) -> tuple[Metric, list[list[float]]]:
    """Pulls of weights 1 towards 0 in 11 updates without a gradient; syncs every 10."""
    settings = {"learner.adam_epsilon": EPSILON, "proximal.pull_per_sync": kappa}
    rule = Metric(metric(**{**changes, **settings}))
    rule.moments = Three()  # type: ignore[assignment]
    seen = []
    for _ in range(11):
        weights = [torch.ones(4)]
        rule.change_weights(weights, [torch.zeros(4)], rule.config.learner.learning_rate)
        seen.append((1.0 - weights[0]).tolist())
    return rule, seen


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_weights_are_pulled_in_proportion_to_a_power_of_v(power: float) -> None:
    """kappa = 1 over 10 updates is a pull of 0.1, on average, and the paper's in the first 10."""
    rule, seen = three(1.0, **{POWER: power})
    for pulls in seen[:10]:
        assert pulls == pytest.approx([0.1] * 4)
    shares = by_hand(power)
    assert seen[10] == pytest.approx([0.1 * share for share in shares], abs=1e-7)
    evenness = sum(shares) ** 2 / 3 / sum(share**2 for share in shares)
    assert dict(rule.metrics()) == pytest.approx({"kappa": 1.0, "evenness": evenness})


def test_no_weight_overshoots_and_kappa_says_what_was_lost() -> None:
    """kappa = 7: a mean pull of 0.7, of which the last weight's 1.05 becomes 1."""
    rule, seen = three(7.0)
    first, second, third, _ = (0.7 * share for share in by_hand(0.5))
    assert third > 1.0
    assert seen[10] == pytest.approx([first, second, 1.0, 0.0])
    lost = moved(16.0) * (third - 1.0) / sum(map(moved, SQUARES))
    assert float(rule.metrics()["kappa"]) == pytest.approx(7.0 - 10 * lost)


def test_no_weight_overshoots_where_annealing_raises_the_rate() -> None:
    alpha = metric().learner.learning_rate
    rule, _ = three(7.0, **{"learner.annealed_rate": 1.4 * alpha})
    weights = [torch.ones(4)]
    rule.change_weights(weights, [torch.zeros(4)], 1.4 * alpha)
    assert min(weights[0].tolist()) == pytest.approx(0.0, abs=1e-6)


def test_kappa_keeps_its_meaning() -> None:
    """Of a steady displacement in which weights move as Adam moves them, a small kappa keeps the
    same squared length as the paper's pull, although a few weights are pulled a hundred times as
    much as most."""
    kappa, period = 0.05, 10
    squares = torch.logspace(-9, -3, 301)
    rule = Metric(metric(**{"learner.adam_epsilon": 3e-4, "proximal.pull_per_sync": kappa}))
    rule.moments = Three()  # type: ignore[assignment]
    rule.moments.square[0] = squares
    rule.moments.mean[0] = torch.zeros(301)
    rule.moments.views = lambda vectors: {"all": vectors[0]}  # type: ignore[method-assign]
    for _ in range(period + 1):
        rule.change_weights([torch.zeros(301)], [torch.zeros(301)], 1e-3)
    steps = squares.sqrt() / (squares.sqrt() + 3e-4)
    anchor, weights = torch.zeros(301), torch.zeros(301)
    rule._acts = False  # the metric stays
    for _ in range(period):
        rule.change_weights([weights], [anchor], rule.config.learner.learning_rate)
        weights += steps
    kept = weights.norm() / (period * steps).norm()
    by_the_paper = sum((1 - kappa / period) ** k for k in range(period)) / period
    assert 1.0 - float(kept) == pytest.approx(1.0 - by_the_paper, rel=0.05)
    assert rule.metric[0].max() / rule.metric[0].median() > 10


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

    def pulled(weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        nonlocal number, shares
        if number and number % 10 == 0:
            square, steps = plain.rule.moments.square[0], plain.rule.moments.steps[0]
            corrected = (square / (1 - 0.999**steps)).sqrt()
            moves = (corrected / (corrected + made.rule.config.learner.adam_epsilon)).square()
            shares = square.sqrt() * moves.sum() / (moves * square.sqrt()).sum()
        number += 1
        weights[0].add_(rate / made.rule.c * shares * (anchor[0] - weights[0]))

    plain.rule.change_weights = pulled
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
        nested = [one for one in part.state().values() if isinstance(one, dict)]
        assert not any(isinstance(one, Tensor) for inner in nested for one in inner.values())


def test_the_pull_follows_an_annealed_rate() -> None:
    rule, _ = three(1.0, **{"learner.annealed_rate": 0.0})
    alpha = rule.config.learner.learning_rate
    for share in (1.0, 0.5, 0.0):
        weights = [torch.ones(4)]
        rule.change_weights(weights, [torch.zeros(4)], share * alpha)
        pulls = [0.1 * share * part for part in by_hand(0.5)]
        assert (1.0 - weights[0]).tolist() == pytest.approx(pulls, abs=1e-7)


def test_an_invalid_power_is_named() -> None:
    with pytest.raises(UserError, match=r"invalid proximal.metric.power 2\.0: must be in \[0, 1\]"):
        metric(**{POWER: 2.0})
