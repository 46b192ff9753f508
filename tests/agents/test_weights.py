"""Weights as one vector: every parameter and its gradient is a view of it."""

import copy

import pytest
import torch
from torch import nn

from proxrl.agents.weights import Layout
from proxrl.errors import UserError


def network() -> nn.Sequential:
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 4, 2)
    return nn.Sequential(convolution, nn.Flatten(), nn.Linear(16, 5)).to(
        memory_format=torch.channels_last  # type: ignore[call-overload]
    )


def test_parameters_keep_values_shapes_and_memory_order() -> None:
    before, moved = network(), network()
    layout = Layout(moved)
    (vector,) = layout.move_(moved, with_gradient=False)
    for old, new in zip(before.parameters(), moved.parameters(), strict=True):
        assert torch.equal(old, new)
        assert old.stride() == new.stride()
        assert new.untyped_storage().data_ptr() == vector.untyped_storage().data_ptr()
    images = torch.randn(2, 3, 3, 3)
    assert torch.equal(before(images), moved(images))


def test_the_vector_is_the_weights_and_its_gradient_theirs() -> None:
    """A step on the vector is a step of the network; compared with torch's SGD."""
    moved, plain = network(), network()
    layout = Layout(moved)
    (vector,) = layout.move_(moved, with_gradient=True)
    images = torch.randn(2, 3, 3, 3)
    for each in (moved, plain):
        each(images).square().sum().backward()
    with torch.no_grad():
        vector -= 0.1 * vector.grad
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    for mine, its in zip(moved.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, its)


def test_views_name_each_parameter() -> None:
    moved = network()
    layout = Layout(moved)
    vectors = layout.move_(moved, with_gradient=False)
    views = layout.views(vectors)
    assert list(views) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    views["2.bias"].fill_(7.0)
    assert moved[2].bias.tolist() == [7.0] * 5
    moved.load_state_dict(network().state_dict())
    assert torch.equal(views["2.bias"], network()[2].bias), "loading writes into the vector"


def test_a_vector_for_each_dtype() -> None:
    mixed = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2).double())
    vectors = Layout(mixed).move_(mixed, with_gradient=True)
    assert [vector.dtype for vector in vectors] == [torch.float32, torch.float64]


def test_tied_weights_are_one_and_frozen_ones_are_excluded() -> None:
    tied = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    tied[2].weight = tied[0].weight
    tied[2].bias.requires_grad_(False)
    layout = Layout(tied)
    vectors = layout.move_(tied, with_gradient=True)
    assert list(layout.views(vectors)) == ["0.weight", "0.bias"]
    assert tied[2].weight is tied[0].weight


def test_a_copy_has_its_own_vector() -> None:
    online = network()
    target = copy.deepcopy(online)
    layout = Layout(online)
    (w,), (theta,) = (layout.move_(each, with_gradient=False) for each in (online, target))
    w.zero_()
    assert theta.abs().sum() > 0
    assert all(p.abs().sum() == 0 for p in online.parameters())


def test_parameters_that_share_memory_are_rejected() -> None:
    shared = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    shared[1].weight = nn.Parameter(shared[0].weight.data.t())
    with pytest.raises(UserError, match=r"0\.weight and 1\.weight share memory"):
        Layout(shared)


def test_a_frozen_parameter_that_shares_the_memory_of_a_trained_one_is_rejected() -> None:
    network = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    network[1].weight = nn.Parameter(network[0].weight.data, requires_grad=False)
    with pytest.raises(UserError, match="share memory"):
        Layout(network)


def test_parameters_that_overlap_in_part_are_rejected() -> None:
    memory = torch.zeros(6)
    overlapping = nn.ParameterList([nn.Parameter(memory[:4]), nn.Parameter(memory[3:])])
    with pytest.raises(UserError, match="0 and 1 share memory"):
        Layout(overlapping)


def test_a_network_without_trained_parameters_is_rejected() -> None:
    with pytest.raises(UserError, match="no parameter that requires a gradient"):
        Layout(nn.Linear(2, 2).requires_grad_(False))


def test_parameters_side_by_side_in_memory_are_separate() -> None:
    memory = torch.arange(6.0)
    neighbours = nn.ParameterList([nn.Parameter(memory[:3]), nn.Parameter(memory[3:])])
    (vector,) = Layout(neighbours).move_(neighbours, with_gradient=True)
    assert [p.tolist() for p in neighbours] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert vector.numel() == 32


def test_every_parameter_begins_at_a_multiple_of_sixteen() -> None:
    """Of 48, 4, 80 and 5 numbers; what lies between them is zero."""
    moved = network()
    layout = Layout(moved)
    assert [slot.offset for slot in layout.slots] == [0, 48, 64, 144]
    (vector,) = layout.move_(moved, with_gradient=True)
    assert vector.numel() == 160
    assert not vector[52:64].any()
    assert not vector[149:].any()
