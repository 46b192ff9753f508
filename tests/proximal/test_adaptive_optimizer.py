"""`Proximal(..., c="adaptive")` around torch's Adam and AdamW."""

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, NAdam, RMSprop, SparseAdam

from proxrl import presets
from proxrl.agents.learner import Learner
from proxrl.agents.networks import build_network
from proxrl.config import AdaptiveOptions
from proxrl.proximal import Proximal
from proxrl.proximal.kappa import kappa_of, noise_ratio
from tests.agents.test_learner import CPU, SPEC, batches, online
from tests.proximal.test_optimizer import flat, learn, networks

QUICK = AdaptiveOptions(kappa_max=5.0, smoothing=0.5, warmup_updates=20)
INNER: list[Callable[..., Adam]] = [
    lambda p: Adam(p, 1e-3),
    lambda p: Adam(p, 1e-3, fused=True),
    lambda p: Adam(p, 1e-3, amsgrad=True, foreach=False, weight_decay=0.01),
    lambda p: AdamW(p, 1e-3),
]


def adaptive(inner: Any, target: Any, options: AdaptiveOptions = QUICK) -> Proximal:
    """N = 10 updates per sync."""
    return Proximal(inner, target, c="adaptive", updates_per_sync=10, adaptive=options)


@pytest.mark.parametrize("make", INNER)
def test_a_largest_kappa_of_0_is_the_bare_optimizer_bit_for_bit(make: Callable[..., Adam]) -> None:
    bare, _ = networks()
    off, target = networks()
    on, other = networks()
    zero = AdaptiveOptions(kappa_max=0.0, warmup_updates=20)
    learn(bare, make(bare.parameters()), 100)
    learn(off, adaptive(make(off.parameters()), target, zero), 100)
    pulling = adaptive(make(on.parameters()), other)
    learn(on, pulling, 100)
    assert torch.equal(flat(bare), flat(off))
    assert not torch.equal(flat(bare), flat(on))
    assert 0.0 < pulling.kappa < 5.0


def share_of(squared_mean: Tensor, square: Tensor, steps: int) -> Tensor:
    """rho by its definition."""
    noise = noise_ratio(0.9, torch.tensor(float(steps)).double())
    return (squared_mean - noise * square) / ((1 - noise) * square)


@pytest.mark.parametrize("make", INNER)
def test_kappa_is_what_the_moments_say_at_the_sync(make: Callable[..., Adam]) -> None:
    """Without smoothing: from the moments before step 20, applied from step 30 on; the ratio from
    its definition, over the concatenated moments."""
    network, target = networks()
    inner = make(network.parameters())
    options = AdaptiveOptions(kappa_max=1e6, smoothing=0.0, warmup_updates=20)
    optimizer = adaptive(inner, target, options)
    learn(network, optimizer, 20)
    states = [inner.state[weight] for weight in network.parameters()]
    m = torch.cat([state["exp_avg"].flatten() for state in states]).double() / (1 - 0.9**20)
    v = torch.cat([state["exp_avg_sq"].flatten() for state in states]).double() / (1 - 0.999**20)
    share = share_of(m.square().sum(), v.sum(), 20)
    learn(network, optimizer, 10)
    assert optimizer.kappa == 0.0
    learn(network, optimizer, 10)
    kappa = kappa_of(share.clamp(0, 1), 10).clamp(max=10)
    assert optimizer.kappa == pytest.approx(float(kappa), rel=1e-4)


def test_bounds_that_meet_are_a_fixed_pull_after_the_warmup_whatever_the_rate() -> None:
    """kappa = 0.5 over N = 10: a pull of 0.05, at any learning rate, from step 30 on."""
    network, target = networks()
    inner = Adam(network.parameters(), 1e-3)
    half = AdaptiveOptions(kappa_min=0.5, kappa_max=0.5, warmup_updates=20)
    optimizer = adaptive(inner, target, half)
    learn(network, optimizer, 30)
    for rate in (1e-3, 1e-5):
        inner.param_groups[0]["lr"] = rate
        by_hand = copy.deepcopy(network)
        twin = Adam(by_hand.parameters(), rate)
        twin.load_state_dict(copy.deepcopy(inner.state_dict()))

        def pull(*_: Any, twin: Adam = twin) -> None:
            with torch.no_grad():
                own = twin.param_groups[0]["params"]
                for weight, theta in zip(own, target.parameters(), strict=True):
                    weight.lerp_(theta, 0.05)

        twin.register_step_pre_hook(pull)
        learn(by_hand, twin, 5)
        learn(network, optimizer, 5)
        torch.testing.assert_close(flat(network), flat(by_hand), rtol=1e-6, atol=1e-7)


