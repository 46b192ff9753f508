"""`Proximal` around real torch optimizers."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from proxrl.proximal import Proximal


def networks(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """(online, target) with different weights."""
    torch.manual_seed(seed)
    online = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    target = copy.deepcopy(online).requires_grad_(False)
    with torch.no_grad():
        for weight in online.parameters():
            weight.add_(torch.randn_like(weight))
    return online, target


def learn(network: nn.Module, optimizer: torch.optim.Optimizer, updates: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(updates):
        inputs = torch.randn(16, 3, generator=generator)
        optimizer.zero_grad()
        (network(inputs) - inputs[:, :2].sin()).square().mean().backward()
        optimizer.step()


def flat(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def test_trajectory_on_a_quadratic_by_hand() -> None:
    """h(w) = w^2 / 2, theta = 1, alpha = 0.1, c = 0.4, so w <- 0.75 w + 0.25 - 0.1 w.

    w: 2 -> 1.55 -> 1.2575 -> 1.067375, the gradient always taken before the pull.
    """
    w = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    theta = torch.tensor([1.0], dtype=torch.float64)
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [theta], c=0.4)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        (w.square() / 2).sum().backward()
        optimizer.step()
        seen.append(w.item())
    assert seen == pytest.approx([1.55, 1.2575, 1.067375], abs=1e-15)


INNER: list[Callable[..., torch.optim.Optimizer]] = [
    lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=1e-3),
    lambda p: torch.optim.Adam(p, lr=1e-3, fused=True),
    lambda p: torch.optim.RMSprop(p, lr=1e-3),
]


@pytest.mark.parametrize("make", INNER)
def test_infinite_c_is_the_bare_optimizer_bit_for_bit(
    make: Callable[..., torch.optim.Optimizer],
) -> None:
    bare, _ = networks()
    wrapped, target = networks()
    learn(bare, make(bare.parameters()), 200)
    learn(wrapped, Proximal(make(wrapped.parameters()), target.parameters(), c=math.inf), 200)
    assert torch.equal(flat(bare), flat(wrapped))


@pytest.mark.parametrize("make", INNER)
def test_a_step_is_the_inner_step_after_the_pull_with_the_earlier_gradient(
    make: Callable[..., torch.optim.Optimizer],
) -> None:
    by_hand, target = networks()
    wrapped = copy.deepcopy(by_hand)
    inner, proximal = (
        make(by_hand.parameters()),
        Proximal(make(wrapped.parameters()), target.parameters(), c=0.05),
    )
    rate = inner.param_groups[0]["lr"]
    inputs = torch.randn(4, 3)
    for network in (by_hand, wrapped):
        network(inputs).square().mean().backward()
    with torch.no_grad():
        for weight, fixed in zip(by_hand.parameters(), target.parameters(), strict=True):
            weight.copy_(torch.lerp(weight, fixed, rate / 0.05))
    inner.step()
    proximal.step()
    assert torch.equal(flat(by_hand), flat(wrapped))


def test_each_group_is_pulled_by_its_own_learning_rate() -> None:
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    inner = torch.optim.SGD([{"params": [a], "lr": 0.1}, {"params": [b], "lr": 0.2}])
    optimizer = Proximal(inner, [torch.zeros(1), torch.zeros(1)], c=1.0)
    a.grad, b.grad = torch.zeros(1), torch.zeros(1)
    optimizer.step()
    assert (a.item(), b.item()) == (pytest.approx(0.9), pytest.approx(0.8))


def test_three_groups_have_anchors_of_their_own() -> None:
    """Of one, two and one parameters at 0; anchors 1, 2, 3, 4; lr/c = 0.1, 0.2, 0.4."""
    weights = [torch.zeros(1, requires_grad=True) for _ in range(4)]
    parts = [(weights[:1], 0.1), (weights[1:3], 0.2), (weights[3:], 0.4)]
    groups = [{"params": params, "lr": rate} for params, rate in parts]
    anchor = [torch.full((1,), value) for value in (1.0, 2.0, 3.0, 4.0)]
    optimizer = Proximal(torch.optim.SGD(groups), anchor, c=1.0)
    for weight in weights:
        weight.grad = torch.zeros(1)
    optimizer.step()
    assert [weight.item() for weight in weights] == pytest.approx([0.1, 0.4, 0.6, 1.6])


def test_a_scheduler_scales_the_pull() -> None:
    w = torch.ones(1, requires_grad=True)
    optimizer = Proximal(torch.optim.SGD([w], lr=0.5), [torch.zeros(1)], c=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    seen = []
    for _ in range(2):
        w.grad = torch.zeros(1)
        optimizer.step()
        scheduler.step()
        seen.append(w.item())
    assert seen == [0.5, 0.375]  # pulled by 1/2, then by 1/4


def test_a_loaded_state_dict_continues() -> None:
    online, target = networks()
    optimizer = Proximal(torch.optim.Adam(online.parameters(), 1e-3), target.parameters(), c=0.1)
    learn(online, optimizer, 5)
    twin = copy.deepcopy(online)
    other = Proximal(torch.optim.Adam(twin.parameters(), 1e-3), target.parameters(), c=99.0)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.c == 0.1
    learn(online, optimizer, 5)
    learn(twin, other, 5)
    assert torch.equal(flat(online), flat(twin))


def test_a_callable_anchor_is_read_at_each_step() -> None:
    w = torch.ones(1, requires_grad=True)
    anchors = iter([[torch.zeros(1)], [torch.full((1,), 10.0)]])
    optimizer = Proximal(torch.optim.SGD([w], lr=0.5), lambda: next(anchors), c=1.0)
    seen = []
    for _ in range(2):
        w.grad = torch.zeros(1)
        optimizer.step()
        seen.append(w.item())
    assert seen == [0.5, 5.25]


def test_parameters_without_gradient_stay_where_they_are() -> None:
    used, unused = (torch.ones(1, requires_grad=True) for _ in range(2))
    optimizer = Proximal(torch.optim.SGD([used, unused], lr=0.5), [torch.zeros(1)] * 2, c=1.0)
    used.grad = torch.zeros(1)
    optimizer.step()
    assert (used.item(), unused.item()) == (0.5, 1.0)


def test_a_group_added_later_is_pulled_too() -> None:
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    anchor = [torch.zeros(1)]
    optimizer = Proximal(torch.optim.SGD([a], lr=0.5), lambda: anchor, c=1.0)
    optimizer.add_param_group({"params": [b], "lr": 0.25})
    anchor.append(torch.zeros(1))
    a.grad, b.grad = torch.zeros(1), torch.zeros(1)
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 0.75)
    assert len(optimizer.inner.param_groups) == 2


def test_a_closure_is_evaluated_once_before_the_pull() -> None:
    w = torch.tensor([2.0], requires_grad=True)
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [torch.ones(1)], c=0.4)
    at = []

    def closure() -> float:
        optimizer.zero_grad()
        loss = (w.square() / 2).sum()
        loss.backward()
        at.append(w.item())
        return loss.item()

    assert optimizer.step(closure) == 2.0
    assert at == [2.0]
    assert w.item() == pytest.approx(1.55)


def test_distance_on_request() -> None:
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    assert Proximal(torch.optim.SGD([w], lr=0.1), [torch.zeros(2)], c=1.0).distance() == 5.0


def test_distance_is_over_what_is_trained() -> None:
    """Noise stored as frozen parameters does not count towards the distance."""
    w, noise = torch.tensor([3.0], requires_grad=True), torch.tensor([40.0])
    optimizer = Proximal(torch.optim.SGD([w, noise], lr=0.1), [torch.zeros(1)] * 2, c=1.0)
    assert optimizer.distance() == 3.0
    w.requires_grad_(False)
    assert optimizer.distance() == 0.0


def one_weight() -> Tensor:
    return torch.ones(2, requires_grad=True)


def test_an_optimizer_with_many_evaluations_per_step_is_rejected() -> None:
    with pytest.raises(ValueError, match="LBFGS"):
        Proximal(torch.optim.LBFGS([one_weight()]), [torch.zeros(2)], c=1.0)


def test_an_optimizer_without_learning_rate_is_rejected() -> None:
    class Rateless(torch.optim.Optimizer):
        def __init__(self, weights: list[Tensor]) -> None:
            super().__init__(weights, {})

    with pytest.raises(ValueError, match="Rateless has no learning rate"):
        Proximal(Rateless([one_weight()]), [torch.zeros(2)], c=1.0)


@pytest.mark.parametrize(("c", "message"), [(0.0, "positive"), (0.01, r"overshoot.*c >= 0.1")])
def test_a_bad_c_is_rejected_at_once(c: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Proximal(torch.optim.SGD([one_weight()], lr=0.1), [torch.zeros(2)], c)


def test_a_learning_rate_raised_beyond_c_is_rejected_before_any_change() -> None:
    w = one_weight()
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [torch.zeros(2)], c=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0 + 9.0 * epoch)
    w.grad = torch.zeros(2)
    optimizer.step()
    scheduler.step()  # now 1.0
    before = w.detach().clone()
    with pytest.raises(ValueError, match="overshoot"):
        optimizer.step()
    assert torch.equal(w, before)


def test_loading_into_the_inner_optimizer_keeps_both_in_sync() -> None:
    w = one_weight()
    inner = torch.optim.SGD([w], lr=0.1)
    optimizer = Proximal(inner, [torch.zeros(2)], c=1.0)
    faster = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.4).state_dict()
    inner.load_state_dict(faster)
    assert optimizer.param_groups is inner.param_groups
    assert optimizer.state is inner.state
    w.grad = torch.zeros(2)
    optimizer.step()
    assert w.tolist() == pytest.approx([0.6, 0.6])


def test_state_dicts_are_compatible_with_the_bare_optimizer() -> None:
    online, target = networks()
    optimizer = Proximal(torch.optim.Adam(online.parameters(), 1e-3), target, c=0.1)
    learn(online, optimizer, 3)
    bare = torch.optim.Adam(copy.deepcopy(online).parameters(), 9.0)
    bare.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert bare.param_groups[0]["lr"] == 1e-3
    back = Proximal(torch.optim.Adam(copy.deepcopy(online).parameters(), 9e-3), target, c=0.7)
    back.load_state_dict(copy.deepcopy(bare.state_dict()))
    assert back.c == 0.7, "a bare state dict says nothing of c"
    ours, theirs = (list(o.state_dict()["state"].values()) for o in (optimizer, back))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine["exp_avg_sq"], other["exp_avg_sq"])


def test_step_hooks_see_the_step() -> None:
    w = one_weight()
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [torch.zeros(2)], c=1.0)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(w[0].item()))
    w.grad = torch.zeros(2)
    optimizer.step()
    assert seen == [pytest.approx(0.9)]


def test_a_proximal_around_a_proximal_is_rejected() -> None:
    inner = Proximal(torch.optim.SGD([one_weight()], lr=0.1), [torch.zeros(2)], c=1.0)
    with pytest.raises(ValueError, match="pull twice"):
        Proximal(inner, [torch.zeros(2)], c=1.0)


@pytest.mark.parametrize("rate", [-0.1, float("nan")])
def test_an_invalid_learning_rate_is_rejected_before_any_change(rate: float) -> None:
    w = one_weight()
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [torch.zeros(2)], c=1.0)
    optimizer.param_groups[0]["lr"] = rate
    w.grad = torch.ones(2)
    with pytest.raises(ValueError, match="must be non-negative"):
        optimizer.step()
    assert w.tolist() == [1.0, 1.0]


def test_a_state_with_an_invalid_c_is_rejected() -> None:
    optimizer = Proximal(torch.optim.SGD([one_weight()], lr=0.1), [torch.zeros(2)], c=1.0)
    with pytest.raises(ValueError, match="positive"):
        optimizer.load_state_dict({**optimizer.state_dict(), "proximal_c": -3.0})
    assert optimizer.c == 1.0


def test_a_shared_trunk_that_is_unfrozen_is_detected() -> None:
    trunk = torch.ones(2)
    optimizer = Proximal(torch.optim.SGD([trunk], lr=0.1), [trunk], c=1.0)
    trunk.requires_grad_(True)
    with pytest.raises(ValueError, match="trained by this optimizer"):
        optimizer.distance()


def test_gradients_are_zeroed_as_torch_does_it() -> None:
    """None unless told to keep zeros."""
    w = one_weight()
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [torch.zeros(2)], c=1.0)
    w.grad = torch.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0, 0.0]
    assert optimizer.step() is None, "no closure, no loss"
    optimizer.zero_grad()
    assert w.grad is None


@pytest.mark.parametrize("kind", ["state_dict", "load_state_dict"])
@pytest.mark.parametrize("when", ["pre", "post"])
def test_state_hooks_run_in_their_order(kind: str, when: str) -> None:
    w = one_weight()
    optimizer = Proximal(torch.optim.SGD([w], lr=0.1), [torch.zeros(2)], c=1.0)
    register, seen = getattr(optimizer, f"register_{kind}_{when}_hook"), []
    register(lambda *_: seen.append("second"))
    register(lambda *_: seen.append("first"), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["first", "second"]
