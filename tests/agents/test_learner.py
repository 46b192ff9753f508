"""The learner: Algorithm 1 line by line, and its off-switches, bit for bit."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from proxrl import presets
from proxrl.agents.adam import FLUSH_PERIOD
from proxrl.agents.heads.categorical import project
from proxrl.agents.layers import WIDE
from proxrl.agents.learner import Learner
from proxrl.agents.networks import QNetwork, build_network
from proxrl.agents.noisy import noisy_layers
from proxrl.agents.weights import ALIGNMENT, gradient_of
from proxrl.config import RunConfig, validated
from proxrl.errors import RunFailed
from proxrl.proximal import Proximal
from proxrl.proximal.rules import Rule
from proxrl.types import Batch, ObservationSpec

SPEC = ObservationSpec((3,), "float32")
CPU = torch.device("cpu")


def config(**overrides: Any) -> RunConfig:
    settings = {
        "network.hidden": (16,),
        "target.period": 5,
        "target.period_unit": "updates",
        "learner.loss": "squared",
    }
    dotted = {name.replace("__", "."): value for name, value in overrides.items()}
    return validated(presets.make("dqn", "CartPole-v1", {**settings, **dotted}))


def learner(run: RunConfig) -> Learner:
    noise = np.random.default_rng(run.seed) if run.network.noisy else None
    return Learner(build_network(SPEC, 2, run.network, run.seed, run.head), run, CPU, noise)


def batches(count: int, seed: int = 0, size: int = WIDE) -> list[Batch]:
    """As large as those of the presets, from where on dense layers multiply in another order."""
    generator = torch.Generator().manual_seed(seed)
    return [
        Batch(
            states=torch.randn(size, 1, 3, generator=generator),
            actions=torch.randint(0, 2, (size,), generator=generator),
            returns=torch.randn(size, generator=generator),
            discounts=torch.full((size,), 0.9),
            next_states=torch.randn(size, 1, 3, generator=generator),
            indices=np.arange(size),
        )
        for _ in range(count)
    ]


def torch_adam(of: Learner) -> torch.optim.Adam:
    """Torch's Adam with the moments of this learner."""
    run = of._config.learner
    adam = torch.optim.Adam(of.weights, run.learning_rate, eps=run.adam_epsilon)
    adam.state[of.weights[0]] = {
        "step": of._adam.steps[0].clone(),
        "exp_avg": of._adam.mean[0].clone(),
        "exp_avg_sq": of._adam.square[0].clone(),
    }
    return adam


def online(of: Learner) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(of.online.parameters()).detach()


def target(of: Learner) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(of.target.parameters()).detach()


def test_infinite_c_is_dqn_bit_for_bit_after_2000_updates() -> None:
    dqn = learner(config())
    dqn.rule = Rule(config())  # the rule that does nothing: only Adam
    infinite = learner(config(proximal__c=math.inf))
    none = learner(config(proximal__pull_per_sync=0.0))
    pro = learner(config(proximal__c=0.05))
    for batch in batches(2000):
        for each in (dqn, infinite, none, pro):
            each.update(batch)
    assert torch.equal(online(dqn), online(infinite))
    assert torch.equal(online(dqn), online(none))
    assert not torch.equal(online(dqn), online(pro))


