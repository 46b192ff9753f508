"""The rule accelerated: Nesterov's sequence by hand, the monitor, off-switches, resumes."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proxrl.agents.layers import WIDE
from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.proximal.rules import Accelerated
from proxrl.types import Batch
from tests.agents.test_learner import batches, learner, online, target
from tests.proximal.test_adaptive import POLYAK, config, trained

KAPPA = {"proximal.pull_per_sync": 1.0}
UNMONITORED = {"proximal.accelerated.monitored": False}
MOMENTUM = "proximal.accelerated.momentum_max"
HEADS = ["expected", "categorical"]


def accelerated(**changes: Any) -> RunConfig:
    return config("accelerated", **{**KAPPA, **changes})


class Line:
    """One weight and its target; the rule pulls halfway (alpha/c = 0.5). h(w) = `loss`(w)."""

    def __init__(self, loss: Any = None, **changes: Any) -> None:
        halfway = {"learner.learning_rate": 0.1, "proximal.c": 0.2, "proximal.pull_per_sync": None}
        self.rule = Accelerated(accelerated(**{**halfway, **changes}))
        self.w, self.theta = [torch.zeros(1)], [torch.zeros(1)]
        self.rule.loss = lambda batch: loss(self.w[0])

    def sync_at(self, w: float) -> float:
        """The momentum after a sync of these weights."""
        self.rule.penalty(nn.Module(), nn.Module(), BATCH)
        self.w[0].fill_(w)
        self.theta[0].fill_(w)
        self.rule.synced(self.w, self.theta)
        assert self.w[0].item() == self.theta[0].item() == w, "a sync of the rule moves nothing"
        return self.rule.momentum

    def pulled(self, w: float) -> float:
        """w after a pull."""
        self.w[0].fill_(w)
        self.rule.change_weights(self.w, self.theta, 0.1)
        return self.w[0].item()


BATCH = Batch(*[torch.zeros(1)] * 5, np.arange(1))


def test_the_anchor_is_extrapolated_by_nesterovs_sequence() -> None:
    """t = 1, 1.61803, 2.19353, 2.74979; m = (t_{k-1} - 1)/t_k = 0, 0.281753, 0.434043."""
    line = Line(**UNMONITORED)
    line.theta[0].fill_(8.0)
    assert line.pulled(4.0) == 6.0, "towards theta before the first sync"
    assert line.sync_at(1.0) == 0.0
    assert line.pulled(2.0) == 1.5, "towards theta = w_1"
    assert line.sync_at(3.0) == pytest.approx(0.281753, abs=1e-6)
    # y_2 = 3 + 0.281753 (3 - 1) = 3.563507
    assert line.pulled(4.0) == pytest.approx(4.0 + 0.5 * (3.563507 - 4.0), abs=1e-6)
    assert line.sync_at(2.0) == pytest.approx(0.434043, abs=1e-6)
    # y_3 = 2 + 0.434043 (2 - 3) = 1.565957
    assert line.pulled(0.0) == pytest.approx(0.5 * 1.565957, abs=1e-6)


def test_the_momentum_is_bounded_and_tends_to_1() -> None:
    free, bounded = Line(**UNMONITORED), Line(**UNMONITORED, **{MOMENTUM: 0.4})
    seen = [(free.sync_at(float(k)), bounded.sync_at(float(k))) for k in range(300)]
    assert [m for m, _ in seen] == sorted(m for m, _ in seen)
    assert 0.98 < seen[-1][0] < 1.0
    assert [b for _, b in seen] == [min(m, 0.4) for m, _ in seen]


def test_the_monitor_falls_back_to_the_plain_anchor_and_restarts() -> None:
    """h(w) = |w - 3.2|: y = 3.56 is worse than w = 3, by 0.16; y = 3.18 better than 3."""
    line = Line(lambda w: (w - 3.2).abs().sum())
    assert line.sync_at(1.0) == 0.0
    assert line.sync_at(3.0) == 0.0
    assert line.rule.metrics() == {"momentum": 0.0, "rejected": 1.0}
    assert line.pulled(4.0) == 3.5, "towards theta"
    assert line.sync_at(2.375) == 0.0, "t = 1 again"
    assert line.rule.metrics() == {"momentum": 0.0, "rejected": 0.0}
    assert line.sync_at(3.0) == pytest.approx(0.281753, abs=1e-6)
    # y = 3 + 0.281753 x 0.625 = 3.176096
    assert line.pulled(3.0) == pytest.approx(3.088048, abs=1e-6)


def test_a_loss_that_is_not_a_number_is_rejected_and_an_equal_one_is_not() -> None:
    worse, equal = Line(lambda w: w.sum() * math.nan), Line(lambda w: w.sum() * 0.0)
    for line in (worse, equal):
        line.sync_at(1.0)
        line.sync_at(3.0)
    assert worse.rule.rejected
    assert not equal.rule.rejected


class Naive:
    """The same from its definition, on the weights at every sync so far."""

    def __init__(self, first: Tensor) -> None:
        self.synced = [first]
        self.t = [1.0]

    def anchor(self) -> Tensor:
        if len(self.synced) < 3:
            return self.synced[-1]
        m = (self.t[-2] - 1) / self.t[-1]
        return (1 + m) * self.synced[-1] - m * self.synced[-2]

    def sync(self, weights: Tensor) -> None:
        self.synced.append(weights.clone())
        self.t.append((1 + math.sqrt(1 + 4 * self.t[-1] ** 2)) / 2)


@pytest.mark.parametrize("head", HEADS)
def test_a_learner_is_pulled_towards_the_extrapolated_anchor(head: str) -> None:
    """Against a learner whose weights are pulled by hand before each update's Adam step."""
    made = learner(accelerated(**{**UNMONITORED, "head.kind": head}))
    naive = Naive(made.weights[0].detach().clone())

    def by_hand(weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        weights[0].add_(rate / made.rule.c * (naive.anchor() - weights[0]))

    plain = learner(config("parameters", **{"head.kind": head}))
    plain.rule.change_weights = by_hand
    plain.rule.synced = lambda weights, anchor: naive.sync(anchor[0])
    for batch in batches(60):
        made.update(batch)
        plain.update(batch)
    torch.testing.assert_close(online(made), online(plain), rtol=1e-4, atol=1e-6)
    fixed = trained(config("parameters", **{**KAPPA, "head.kind": head}))
    assert (online(made) - online(fixed)).abs().max() > 1e-3, "it is not the paper's pull"


def test_the_monitor_compares_losses_of_the_learner_on_the_first_batch_of_a_period() -> None:
    made = learner(accelerated())
    history = batches(20)
    for batch in history[:19]:
        made.update(batch)
    asked: list[tuple[Tensor, Tensor]] = []
    losses = made.rule.loss

    def watched(batch: Batch) -> Tensor:
        assert torch.equal(batch.states, history[10].states)
        asked.append((online(made), losses(batch)))
        return asked[-1][1]

    made.rule.loss = watched
    first = target(made)
    made.update(history[19])
    (at_w, plain), (at_y, moved) = asked
    assert torch.equal(at_w, online(made)), "and the weights are back"
    torch.testing.assert_close(at_y, at_w + 0.281753 * (at_w - first), rtol=1e-5, atol=1e-6)
    assert made.rule.rejected == (moved.item() > plain.item())


@pytest.mark.parametrize("head", HEADS)
def test_no_pull_is_dqn_and_no_momentum_is_dqn_pro_bit_for_bit(head: str) -> None:
    kind = {"head.kind": head}
    dqn = online(trained(config("parameters", **kind)))
    pro = online(trained(config("parameters", **{**KAPPA, **kind})))
    off = trained(accelerated(**{**kind, "proximal.pull_per_sync": 0.0}))
    still = trained(accelerated(**{**kind, MOMENTUM: 0.0}))
    on = trained(accelerated(**kind))
    assert torch.equal(online(off), dqn)
    assert torch.equal(online(still), pro)
    assert not torch.equal(online(on), pro)


@pytest.mark.parametrize("stop", [5, 10, 37, 40])
@pytest.mark.parametrize("agent", ["dqn", "rainbow"])
def test_a_resumed_learner_is_bit_identical(agent: str, stop: int) -> None:
    """Resumed before the first sync, at a sync, and between two."""
    run = config("accelerated", agent, **KAPPA)
    whole, part, resumed = learner(run), learner(run), learner(run)
    history = [batch._replace(weights=torch.linspace(0.1, 1.0, WIDE)) for batch in batches(80)]
    for number, batch in enumerate(history):
        whole.update(batch)
        if number < stop:
            part.update(batch)
    resumed.load(part.state())
    for batch in history[stop:]:
        resumed.update(batch)
    assert torch.equal(online(whole), online(resumed))
    assert whole.rule.metrics() == resumed.rule.metrics()
    assert {**whole.rule.state()}.keys() == {**resumed.rule.state()}.keys()


def test_the_monitors_batch_is_a_copy() -> None:
    """The replay refills the memory of its batches."""
    rule = Line().rule
    states = torch.zeros(4, 2).T
    rule.penalty(nn.Module(), nn.Module(), BATCH._replace(states=states))
    states.fill_(7.0)
    assert rule._batch is not None
    assert rule._batch.states.sum() == 0.0
    assert rule._batch.states.is_contiguous()


def test_polyak_targets_are_refused() -> None:
    with pytest.raises(UserError, match=r"invalid proximal.rule accelerated: needs target.rule ="):
        accelerated(**POLYAK)
    with pytest.raises(UserError, match=r"accelerated.momentum_max 1\.5: must be in \[0, 1\]"):
        accelerated(**{MOMENTUM: 1.5})
