"""`Proximal` with schedulers, clipping, sparse and scaled gradients."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from proxrl.proximal import Proximal


def pair(seed: int = 0) -> tuple[nn.Linear, nn.Linear]:
    torch.manual_seed(seed)
    return nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)


def pulled(network: nn.Module, target: nn.Module, strength: float) -> None:
    """A naive pull."""
    with torch.no_grad():
        for w, theta in zip(network.parameters(), target.parameters(), strict=True):
            w.copy_(torch.lerp(w, theta, strength))


def assert_same(some: nn.Module, other: nn.Module) -> None:
    for mine, theirs in zip(some.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("on_inner", [False, True])
def test_a_scheduler_on_either_optimizer_moves_step_and_pull(on_inner: bool) -> None:
    online, target = pair()
    by_hand = copy.deepcopy(online)
    inner = torch.optim.SGD(online.parameters(), lr=0.4)
    optimizer = Proximal(inner, target, c=2.0)
    scheduler = torch.optim.lr_scheduler.StepLR(inner if on_inner else optimizer, 1, gamma=0.5)
    bare = torch.optim.SGD(by_hand.parameters(), lr=0.4)
    for rate in (0.4, 0.2, 0.1):
        for network in (online, by_hand):
            network.zero_grad()
            network(torch.ones(3, 4)).square().mean().backward()
        bare.param_groups[0]["lr"] = rate
        pulled(by_hand, target, rate / 2.0)
        bare.step()
        optimizer.step()
        scheduler.step()
        assert_same(online, by_hand)


def test_clipping_shortens_the_gradient_and_not_the_pull() -> None:
    online, target = pair()
    by_hand = copy.deepcopy(online)
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.1), target, c=0.2)
    bare = torch.optim.SGD(by_hand.parameters(), lr=0.1)
    for network in (online, by_hand):
        (100.0 * network(torch.ones(3, 4)).square().mean()).backward()
        assert nn.utils.clip_grad_norm_(network.parameters(), 1.0) > 1.0
    pulled(by_hand, target, 0.5)
    bare.step()
    optimizer.step()
    assert_same(online, by_hand)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.SparseAdam])
def test_sparse_gradients_work_and_the_pull_stays_dense(kind: type[torch.optim.Optimizer]) -> None:
    """Row 0 has a gradient, rows 1 and 2 have none: all three are pulled halfway."""
    torch.manual_seed(0)
    table = nn.Embedding(3, 2, sparse=True)
    by_hand = copy.deepcopy(table)
    target = torch.zeros(3, 2)
    optimizer = Proximal(kind(table.parameters(), lr=0.5), [target], c=1.0)  # type: ignore[call-arg]
    bare = kind(by_hand.parameters(), lr=0.5)  # type: ignore[call-arg]
    for each in (table, by_hand):
        each(torch.tensor([0])).sum().backward()
    start = table.weight.detach().clone()
    with torch.no_grad():
        by_hand.weight.mul_(0.5)
    bare.step()
    optimizer.step()
    assert torch.equal(table.weight, by_hand.weight)
    assert torch.equal(table.weight[1:], start[1:] / 2)
    assert not torch.equal(table.weight[0], start[0] / 2)


def test_parameters_on_different_devices_are_pulled_in_place() -> None:
    """Without a second real device, `meta` takes the same path through the dispatcher."""
    here = torch.ones(2, requires_grad=True)
    there = torch.ones(3, device="meta", requires_grad=True)
    anchor = [torch.zeros(2), torch.zeros(3, device="meta")]
    optimizer = Proximal(torch.optim.SGD([here, there], lr=0.5), anchor, c=1.0)
    here.grad, there.grad = torch.zeros(2), torch.zeros(3, device="meta")
    optimizer.step()
    assert here.tolist() == [0.5, 0.5]


def test_a_later_change_of_precision_is_rejected_like_an_early_one() -> None:
    online, target = pair()
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.1), target, c=0.2)
    target.double()
    online(torch.ones(3, 4)).sum().backward()
    with pytest.raises(ValueError, match=r"parameter 0 is torch.float32, its anchor torch.float64"):
        optimizer.step()
    online.bfloat16()
    target.bfloat16()
    with pytest.raises(ValueError, match="too imprecise for a pull"):
        optimizer.step()


def test_hooks_of_the_state_dict_run() -> None:
    online, target = pair()
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.1), target, c=0.2)
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda *_: seen.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda *_: seen.append("after saving"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: seen.append("before loading"))
    optimizer.register_load_state_dict_post_hook(lambda *_: seen.append("after loading"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["before saving", "after saving", "before loading", "after loading"]


def test_frozen_parameters_stay_and_are_pulled_again_once_unfrozen() -> None:
    online, target = pair()
    online.bias.requires_grad_(False)
    frozen = online.bias.clone()
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.1), target, c=0.2)

    def update() -> None:
        optimizer.zero_grad()
        online(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()

    update()
    assert torch.equal(online.bias, frozen)
    online.bias.requires_grad_(True)
    update()
    assert online.bias.grad is not None
    by_hand = torch.lerp(frozen, target.bias, 0.1 / 0.2) - 0.1 * online.bias.grad
    torch.testing.assert_close(online.bias.detach(), by_hand)


def test_hooks_run_once_between_the_pull_and_the_step() -> None:
    online, target = pair()
    start = online.weight.detach().clone()
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.1), target, c=0.2)
    seen: list[Tensor] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(online.weight.detach().clone()))
    late = optimizer.register_step_post_hook(lambda *_: seen.append(online.weight.detach().clone()))
    everywhere = register_optimizer_step_pre_hook(lambda *_: seen.append(torch.zeros(())))
    online(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
    everywhere.remove()
    late.remove()
    assert len(seen) == 3
    pulled_weight = torch.lerp(start, target.weight, 0.5)
    torch.testing.assert_close(seen[1], pulled_weight)
    torch.testing.assert_close(seen[2], online.weight.detach())
    optimizer.step()
    assert len(seen) == 4, "the handle removed it"


# ------------------------------------------------------------------------------- mixed precision


def test_autocast_computes_in_bfloat16_and_pulls_in_float32() -> None:
    online, target = pair()
    by_hand = copy.deepcopy(online)
    optimizer = Proximal(torch.optim.Adam(online.parameters(), 1e-3), target, c=2.0)
    bare = torch.optim.Adam(by_hand.parameters(), 1e-3)
    for network in (online, by_hand):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = network(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))
        assert out.dtype == torch.bfloat16
        out.float().square().mean().backward()
    pulled(by_hand, target, 1e-3 / 2.0)
    bare.step()
    optimizer.step()
    assert online.weight.dtype == torch.float32
    assert_same(online, by_hand)


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_the_grad_scaler_skips_is_not_pulled(fused: bool) -> None:
    online, target = pair()
    inner = torch.optim.Adam(online.parameters(), 1e-3, fused=fused)
    optimizer = Proximal(inner, target, c=2.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def update(factor: float) -> None:
        optimizer.zero_grad()
        scaler.scale(factor * online(torch.ones(3, 4)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    before = copy.deepcopy(online)
    update(math.inf)
    assert_same(online, before)
    assert scaler.get_scale() == 2.0**9, "the scaler saw the overflow"

    bare = torch.optim.Adam(before.parameters(), 1e-3, fused=fused)
    before(torch.ones(3, 4)).square().mean().backward()
    pulled(before, target, 1e-3 / 2.0)
    bare.step()
    update(1.0)
    for mine, theirs in zip(online.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_too_imprecise_for_the_pull_are_rejected(dtype: torch.dtype) -> None:
    """1 + 5e-4 (0 - 1) is 1 again in bfloat16: the pull would silently do nothing."""

    def make(c: float) -> Proximal:
        w = torch.ones(1, dtype=dtype, requires_grad=True)
        return Proximal(torch.optim.SGD([w], lr=1e-4), [torch.zeros(1, dtype=dtype)], c)

    with pytest.raises(ValueError, match=r"keep the weights in float32, as torch\.autocast does"):
        make(0.2)
    assert make(math.inf).distance() == 1.0, "off is off"


def test_the_pull_is_one_call_per_group_for_any_number_of_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    lerp = torch._foreach_lerp_

    def counted(weights: list[Tensor], anchor: list[Tensor], strength: float) -> None:
        calls.append(len(weights))
        lerp(weights, anchor, strength)

    monkeypatch.setattr(torch, "_foreach_lerp_", counted)
    weights = [torch.ones(1, requires_grad=True) for _ in range(10)]
    optimizer = Proximal(torch.optim.SGD(weights, lr=0.1), [torch.zeros(1)] * 10, c=1.0)
    for w in weights:
        w.grad = torch.zeros(1)
    optimizer.step()
    assert calls == [10]