def test_the_learners_step_is_the_drop_ins_bit_for_bit() -> None:
    """Pull and Adam on one vector, and `Proximal` around torch's Adam with the same gradients: 200
    updates. Once on the same vector, once on every parameter: there, on some CPUs, torch's fused
    Adam rounds the last elements of a tensor, which fill no SIMD register, in another way."""
    run = config(proximal__c=0.05)
    each, whole, split = (learner(run) for _ in range(3))
    rate, epsilon = run.learner.learning_rate, run.learner.adam_epsilon

    def drop_in(weights: list[torch.Tensor], anchor: list[torch.Tensor]) -> Proximal:
        return Proximal(torch.optim.Adam(weights, rate, eps=epsilon, fused=True), anchor, c=0.05)

    parameters, anchors = (list(net.parameters()) for net in (split.online, split.target))
    steps = [drop_in(whole.weights, whole.anchor), drop_in(parameters, anchors)]
    for number, batch in enumerate(batches(200), start=1):
        each.update(batch)
        whole.weights[0].grad.copy_(each.weights[0].grad)  # the gradient is tested in test_chain.py
        for mine, its in zip(each.online.parameters(), parameters, strict=True):
            its.grad = mine.grad.clone()
        for step in steps:
            step.step()
        if number % 5 == 0:
            for twin in (whole, split):
                twin.target.load_state_dict(twin.online.state_dict())
    assert torch.equal(online(each), online(whole))
    for mine, its in zip(each.online.parameters(), parameters, strict=True):
        full = mine.numel() // ALIGNMENT * ALIGNMENT
        assert torch.equal(mine.flatten()[:full], its.flatten()[:full])
        torch.testing.assert_close(mine, its, rtol=1e-6, atol=1e-7)


def test_decayed_moments_are_flushed_every_256_updates() -> None:
    made = learner(config())
    for number, left in ((FLUSH_PERIOD - 2, True), (FLUSH_PERIOD - 1, False)):
        made.updates = number
        made._adam.mean[0].fill_(1e-35)
        made.update(batches(1)[0])
        sizes = made._adam.mean[0].abs()
        assert ((sizes > 0) & (sizes < 1e-30)).any() == left  # the gaps between parameters


def test_the_first_update_after_a_sync_is_dqns() -> None:
    """w = theta, so there is nothing to pull (Section 4). Both learners have the same history: a
    period of DQN Pro, with its sync and Adam's moments."""
    plain, pro = learner(config()), learner(config(proximal__c=1e-3))
    *period, first, second = batches(7)
    updates = [pro.update(batch) for batch in period]
    assert [update.sync_distance is not None for update in updates] == [False] * 4 + [True]
    plain.load(pro.state())
    for each in (plain, pro):
        each.update(first)
    assert torch.equal(online(plain), online(pro))
    for each in (plain, pro):
        each.update(second)
    assert not torch.equal(online(plain), online(pro)), "from the second on it pulls"


def test_the_pull_keeps_the_target_updates_small() -> None:
    """Figure 4, right, at small scale: ||theta_new - theta_old|| at each sync."""
    distances = {}
    for c in (math.inf, 2e-3):
        run = config(proximal__c=c, target__period=50)
        each = learner(run)
        updates = [each.update(batch) for batch in batches(200)]
        distances[c] = [u.sync_distance for u in updates if u.sync_distance is not None]
    assert len(distances[math.inf]) == len(distances[2e-3]) == 4
    assert distances[2e-3][0] < 0.8 * distances[math.inf][0]


def test_the_target_moves_at_syncs_only_and_the_distance_is_reported() -> None:
    each = learner(config())
    before = target(each)
    moved = []
    for number, batch in enumerate(batches(10), start=1):
        old = target(each)
        update = each.update(batch)
        if update.sync_distance is not None:
            moved.append(number)
            assert update.sync_distance == pytest.approx((target(each) - old).norm().item())
            assert torch.equal(target(each), online(each))
        elif number < 5:
            assert torch.equal(target(each), before)
    assert moved == [5, 10]


def test_the_target_is_never_trained() -> None:
    each = learner(config())
    for batch in batches(6):
        each.update(batch)
    assert not any(p.requires_grad for p in each.target.parameters())
    assert all(p.grad is None for p in (*each.target.parameters(), *each.anchor))


def test_polyak_moves_the_target_after_every_update() -> None:
    each = learner(config(target__rule="polyak", target__tau=0.25))
    for batch in batches(3):
        old = target(each)
        each.update(batch)
        torch.testing.assert_close(target(each), 0.25 * online(each) + 0.75 * old)