def test_the_drop_in_is_the_learners_rule() -> None:
    """The same kappa, and the same weights up to the rounding of Adam on one vector or several."""
    settings = {
        "network.hidden": (16,),
        "target.period": 10,
        "target.period_unit": "updates",
        "proximal.rule": "adaptive",
        "proximal.adaptive.kappa_max": 5.0,
        "proximal.adaptive.smoothing": 0.5,
        "proximal.adaptive.warmup_updates": 20,
    }
    run = presets.make("dqn", "CartPole-v1", settings)
    made = Learner(build_network(SPEC, 2, run.network, 0, run.head), run, CPU)
    plain = presets.make("dqn", "CartPole-v1", {**settings, "proximal.rule": "parameters"})
    other = Learner(build_network(SPEC, 2, run.network, 0, run.head), plain, CPU)
    inner = Adam(other.weights, run.learner.learning_rate, eps=run.learner.adam_epsilon)
    drop_in = adaptive(inner, other.anchor)
    other._adam.step = lambda weights, rate: drop_in.step()  # type: ignore[method-assign]
    for batch in batches(60):
        batch = batch._replace(returns=batch.returns + 3.0)  # a clear signal
        made.update(batch)
        other.update(batch)
    assert drop_in.kappa == pytest.approx(made.rule.metrics()["kappa"], rel=1e-4)
    assert 0.0 < drop_in.kappa < 5.0
    torch.testing.assert_close(online(made), online(other), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stop", [15, 37])
@pytest.mark.parametrize("into", ["adaptive", "fixed"])
def test_a_loaded_state_dict_continues_bit_for_bit(stop: int, into: str) -> None:
    whole, target = networks()
    part, _ = networks()
    one, two = (adaptive(Adam(each.parameters(), 1e-3), target) for each in (whole, part))
    learn(whole, one, stop)
    learn(part, two, stop)
    file = io.BytesIO()
    torch.save([part.state_dict(), two.state_dict()], file)
    file.seek(0)
    weights, state = torch.load(file, weights_only=True)
    resumed, _ = networks(seed=9)
    inner = Adam(resumed.parameters(), 1e-2)
    three = adaptive(inner, target) if into == "adaptive" else Proximal(inner, target, c=1.0)
    resumed.load_state_dict(weights)
    three.load_state_dict(state)
    learn(whole, one, 40)
    learn(resumed, three, 40)
    assert torch.equal(flat(whole), flat(resumed))
    assert one.kappa == three.kappa > 0.0
    assert three.adaptive == QUICK
    assert three.c == "adaptive"


def test_the_inner_optimizers_state_and_a_fixed_cs_can_be_loaded_as_well() -> None:
    network, target = networks()
    optimizer = adaptive(Adam(network.parameters(), 1e-3), target)
    learn(network, optimizer, 40)
    kappa = optimizer.kappa
    optimizer.load_state_dict(optimizer.inner.state_dict())
    assert (optimizer.c, optimizer.kappa) == ("adaptive", kappa)
    optimizer.inner.load_state_dict(optimizer.state_dict())
    fixed = Proximal(Adam(network.parameters(), 1e-3), target, c=0.2)
    optimizer.load_state_dict(fixed.state_dict())
    assert (optimizer.c, optimizer.kappa) == (0.2, pytest.approx(1e-3 / 0.2 * 10))
    optimizer.c = "adaptive"
    assert optimizer.kappa == 0.0, "a new warm-up"


@pytest.mark.parametrize("loses_estimate", [False, True])
def test_a_copy_has_its_own_estimate(loses_estimate: bool) -> None:
    network, target = networks()
    optimizer = adaptive(Adam(network.parameters(), 1e-3), target)
    learn(network, optimizer, 40)
    kappa = optimizer.kappa
    pair = copy.deepcopy([network, target, optimizer])
    if loses_estimate:
        pair[2].c = math.inf
    learn(pair[0], pair[2], 40)
    assert optimizer.kappa == kappa != pair[2].kappa


def test_kappa_of_a_fixed_c_can_be_read_too() -> None:
    network, target = networks()
    inner = Adam(network.parameters(), 1e-4)
    fixed = Proximal(inner, target, c=0.2, updates_per_sync=2000)
    assert fixed.kappa == pytest.approx(1.0)
    inner.param_groups[0]["lr"] = 5e-5
    assert fixed.kappa == pytest.approx(0.5)
    fixed.c = math.inf
    assert fixed.kappa == 0.0
    assert Proximal(inner, target, c=0.2).kappa is None


def test_groups_may_differ_in_their_learning_rate() -> None:
    """Both are pulled by kappa/N; a group with learning rate 0 is not."""
    network, target = networks()
    first, *others = network.parameters()
    theta, *_ = target.parameters()
    groups = [{"params": [first], "lr": 0.0}, {"params": others, "lr": 1e-3}]
    half = AdaptiveOptions(kappa_min=0.5, kappa_max=0.5, warmup_updates=20)
    optimizer = adaptive(Adam(groups), target, half)
    frozen = first.detach().clone()
    learn(network, optimizer, 40)
    assert torch.equal(first, frozen)
    groups_now = optimizer.param_groups
    groups_now[0]["lr"] = 1e-12
    learn(network, optimizer, 1)
    torch.testing.assert_close(first.detach(), torch.lerp(frozen, theta, 0.05))


def test_parameters_that_join_late_or_never_have_steps_of_their_own() -> None:
    """The second tensor takes its first step at step 15, the third never has a gradient."""
    weights = [torch.zeros(3, requires_grad=True) for _ in range(3)]
    theta = [torch.ones(3) for _ in range(3)]
    inner = Adam(weights, 1e-3)
    options = AdaptiveOptions(kappa_max=1e6, smoothing=0.0, warmup_updates=20)
    optimizer = adaptive(inner, theta, options)
    generator = torch.Generator().manual_seed(0)
    seen: list[list[Tensor]] = [[], []]
    for number in range(31):
        for which, start in enumerate((0, 15)):
            if number >= start:
                gradient = 0.5 + torch.randn(3, generator=generator)
                weights[which].grad = gradient
                if number < 20:
                    seen[which].append(gradient.double())
        optimizer.step()
    top = bottom = torch.tensor(0.0).double()
    for gradients in seen:
        mean = square = torch.zeros(3).double()
        for gradient in gradients:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        noise = noise_ratio(0.9, torch.tensor(float(len(gradients))).double())
        corrected = square.sum() / (1 - 0.999 ** len(gradients))
        top = top + (mean / (1 - 0.9 ** len(gradients))).square().sum() - noise * corrected
        bottom = bottom + (1 - noise) * corrected
    kappa = kappa_of((top / bottom).clamp(0, 1), 10).clamp(max=10)
    assert optimizer.kappa == pytest.approx(float(kappa), rel=1e-3)
    assert torch.equal(weights[2], torch.zeros(3)), "without a gradient: not pulled"


def test_a_parameter_that_was_frozen_does_not_count_any_more() -> None:
    """Pure signal in one tensor, alternating noise in the other, which is frozen at step 40."""
    signal, noise = (torch.zeros(3, requires_grad=True) for _ in range(2))
    options = AdaptiveOptions(kappa_max=5.0, smoothing=0.0, warmup_updates=20)
    optimizer = adaptive(Adam([signal, noise], 1e-3), [torch.ones(3)] * 2, options)
    for number in range(61):
        signal.grad = torch.ones(3)
        noise.grad = 30.0 * (-torch.ones(3)) ** number if number < 40 else None
        optimizer.step()
        if number == 39:
            assert optimizer.kappa == 5.0
    assert optimizer.kappa < 1e-3


def test_polyak_targets_have_a_formula_of_their_own() -> None:
    made = []
    for tau in (1.0, 0.5, 0.1):
        network, target = networks()
        options = AdaptiveOptions(kappa_max=9.0, smoothing=0.0, warmup_updates=20)
        inner = Adam(network.parameters(), 1e-3)
        optimizer = Proximal(
            inner, target, c="adaptive", updates_per_sync=10, tau=tau, adaptive=options
        )
        learn(network, optimizer, 31)
        assert copy.deepcopy(optimizer).tau == tau
        made.append(optimizer)
    copied, half, tenth = (one.kappa for one in made)
    assert 0.0 < tenth < half < copied < 9.0


@pytest.mark.parametrize(
    ("kappa_max", "updates_per_sync", "expected"), [(0.0, 10, 0.0), (0.5, 10, 0.5), (9.0, 2, 2.0)]
)
def test_a_loaded_kappa_is_within_the_bounds_of_the_optimizer_that_loads_it(
    kappa_max: float, updates_per_sync: int, expected: float
) -> None:
    network, target = networks()
    first = adaptive(Adam(network.parameters(), 1e-3), target)
    learn(network, first, 60)
    saved = first.state_dict()
    saved["proximal_adaptive"]["state"]["kappas"] = [4.5]
    other = Proximal(
        Adam(network.parameters(), 1e-3),
        target,
        c="adaptive",
        updates_per_sync=updates_per_sync,
        adaptive=AdaptiveOptions(kappa_max=kappa_max),
    )
    other.load_state_dict(saved)
    assert other.kappa == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates_per_sync": "250"}, "updates_per_sync must be at least 1, got '250'"),
        ({"updates_per_sync": True}, "updates_per_sync must be at least 1, got True"),
        ({"tau": 0.0}, "tau must be in"),
        ({"tau": 2}, "tau must be in"),
        ({"adaptive": {"kappa_max": 1}}, "adaptive must be AdaptiveOptions"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(settings: dict[str, Any], message: str) -> None:
    network, target = networks()
    arguments: dict[str, Any] = {"c": "adaptive", "updates_per_sync": 10, **settings}
    with pytest.raises((ValueError, TypeError), match=message):
        Proximal(Adam(network.parameters(), 1e-3), target, **arguments)


def test_steps_without_any_gradient_do_nothing() -> None:
    network, target = networks()
    optimizer = adaptive(Adam(network.parameters(), 1e-3), target)
    before = flat(network)
    for _ in range(40):
        optimizer.step()
    assert torch.equal(flat(network), before)
    assert optimizer.kappa == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: SGD(p, 1e-3), "torch.optim.Adam or AdamW, not SGD"),
        (lambda p: RMSprop(p, 1e-3), "not RMSprop"),
        (lambda p: NAdam(p, 1e-3), "not NAdam"),
        (lambda p: SparseAdam(p, 1e-3), "not SparseAdam"),
        (lambda p: Adam(p, 1e-3, betas=(0.0, 0.999)), r"beta1 in \(0, 1\), got 0"),
        (
            lambda p: Adam([{"params": p[:1], "betas": (0.8, 0.999)}, {"params": p[1:]}], 1e-3),
            "same betas in all parameter groups",
        ),
    ],
)
def test_optimizers_without_the_moments_are_named(make: Any, message: str) -> None:
    network, target = networks()
    with pytest.raises(ValueError, match=f"c = 'adaptive' needs .*{message}"):
        adaptive(make(list(network.parameters())), target)


def test_invalid_arguments_are_named() -> None:
    network, target = networks()
    inner = Adam(network.parameters(), 1e-3)
    with pytest.raises(ValueError, match="c = 'adaptive' needs updates_per_sync"):
        Proximal(inner, target, c="adaptive")
    with pytest.raises(ValueError, match="updates_per_sync must be at least 1, got 0"):
        Proximal(inner, target, c="adaptive", updates_per_sync=0)
    with pytest.raises(ValueError, match=r"invalid kappa_max -1\.0: must be finite"):
        adaptive(inner, target, AdaptiveOptions(kappa_max=-1.0))
    with pytest.raises(ValueError, match="adaptive is only for c = 'adaptive', and c is"):
        Proximal(inner, target, c=0.2, adaptive=QUICK)
    with pytest.raises(TypeError, match="c must be a number or 'adaptive', got 'fast'"):
        Proximal(inner, target, c="fast")


def test_sparse_gradients_are_rejected_by_adam_itself() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    target = copy.deepcopy(table).requires_grad_(False)
    optimizer = adaptive(Adam(table.parameters(), 1e-3), target)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse gradients"):
        optimizer.step()
