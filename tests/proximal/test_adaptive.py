"""Rules that set kappa themselves: off-switches, resumes, and what they set it to."""

import math
from typing import Any

import pytest
import torch

from proxrl import presets
from proxrl.agents.learner import Learner
from proxrl.config import RunConfig, validated
from proxrl.errors import UserError
from proxrl.proximal.kappa import kappa_of, signal_shares
from tests.agents.test_learner import batches, learner, online

ADAPTIVE = ("adaptive", "adaptive-layers")
QUICK = {"proximal.adaptive.warmup_updates": 20, "proximal.adaptive.smoothing": 0.5}
POLYAK = {"target.rule": "polyak", "target.tau": 0.1}


def config(rule: str, agent: str = "dqn", **changes: Any) -> RunConfig:
    """N = 10 updates per sync."""
    small = {"network.hidden": (16,), "target.period": 10, "target.period_unit": "updates"}
    settings = {**small, "proximal.rule": rule, **changes}
    return validated(presets.make(agent, "CartPole-v1", settings))


def trained(run: RunConfig, count: int = 60) -> Learner:
    made = learner(run)
    for batch in batches(count):
        made.update(batch)
    return made


@pytest.mark.parametrize("head", ["expected", "categorical"])
@pytest.mark.parametrize("rule", ADAPTIVE)
def test_a_largest_kappa_of_0_is_dqn_bit_for_bit(rule: str, head: str) -> None:
    off = {**QUICK, "proximal.adaptive.kappa_max": 0.0, "head.kind": head}
    plain = trained(config("parameters", **{"head.kind": head}))
    assert torch.equal(online(trained(config(rule, **off))), online(plain))
    on = trained(config(rule, **{**QUICK, "head.kind": head}))
    assert not torch.equal(online(on), online(plain)), "the switch switches something"


def test_a_schedule_from_0_to_0_is_dqn_and_from_1_to_1_the_papers_pull() -> None:
    def scheduled(kappa: float) -> RunConfig:
        ends = {"proximal.scheduled.first": kappa, "proximal.scheduled.last": kappa}
        return config("scheduled", **ends)

    assert torch.equal(online(trained(scheduled(0.0))), online(trained(config("parameters"))))
    pulled = config("parameters", **{"proximal.pull_per_sync": 1.0})
    assert torch.equal(online(trained(scheduled(1.0))), online(trained(pulled)))


def test_a_schedule_rises_linearly_and_stays() -> None:
    run = config(
        "scheduled",
        **{
            "proximal.scheduled.first": 0.5,
            "proximal.scheduled.last": 1.5,
            "proximal.scheduled.steps": 8,
            "learner.update_period_steps": 2,
        },
    )
    made = learner(run)
    seen = [made.update(batch).rule["kappa"] for batch in batches(6)]
    assert seen == [0.5, 0.75, 1.0, 1.25, 1.5, 1.5]