def test_polyak_reports_what_one_update_moved_once_per_time_constant() -> None:
    """tau = 0.25, so every fourth update; a rule hears of every move."""
    each = learner(config(target__rule="polyak", target__tau=0.25))
    heard: list[int] = []
    each.rule.synced = lambda *_: heard.append(each.updates)  # type: ignore[method-assign]
    for number, batch in enumerate(batches(8), start=1):
        old = target(each)
        moved = each.update(batch).sync_distance
        assert (moved is not None) == (number % 4 == 0)
        if moved is not None:
            assert moved.item() == pytest.approx((target(each) - old).norm().item(), rel=1e-4)
    assert heard == [1, 2, 3, 4, 5, 6, 7, 8]


def test_polyak_with_tau_one_is_a_period_of_one_update_bit_for_bit() -> None:
    polyak = learner(config(target__rule="polyak", target__tau=1.0, proximal__c=0.01))
    periodic = learner(config(target__period=1, proximal__c=0.01))
    for batch in batches(100):
        polyak.update(batch)
        periodic.update(batch)
    assert torch.equal(online(polyak), online(periodic))
    assert torch.equal(target(polyak), target(periodic))


def test_an_update_by_hand() -> None:
    """Gradient from autograd on a fresh copy, then the pull, then torch's Adam."""
    run = config(proximal__c=0.05)
    each = learner(run)
    warm, batch = batches(2)
    each.update(warm)
    twin = learner(run)
    twin.load(each.state())

    rows = torch.arange(WIDE)
    bootstrap = twin.target(batch.next_states).max(dim=1).values
    error = batch.returns + batch.discounts * bootstrap
    error = error - twin.online(batch.states)[rows, batch.actions]
    error.square().mean().backward()  # equation 5: no factor 1/2
    adam = torch_adam(twin)
    with torch.no_grad():
        strength = run.learner.learning_rate / 0.05
        for w, theta in zip(twin.online.parameters(), twin.target.parameters(), strict=True):
            w += strength * (theta - w)
    adam.step()
    each.update(batch)
    torch.testing.assert_close(online(each), online(twin), rtol=0, atol=1e-7)


def test_an_update_reports_its_results() -> None:
    each = learner(config())
    (batch,) = batches(1)
    values = each.online(batch.states)[torch.arange(WIDE), batch.actions].detach()
    update = each.update(batch)
    assert update.mean_value == pytest.approx(values.mean().item())
    assert update.loss == pytest.approx(update.priorities.square().mean().item())
    assert update.distances == (0.0, 0.0), "before the first step both networks are one"
    assert each.update(batch).distances is not None, "a period of five: every update"


@pytest.mark.parametrize("agent", ["dqn", "rainbow", "rainbow-full"])
def test_equal_networks_have_no_distance_and_no_penalty(agent: str) -> None:
    """At w = theta: no value distance and no value-space penalty, for any head and noise."""
    changes = {"network.hidden": (16,), "proximal.rule": "values", "proximal.c": 1.0}
    each = learner(presets.make(agent, "CartPole-v1", {**changes, "proximal.actions": "all"}))
    (batch,) = batches(1)
    penalties: list[float] = []
    original = each.rule.penalty

    def spy(*arguments: Any) -> Any:
        penalty = original(*arguments)
        penalties.append(penalty.item())
        return penalty

    each.rule.penalty = spy  # type: ignore[method-assign]
    assert each.update(batch).distances == (0.0, 0.0)
    each.update(batch)
    assert penalties[0] == 0.0
    assert penalties[1] > 0.0


def test_probes_see_the_networks_drift_apart() -> None:
    each = learner(config(target__period=10))
    probes = [each.update(batch).distances for batch in batches(3)]
    assert probes[2] is not None
    assert probes[2].parameters > 0
    assert probes[2].values > 0


