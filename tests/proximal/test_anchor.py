"""The anchor: every way to pass it, and what happens if it is replaced or does not match."""

import copy
import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proxrl.proximal import Proximal


@pytest.mark.parametrize(
    ("inner", "anchor", "c", "message"),
    [
        (lambda w: torch.optim.SGD(w, lr=0.1), None, 1.0, "the anchor is a NoneType"),
        (lambda w: torch.optim.SGD(w, lr=0.1), 3, 1.0, "the anchor is a int"),
        (lambda w: torch.optim.SGD(w, lr=0.1), [torch.zeros(2)], "0.2", "c must be a number"),
        (lambda w: w, [torch.zeros(2)], 0.2, "list is not an optimizer"),
    ],
)
def test_invalid_argument_types_are_named(inner: Any, anchor: Any, c: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Proximal(inner([torch.ones(2, requires_grad=True)]), anchor, c)


def weight() -> Tensor:
    return torch.ones(2, requires_grad=True)


def proximal(w: Tensor, anchor: Any, c: float = 1.0) -> Proximal:
    return Proximal(torch.optim.SGD([w], lr=0.5), anchor, c)


def step(optimizer: Proximal) -> None:
    """One pull and nothing else: the gradient is zero."""
    for group in optimizer.param_groups:
        for w in group["params"]:
            w.grad = torch.zeros_like(w)
    optimizer.step()


def twins() -> tuple[nn.Linear, nn.Linear]:
    """(online, target) with weights 1 and 0."""
    online, target = nn.Linear(2, 1), nn.Linear(2, 1)
    for network, value in ((online, 1.0), (target, 0.0)):
        for each in network.parameters():
            nn.init.constant_(each, value)
    return online, target.requires_grad_(False)


@pytest.mark.parametrize("how", ["module", "parameters", "list", "method", "lambda"])
def test_every_way_to_pass_the_target_network_is_equivalent(how: str) -> None:
    online, target = twins()
    anchor = {
        "module": target,
        "parameters": target.parameters(),
        "list": list(target.parameters()),
        "method": target.parameters,
        "lambda": lambda: target,
    }[how]
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.5), anchor, c=2.0)
    step(optimizer)
    step(optimizer)
    assert online.weight.tolist() == [[0.5625, 0.5625]]  # 0.75 twice
    assert target.weight.tolist() == [[0.0, 0.0]], "the anchor does not move"


def test_a_module_whose_parameters_are_replaced_is_followed() -> None:
    online, target = twins()
    optimizer = Proximal(torch.optim.SGD(online.parameters(), lr=0.5), target, c=1.0)
    state = {name: torch.full_like(each, 3.0) for name, each in target.state_dict().items()}
    target.load_state_dict(state, assign=True)
    step(optimizer)
    assert online.weight.tolist() == [[2.0, 2.0]]


def test_a_library_that_replaces_its_target_network_is_followed() -> None:
    class Holder:
        target: nn.Module

    online, target = twins()
    holder = Holder()
    optimizer = Proximal(
        torch.optim.SGD(online.parameters(), lr=0.5), lambda: holder.target, c=1.0
    )  # created before the target
    holder.target = target
    step(optimizer)
    holder.target = copy.deepcopy(online).requires_grad_(False)  # a sync by replacement
    step(optimizer)
    assert online.weight.tolist() == [[0.5, 0.5]], "at its anchor nothing moves"


def test_a_replaced_anchor_that_does_not_match_is_rejected_even_at_a_reused_address() -> None:
    """Addresses do not identify tensors: they are reused after freeing."""
    held = [torch.zeros(2)]
    w = weight()
    optimizer = proximal(w, lambda: held)
    step(optimizer)
    held.clear()
    gc.collect()
    for _ in range(50):
        held[:] = [torch.zeros(3)]
        with pytest.raises(ValueError, match=r"has shape \(2,\), its anchor \(3,\)"):
            step(optimizer)
    assert w.tolist() == [0.5, 0.5]


def test_weights_added_later_are_checked() -> None:
    w, late = weight(), torch.ones(3, requires_grad=True)
    anchor = [torch.zeros(2)]
    optimizer = proximal(w, lambda: anchor)
    step(optimizer)
    optimizer.inner.add_param_group({"params": [late]})
    with pytest.raises(ValueError, match="2 parameters, the anchor 1"):
        step(optimizer)
    anchor.append(torch.zeros(3))
    step(optimizer)
    assert late.tolist() == [0.5] * 3


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        ([torch.zeros(3)], r"has shape \(2,\), its anchor \(3,\)"),
        ([], "1 parameters, the anchor 0"),
        ([torch.zeros(2, dtype=torch.float64)], r"is torch.float32, its anchor torch.float64"),
        ([torch.zeros(2, device="meta")], "is on cpu, its anchor meta"),
        ([torch.zeros(2, requires_grad=True)], r"requires grad: call requires_grad_\(False\)"),
    ],
)
def test_an_anchor_that_does_not_match_is_rejected(anchor: list[Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        proximal(weight(), anchor)
    later = proximal(weight(), lambda: anchor)
    with pytest.raises(ValueError, match=message):
        step(later)


def test_an_invalid_anchor_is_rejected() -> None:
    online, target = twins()
    with pytest.raises(TypeError, match="a single tensor"):
        proximal(weight(), torch.zeros(1, 2))
    with pytest.raises(TypeError, match="anchor 0 is a tuple, not a tensor"):
        Proximal(torch.optim.SGD(online.parameters(), lr=0.5), target.named_parameters(), c=1.0)


@pytest.mark.parametrize("shared", [lambda w: w, lambda w: w.detach()])
def test_an_anchor_that_the_optimizer_trains_is_rejected(shared: Any) -> None:
    w = weight()
    with pytest.raises(ValueError, match="trained by this optimizer"):
        proximal(w, [shared(w)])


@pytest.mark.parametrize("memory", [torch.zeros(6), torch.zeros(6, 3)])
def test_an_anchor_that_overlaps_the_weights_is_rejected_and_a_neighbour_is_not(
    memory: Tensor,
) -> None:
    w = torch.nn.Parameter(memory[:3])
    with pytest.raises(ValueError, match="trained by this optimizer"):
        proximal(w, [memory[2:5]])
    proximal(w, [memory[3:]])
    proximal(torch.nn.Parameter(memory[3:]), [memory[:3]])


def test_training_the_target_as_well_is_rejected() -> None:
    online, target = twins()
    target.requires_grad_(True)
    both = [*online.parameters(), *target.parameters()]
    with pytest.raises(ValueError, match="trained by this optimizer"):
        Proximal(torch.optim.SGD(both, lr=0.5), [*target.parameters()] * 2, c=1.0)


def test_a_frozen_trunk_may_be_shared_with_the_target() -> None:
    """A frozen parameter has no gradient, is not pulled, and may be its own anchor."""
    trunk, w = torch.ones(2), weight()
    optimizer = Proximal(torch.optim.SGD([trunk, w], lr=0.5), [trunk, torch.zeros(2)], c=1.0)
    w.grad = torch.zeros(2)
    optimizer.step()
    assert (trunk.tolist(), w.tolist()) == ([1.0, 1.0], [0.5, 0.5])