@pytest.mark.parametrize("rule", ADAPTIVE)
def test_bounds_that_meet_are_the_papers_pull_after_the_warmup(rule: str) -> None:
    """Warm-up of 20 updates and syncs every 10: the pull begins with update 30."""
    bounds = {"proximal.adaptive.kappa_min": 0.5, "proximal.adaptive.kappa_max": 0.5}
    adaptive = learner(config(rule, **{**QUICK, **bounds}))
    fixed = learner(config("parameters", **{"proximal.pull_per_sync": 0.5}))
    plain = learner(config("parameters"))
    history = batches(60)
    for number, batch in enumerate(history):
        if number == 30:
            assert torch.equal(online(adaptive), online(plain)), "no pull before"
            fixed.load(plain.state())
        for each in (adaptive, plain if number < 30 else fixed):
            each.update(batch)
    torch.testing.assert_close(online(adaptive), online(fixed), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("changes", [{}, POLYAK], ids=["periodic", "polyak"])
def test_kappa_is_what_the_moments_say_at_the_sync(changes: dict[str, Any]) -> None:
    """Without smoothing: from the moments before update 20, applied from update 30 on."""
    settings = {"proximal.adaptive.smoothing": 0.0, "proximal.adaptive.kappa_max": 1e6}
    made = learner(config("adaptive", **{**QUICK, **settings, **changes}))
    history = [batch._replace(returns=batch.returns + 3.0) for batch in batches(40)]  # some signal
    for batch in history[:20]:
        made.update(batch)
    signal = signal_shares(made.rule.moments, together=True).double()
    for batch in history[20:30]:
        assert made.update(batch).rule == {"kappa": 0.0}
    for batch in history[30:]:
        kappa = float(kappa_of(signal, 10, tau=changes.get("target.tau", 1.0)).clamp(max=10))
        expected = {"kappa": kappa, "signal": float(signal)}
        assert made.update(batch).rule == pytest.approx(expected)
    assert 0.0 < float(signal) < 1.0


def test_layers_have_kappas_of_their_own() -> None:
    made = trained(config("adaptive-layers", **{**QUICK, "proximal.adaptive.kappa_max": 50.0}))
    metrics = made.rule.metrics()
    named = {name: value for name, value in metrics.items() if name.startswith("kappa/")}
    names = [name for name, weight in made.online.named_parameters() if weight.requires_grad]
    assert list(named) == [f"kappa/{name}" for name in names]
    assert len(set(named.values())) > 1
    assert min(named.values()) < metrics["kappa"] < max(named.values())
    sizes = [weight.numel() for weight in made.online.parameters()]
    for name, values in (("kappa", made.rule.kappas), ("signal", made.rule.signals)):
        mean = sum(v * size for v, size in zip(values, sizes, strict=True)) / sum(sizes)
        assert metrics[name] == pytest.approx(mean), "the mean over all weights"


def test_each_layer_is_pulled_by_its_own_kappa() -> None:
    made = trained(config("adaptive-layers", **QUICK))
    names = [name for name, _ in made.online.named_parameters()]
    made.rule.estimate.kappas = [0.5 * number for number in range(len(names))]
    before = [weight.detach().clone() for weight in made.online.parameters()]
    for theta in made.anchor:
        theta.add_(1.0)
    made.rule.pull(made.weights, made.anchor, made.rule.estimate.strengths)
    pairs = zip(made.online.parameters(), before, made.target.parameters(), strict=True)
    for number, (weight, old, theta) in enumerate(pairs):
        expected = old + 0.05 * number * (theta - old)  # kappa/N, N = 10
        torch.testing.assert_close(weight.detach(), expected)


def test_the_pull_is_kappa_over_n_whatever_the_learning_rate() -> None:
    """Annealed to a tenth between syncs: a fixed pull falls with it, the adaptive one does not."""
    bounds = {"proximal.adaptive.kappa_min": 0.5, "proximal.adaptive.kappa_max": 0.5}
    annealed = {"learner.annealed_rate": 1e-5, "learner.learning_rate": 1e-4}
    made = trained(config("adaptive", **{**QUICK, **bounds, **annealed}), count=35)
    assert made.learning_rate < 1e-4
    before = online(made)
    for theta in made.anchor:
        theta.add_(1.0)
    made.rule.change_weights(made.weights, made.anchor, made.learning_rate)
    theta = torch.cat([weight.flatten() for weight in made.target.parameters()])
    torch.testing.assert_close(online(made), before + 0.05 * (theta - before))


@pytest.mark.parametrize("head", ["expected", "categorical"])
@pytest.mark.parametrize("changes", [{}, POLYAK], ids=["periodic", "polyak"])
@pytest.mark.parametrize("rule", [*ADAPTIVE, "scheduled"])
def test_a_resumed_learner_is_bit_identical(rule: str, changes: dict[str, Any], head: str) -> None:
    """Resumed between two syncs and two measurements."""
    run = config(rule, **{**QUICK, **changes, "head.kind": head})
    whole, part, resumed = learner(run), learner(run), learner(run)
    history = batches(60)
    for batch in history:
        whole.update(batch)
    for batch in history[:37]:
        part.update(batch)
    resumed.load(part.state())
    for batch in history[37:]:
        resumed.update(batch)
    assert torch.equal(online(whole), online(resumed))
    assert whole.rule.metrics() == resumed.rule.metrics() != {"kappa": 0.0}


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("proximal.adaptive.smoothing", 1.0, r"proximal\.adaptive\.smoothing 1\.0: must be in"),
        ("proximal.adaptive.kappa_max", math.inf, "kappa_max inf: must be finite"),
        ("proximal.adaptive.kappa_min", 2.0, r"kappa_min 2\.0: must be in \[0, kappa_max\]"),
        ("proximal.adaptive.warmup_updates", 0, "warmup_updates 0: must be at least 1"),
        ("proximal.scheduled.last", -1.0, r"proximal\.scheduled\.last -1\.0: must be finite"),
        ("proximal.scheduled.steps", 0, "steps 0: must be at least 1"),
        ("proximal.c", 0.2, "sets kappa itself"),
        ("proximal.pull_per_sync", 0.5, r"pull_per_sync 0\.5: .* sets kappa itself"),
        ("proximal.options", ("a=1",), "is built in"),
        ("proximal.own_batch", True, "not used by proximal.rule"),
    ],
)
def test_invalid_options_are_named(setting: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        config("adaptive", **{setting: value})