def test_probes_by_hand_ten_times_between_two_syncs() -> None:
    """Taken before the update's own step; 45 // 10 = 4 updates apart."""
    each = learner(config(target__period=45))
    rows = torch.arange(WIDE)
    for number, batch in enumerate(batches(45)):
        apart = (online(each) - target(each)).norm().item()
        values = (each.online(batch.states) - each.target(batch.states))[rows, batch.actions]
        mean = values.abs().mean().item()
        distances = each.update(batch).distances
        assert (distances is not None) == (number % 4 == 0)
        if distances is not None:
            assert distances.parameters.item() == pytest.approx(apart, rel=1e-5, abs=1e-7)
            assert distances.values.item() == pytest.approx(mean, rel=1e-5, abs=1e-7)


def test_the_configured_loss_is_the_heads() -> None:
    each = learner(config(learner__loss="huber"))
    batch = batches(1)[0]._replace(returns=torch.linspace(-5.0, 5.0, WIDE))
    update = each.update(batch)
    errors = update.priorities
    assert errors.min() < 1.0 < errors.max(), "both parts of the loss"
    huber = torch.where(errors < 1.0, errors.square() / 2, errors - 0.5)
    assert update.loss.item() == pytest.approx(huber.mean().item())


def test_the_gradient_rules_term_goes_through_adam() -> None:
    """Autograd on h + (1/2c) ||w - theta||^2 (equation 6 as a loss), then torch's Adam."""
    run = config(proximal__rule="gradient", proximal__c=0.5)
    each, twin = learner(run), learner(run)
    warm, batch = batches(2)
    each.update(warm)
    twin.load(each.state())
    with torch.no_grad():
        best = twin.target(batch.next_states).amax(dim=1)
    chosen = twin.online(batch.states)[torch.arange(WIDE), batch.actions]
    loss = (batch.returns + batch.discounts * best - chosen).square().mean()
    pairs = zip(twin.online.parameters(), twin.target.parameters(), strict=True)
    (loss + sum((w - theta).square().sum() for w, theta in pairs) / (2 * 0.5)).backward()
    torch_adam(twin).step()
    each.update(batch)
    torch.testing.assert_close(online(each), online(twin), rtol=0, atol=1e-7)


def test_a_proximal_batch_is_for_the_penalty_alone() -> None:
    """The value rule's gradient on one batch, the TD error's on another; by autograd."""
    run = config(proximal__rule="values", proximal__c=0.5, proximal__actions="all")
    each, twin = learner(run), learner(run)
    warm, batch, other = batches(3)
    each.update(warm)
    twin.load(each.state())
    with torch.no_grad():
        best = twin.target(batch.next_states).amax(dim=1)
        anchored = twin.target(other.states)
    chosen = twin.online(batch.states)[torch.arange(WIDE), batch.actions]
    loss = (batch.returns + batch.discounts * best - chosen).square().mean()
    (loss + (twin.online(other.states) - anchored).square().mean() / 0.5).backward()
    each.update(batch, proximal_batch=other)
    for mine, its in zip(each.online.parameters(), twin.online.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad)


def test_double_is_a_switch() -> None:
    single, double = learner(config()), learner(config(learner__double=True))
    for batch in batches(20):
        single.update(batch)
        double.update(batch)
    assert not torch.equal(online(single), online(double))


def test_rainbow_pro_with_infinite_c_is_rainbow_bit_for_bit() -> None:
    small = {"network.hidden": (16,), "target.period": 10}
    plain, pro = (
        learner(presets.make(agent, "CartPole-v1", {**small, **more}))
        for agent, more in (("rainbow", {}), ("rainbow-pro", {"proximal.c": math.inf}))
    )
    pulled = learner(presets.make("rainbow-pro", "CartPole-v1", small))
    for batch in batches(100):
        for each in (plain, pro, pulled):
            each.update(batch)
    assert torch.equal(online(plain), online(pro))
    assert not torch.equal(online(plain), online(pulled))


@pytest.mark.parametrize("double", [False, True])
def test_a_categorical_update_by_hand(double: bool) -> None:
    """Cross-entropy with the projected target of the greedy action, weighted, then Adam; with
    double DQN the online network selects and the target network evaluates."""
    small = {"network.hidden": (16,), "head.v_min": -2.0, "head.v_max": 2.0, "head.atoms": 5}
    run = presets.make("rainbow", "CartPole-v1", {**small, "learner.double": double})
    each, twin = learner(run), learner(run)
    *warm, batch = batches(60)
    for one in warm:
        each.update(one)
    twin.load(each.state())
    weights = torch.linspace(0.2, 1.0, WIDE)

    rows, support = torch.arange(WIDE), torch.linspace(-2.0, 2.0, 5)
    with torch.no_grad():
        probabilities = twin.target.outputs(batch.next_states).softmax(dim=2)
        greedy = (probabilities * support).sum(dim=2).argmax(dim=1)
        chosen = twin.online(batch.next_states).argmax(dim=1)
        assert not torch.equal(greedy, chosen), "the networks disagree, or nothing is tested"
        best = chosen if double else greedy
        targets = project(probabilities[rows, best], batch, support)
    log_p = twin.online.outputs(batch.states)[rows, batch.actions].log_softmax(dim=1)
    losses = -(targets * log_p).sum(dim=1)
    (weights * losses).mean().backward()
    torch_adam(twin).step()

    update = each.update(batch._replace(weights=weights))
    torch.testing.assert_close(online(each), online(twin), rtol=0, atol=1e-7)
    torch.testing.assert_close(update.priorities, losses.detach())
    assert update.loss == pytest.approx((weights * losses).mean().item())
    assert update.mean_value == pytest.approx((log_p.exp() @ support).mean().item(), abs=1e-6)


def rates(run: RunConfig, count: int) -> list[float]:
    each, seen = learner(run), []
    for batch in batches(count):
        seen.append(each.learning_rate)
        each.update(batch)
    return seen


def test_the_step_size_decays_between_syncs_and_restarts() -> None:
    """alpha = 5e-4 to alpha' = 1e-4 over five updates, by hand."""
    seen = rates(config(learner__annealed_rate=1e-4), 7)
    assert seen == pytest.approx([5e-4, 4e-4, 3e-4, 2e-4, 1e-4, 5e-4, 4e-4])
    assert rates(config(learner__annealed_rate=1e-4, target__period=1), 2) == [5e-4, 5e-4]
    two = rates(config(learner__annealed_rate=1e-4, target__period=2), 3)
    assert two == pytest.approx([5e-4, 1e-4, 5e-4])


def test_annealing_to_the_same_rate_is_no_annealing_bit_for_bit() -> None:
    plain = learner(config(proximal__c=0.05))
    annealed = learner(config(proximal__c=0.05, learner__annealed_rate=5e-4))
    for batch in batches(200):
        plain.update(batch)
        annealed.update(batch)
    assert torch.equal(online(plain), online(annealed))


def test_the_pull_uses_the_annealed_rate() -> None:
    """At the last update before a sync alpha' = 0: neither Adam nor the pull moves w, which
    differs from theta by then. With the initial rate the pull would take 1% of the distance."""
    each = learner(config(proximal__c=0.05, learner__annealed_rate=0.0))
    *first, last = batches(5)
    for batch in first:
        each.update(batch)
    before = online(each)
    assert not torch.equal(before, target(each))
    each.update(last)
    assert torch.equal(online(each), before)


def test_annealing_continues_from_a_checkpoint() -> None:
    run = config(learner__annealed_rate=1e-5)
    whole, part = learner(run), learner(run)
    history = batches(30)
    for batch in history[:13]:  # between two syncs
        whole.update(batch)
        part.update(batch)
    resumed = learner(run)
    resumed.load(part.state())
    for batch in history[13:]:
        whole.update(batch)
        resumed.update(batch)
    assert torch.equal(online(whole), online(resumed))


SCHEDULE = {  # four updates: (14 - 10 steps of warm-up) / 1
    "replay__warmup_steps": 10,
    "replay__batch_size": 8,
    "learner__update_period_steps": 1,
    "learner__final_rate": 1e-4,
    "steps": 14,
}


def test_a_linear_schedule_decays_to_the_final_rate_and_stays_there() -> None:
    """5e-4 to 1e-4 over four updates, by hand."""
    seen = rates(config(learner__rate_schedule="linear", **SCHEDULE), 7)
    assert seen == pytest.approx([5e-4, 4e-4, 3e-4, 2e-4, 1e-4, 1e-4, 1e-4], abs=1e-12)
    own = {**SCHEDULE, "steps": 1000, "learner__rate_schedule_steps": 14}
    assert rates(config(learner__rate_schedule="linear", **own), 7) == seen
    twice = {**SCHEDULE, "learner__updates_per_step": 2}  # eight updates
    assert rates(config(learner__rate_schedule="linear", **twice), 8)[::2] == seen[:4]


def test_a_cosine_schedule_decays_to_the_final_rate_and_stays_there() -> None:
    """1e-4 + 4e-4 (1 + cos(pi k / 4)) / 2, by hand."""
    seen = rates(config(learner__rate_schedule="cosine", **SCHEDULE), 6)
    by_hand = [5e-4, 4.414213562e-4, 3e-4, 1.585786438e-4, 1e-4, 1e-4]
    assert seen == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_to_the_same_rate_is_constant_bit_for_bit(schedule: str) -> None:
    plain = learner(config(proximal__c=0.05))
    rules = {**SCHEDULE, "learner__final_rate": 5e-4, "learner__rate_schedule": schedule}
    scheduled = learner(config(proximal__c=0.05, **rules))
    for batch in batches(50):
        plain.update(batch)
        scheduled.update(batch)
    assert torch.equal(online(plain), online(scheduled))


def test_adam_and_the_pull_use_the_scheduled_rate() -> None:
    """After the schedule alpha = 0: neither moves w, which differs from theta by then."""
    rules = {**SCHEDULE, "learner__final_rate": 0.0, "target__period": 100}
    each = learner(config(proximal__c=0.05, learner__rate_schedule="linear", **rules))
    *first, last = batches(5)
    for batch in first:
        each.update(batch)
    before = online(each)
    assert not torch.equal(before, target(each))
    each.update(last)
    assert torch.equal(online(each), before)


def test_a_schedule_continues_from_a_checkpoint() -> None:
    run = config(learner__rate_schedule="cosine", **{**SCHEDULE, "steps": 40})
    whole, resumed = learner(run), learner(run)
    history = batches(30)
    for batch in history[:13]:
        whole.update(batch)
    resumed.load(whole.state())
    for batch in history[13:]:
        whole.update(batch)
        resumed.update(batch)
    assert torch.equal(online(whole), online(resumed))


class Written(Rule):
    """Keeps the gradient that Adam is given."""

    def change_gradient(self, weights: list[torch.Tensor], anchor: list[torch.Tensor]) -> None:
        self.seen = [gradient_of(weight).clone() for weight in weights]


def autograd_network(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """A network whose gradient is torch's, not written out."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, outputs))


@pytest.mark.parametrize("kind", ["mlp", "tests.agents.test_learner:autograd_network"])
def test_a_long_gradient_is_scaled_to_the_largest_norm(kind: str) -> None:
    """g becomes g x 0.01 / ||g||, a short one stays as it is, bit for bit."""
    plain, clipped, loose = (
        learner(config(network__kind=kind, learner__max_gradient_norm=norm))
        for norm in (None, 0.01, 1e6)
    )
    for each in (plain, clipped, loose):
        each.rule = Written(config())
        each.update(batches(1)[0])
    [whole], [scaled], [same] = (each.rule.seen for each in (plain, clipped, loose))  # type: ignore[attr-defined]
    norm = math.sqrt(sum(number**2 for number in whole.tolist()))
    assert norm > 0.1, "or nothing is tested"
    torch.testing.assert_close(scaled, whole * (0.01 / norm), rtol=1e-4, atol=1e-9)
    assert torch.equal(same, whole)
    assert torch.equal(online(loose), online(plain))


def test_a_gradient_is_clipped_by_hand() -> None:
    """||(3, 4)|| = 5 is scaled to 1: (0.6, 0.8), of all vectors together."""
    each = learner(config(learner__max_gradient_norm=1.0))
    each.weights = [torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)]
    each.weights[0].grad, each.weights[1].grad = torch.tensor([3.0]), torch.tensor([4.0])
    each.clip_gradient()
    found = [gradient_of(weight).item() for weight in each.weights]
    assert found == pytest.approx([0.6, 0.8], abs=1e-6)


def test_the_pull_is_not_part_of_the_clipped_gradient() -> None:
    """With a gradient scaled to nearly 0, the rule `gradient` still adds (w - theta)/c to it."""
    run = config(proximal__rule="gradient", proximal__c=0.5, learner__max_gradient_norm=1e-12)
    each = learner(run)
    with torch.no_grad():
        each.weights[0] += 1.0
    pull = (each.weights[0] - each.anchor[0]).detach() / 0.5
    each.update(batches(1)[0])
    torch.testing.assert_close(gradient_of(each.weights[0]), pull)


def test_noise_is_new_for_every_update_and_from_the_learners_generator() -> None:
    one, same, other = (learner(config(network__noisy=True, seed=seed)) for seed in (0, 0, 0))
    other._noise = np.random.default_rng(7)
    for batch in batches(5):
        for each in (one, same, other):
            each.update(batch)
    assert torch.equal(online(one), online(same))
    assert not torch.equal(online(one), online(other))


def test_noise_comes_from_the_generator_that_is_given_or_from_the_seed() -> None:
    run = config(network__noisy=True, seed=3)

    def after_updates(noise: np.random.Generator | None) -> torch.Tensor:
        network = build_network(SPEC, 2, run.network, run.seed, run.head)
        each = Learner(network, run, CPU, noise)
        for batch in batches(3):
            each.update(batch)
        return online(each)

    by_seed = after_updates(None)
    assert torch.equal(by_seed, after_updates(np.random.default_rng(3)))
    assert not torch.equal(by_seed, after_updates(np.random.default_rng(7)))


def test_noise_for_an_action_is_the_online_networks_alone() -> None:
    each = learner(config(network__noisy=True))
    (first, *_), (its, *_) = (noisy_layers(network) for network in (each.online, each.target))
    each.draw_noise()
    before = first.noise_in.clone()
    each.draw_noise()
    assert not torch.equal(first.noise_in, before)
    assert not first.silent
    assert its.silent
    assert not its.noise_in.any()
    each.update(batches(1)[0])  # draws for both, and not the same
    assert its.noise_in.all()
    assert not torch.equal(its.noise_in, first.noise_in)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_non_finite_loss_stops_with_a_diagnosis(poison: float) -> None:
    """Losses are checked later, several at a time: the first invalid one is named."""
    each = learner(config())
    good, bad, after = batches(3)
    updates = [
        each.update(batch)
        for batch in (good, bad._replace(returns=torch.full((WIDE,), poison)), after)
    ]
    losses = [update.loss.item() for update in updates]
    values = [update.mean_value.item() for update in updates]
    each.require_finite(losses[:1], values[:1])
    with pytest.raises(RunFailed, match=r"at update 2 .*smaller learning rate"):
        each.require_finite(losses, values)


@pytest.mark.parametrize(
    ("agent", "loss"), [("dqn", "loss huber"), ("rainbow", "loss cross-entropy")]
)
def test_the_diagnosis_names_the_loss(agent: str, loss: str) -> None:
    each = learner(presets.make(agent, "CartPole-v1", {"learner.loss": "huber"}))
    with pytest.raises(RunFailed, match=rf"mean Q of the batch 2\.5, .*{loss}\)"):
        each.require_finite([math.nan], [2.5])


def test_non_finite_weights_are_never_saved() -> None:
    each = learner(config())
    each.weights[0].data[0] = math.nan
    with pytest.raises(RunFailed, match="non-finite weights after update 0"):
        each.state()


def test_a_restored_state_continues_bit_for_bit() -> None:
    run = config(proximal__c=0.05)
    whole, part = learner(run), learner(run)
    history = batches(30)
    for batch in history[:13]:
        whole.update(batch)
        part.update(batch)
    state = part.state()
    part.update(history[0])  # later updates do not change the copy
    resumed = learner(config(proximal__c=0.05, seed=9))
    arrays = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
    resumed.load(arrays)  # as they come out of a file
    for batch in history[13:]:
        whole.update(batch)
        resumed.update(batch)
    assert torch.equal(online(whole), online(resumed))
    assert torch.equal(target(whole), target(resumed))


def test_a_rules_state_may_hold_plain_values() -> None:
    each = learner(config())
    each.rule.state = lambda: {"count": 3, "mean": torch.ones(2)}  # type: ignore[method-assign]
    state = each.state()
    assert state["rule.count"] == 3
    assert state["rule.mean"].tolist() == [1.0, 1.0]


def test_frozen_and_unused_weights_stay_where_they_are() -> None:
    """Custom networks may have such weights."""
    run = config(proximal__c=0.05)
    network = build_network(SPEC, 2, run.network, run.seed, run.head)
    network.body.layers[0].weight.requires_grad_(False)
    network.body.unused = torch.nn.Linear(2, 2)
    network = QNetwork(network.body, 2, run.head, dueling=False)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    each = Learner(network, run, CPU)
    for batch in batches(12):
        each.update(batch)
    moved = {name for name, p in network.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"body.layers.0.bias", "body.last.weight", "body.last.bias"}


class NoWaiting(TorchDispatchMode):
    """Fails where a value is read from a tensor, for which a GPU would have to be waited for."""

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), words: Any = None
    ) -> Any:
        assert function is not torch.ops.aten._local_scalar_dense.default, "a value was read"
        return function(*arguments, **(words or {}))


RARE_SYNCS = {"target__period": 50}  # at a sync these rules read a value


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"proximal__c": 0.1},
        {"proximal__rule": "gradient", "proximal__c": 0.1},
        {"proximal__rule": "values", "proximal__c": 1.0},
        {"proximal__rule": "metric", "proximal__c": 0.1},
        {"proximal__rule": "accelerated", "proximal__c": 0.1, **RARE_SYNCS},
        {"proximal__rule": "scheduled", **RARE_SYNCS},
        {"proximal__rule": "adaptive", "proximal__adaptive__warmup_updates": 1, **RARE_SYNCS},
        {
            "proximal__rule": "adaptive-layers",
            "proximal__adaptive__warmup_updates": 1,
            **RARE_SYNCS,
        },
        {"head__kind": "categorical", "learner__double": True},
        {"network__noisy": True, "network__dueling": True},
    ],
    ids=str,
)
def test_an_update_reads_no_value_from_a_tensor(settings: dict[str, Any]) -> None:
    made = learner(config(**settings))
    first, *others = batches(24)  # the adaptive rules measure at every tenth update
    made.update(first)
    with NoWaiting():
        for batch in others:
            made.update(batch)
    with pytest.raises(AssertionError, match="a value was read"), NoWaiting():
        made.update(first).loss.item()
