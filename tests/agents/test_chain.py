"""Explicit backward passes against autograd: random shapes, both heads, dueling, noise."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from proxrl.agents.bodies import ConvNet, Dense, mlp
from proxrl.agents.chain import Chain, Recorded
from proxrl.agents.compiled import Compiled
from proxrl.agents.layers import WIDE
from proxrl.agents.networks import QNetwork, build_network
from proxrl.agents.noisy import draw_noise, noisy_layers, silence
from proxrl.agents.weights import Layout
from proxrl.config import HeadConfig, NetworkConfig
from proxrl.types import ObservationSpec

HEADS = {"expected": HeadConfig(), "categorical": HeadConfig("categorical", 5, -1.0, 1.0)}


def states_of(spec: ObservationSpec, batch: int, seed: int) -> Tensor:
    generator = np.random.default_rng(seed)
    if spec.dtype == "uint8":
        values = generator.integers(0, int(spec.high) + 1, (batch, *spec.state_shape))
    else:
        values = generator.normal(size=(batch, *spec.state_shape))
    return torch.from_numpy(values.astype(spec.dtype))


def assert_same_as_autograd(network: QNetwork, states: Tensor) -> None:
    """Outputs and gradients of the chain, and of the same body recorded by autograd."""
    assert isinstance(network._function, Chain | Compiled)
    draw_noise(noisy_layers(network), np.random.default_rng(1))
    recorded = copy.deepcopy(network)
    recorded._function = Recorded(recorded.body)
    results = []
    for each in (network, recorded):
        (vector,) = Layout(each).move_(each, with_gradient=True)
        vector.grad.fill_(torch.nan)  # every entry must be written, or zeroed first
        with torch.inference_mode():
            outputs, backward = each.with_backward(states)
            backward(torch.linspace(-1.0, 1.0, outputs.numel()).view_as(outputs))
        gradients = [p.grad.clone() for p in each.parameters()]
        results.append((outputs, gradients))
    (mine, gradients), (its, expected) = results
    torch.testing.assert_close(mine, its)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert_same_for_one_state(network, states)


def assert_same_for_one_state(network: QNetwork, states: Tensor) -> None:
    """The function for acting, also after the weights changed, with noise and without."""
    values = network.of_state()
    for change in (lambda: None, lambda: next(network.parameters()).data.mul_(2.0)):
        change()
        for state, expected in zip(states, network(states).detach(), strict=True):
            torch.testing.assert_close(torch.from_numpy(values(state.numpy())), expected)
        silence(noisy_layers(network))


@settings(max_examples=25, deadline=None)
@given(
    batch=st.integers(1, WIDE + 8),
    height=st.integers(3, 12),
    width=st.integers(3, 12),
    channels=st.integers(1, 5),
    stack=st.integers(1, 3),
    hidden=st.lists(st.integers(1, 20), max_size=2),
    seed=st.integers(0, 99),
)
def test_small_images_of_any_shape(
    batch: int, height: int, width: int, channels: int, stack: int, hidden: list[int], seed: int
) -> None:
    spec = ObservationSpec((height, width, channels), "uint8", stack, high=2.0)
    network = build_network(spec, 3, NetworkConfig("minatar", tuple(hidden)), seed)
    assert_same_as_autograd(network, states_of(spec, batch, seed))


@pytest.mark.parametrize(
    ("spec", "kind", "hidden"),
    [
        (ObservationSpec((6,), "float32", 2), "mlp", (9, 7)),
        (ObservationSpec((10, 10, 4), "uint8", 1, high=1.0), "minatar", (16,)),
        (ObservationSpec((36, 40), "uint8", 3, high=255.0), "nature", (16,)),
        (ObservationSpec((21, 26), "uint8", 2, high=255.0), "nature-same", (16,)),
    ],
)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("dueling", "noisy"), [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("batch", [5, WIDE + 1])
def test_every_built_in_network_with_every_head(
    spec: ObservationSpec,
    kind: str,
    hidden: tuple[int, ...],
    head: str,
    dueling: bool,
    noisy: bool,
    batch: int,
) -> None:
    config = NetworkConfig(kind, hidden, dueling=dueling, noisy=noisy)
    network = build_network(spec, 3, config, 0, HEADS[head])
    assert_same_as_autograd(network, states_of(spec, batch, 0))


@pytest.mark.parametrize("batch", [8, WIDE])
def test_it_is_bit_identical_to_itself(batch: int) -> None:
    spec = ObservationSpec((10, 10, 4), "uint8", 1, high=1.0)
    network = build_network(spec, 3, NetworkConfig("minatar", (16,)), 0)
    (vector,) = Layout(network).move_(network, with_gradient=True)
    found = []
    for _ in range(2):
        with torch.inference_mode():
            outputs, backward = network.with_backward(states_of(spec, batch, 3))
            backward(torch.ones_like(outputs))
        found.append(vector.grad.clone())
    assert torch.equal(*found)


def test_a_small_convolution_equals_torchs() -> None:
    """One matrix product over patches, against conv2d."""
    spec = ObservationSpec((7, 5, 3), "uint8", 2, high=4.0)
    network = build_network(spec, 2, NetworkConfig("minatar", ()), 0)
    states = states_of(spec, 4, 0)
    images = states.permute(0, 1, 4, 2, 3).flatten(1, 2).float() / 4.0  # [batch, channels, y, x]
    convolved = network.body.convolutions[0](images).relu()
    expected = network.body.dense.last(convolved.permute(0, 2, 3, 1).flatten(1))
    torch.testing.assert_close(network(states), expected)


@pytest.mark.parametrize(("kind", "in_numpy"), [("minatar", True), ("nature-same", False)])
def test_small_networks_act_in_numpy(kind: str, in_numpy: bool) -> None:
    spec = ObservationSpec((10, 10, 4), "uint8", 1, high=1.0)
    network = build_network(spec, 3, NetworkConfig(kind, (16,)), seed=0)
    assert (network._function.of_state() is not None) == in_numpy


def test_a_custom_network_is_recorded_by_autograd() -> None:
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    network = QNetwork(own, 2, HEADS["expected"], dueling=False)
    assert isinstance(network._function, Recorded)
    Layout(network).move_(network, with_gradient=True)
    for _ in range(2):  # gradients do not accumulate over updates
        states = torch.ones(3, 1, 4)
        with torch.inference_mode():
            outputs, backward = network.with_backward(states)
            backward(torch.ones_like(outputs))
    assert torch.equal(own[1].weight.grad, torch.full((2, 4), 3.0))


def tie(body: torch.nn.Module) -> None:
    body.layers[2] = body.layers[1]


def freeze(body: torch.nn.Module) -> None:
    body.layers[0].requires_grad_(False)


def parametrize(body: torch.nn.Module) -> None:
    torch.nn.utils.parametrizations.weight_norm(body.layers[0])


def without_bias(body: torch.nn.Module) -> None:
    body.layers[0] = torch.nn.Linear(4, 8, bias=False)


def replace_last(body: torch.nn.Module) -> None:
    body.last = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(8, 2))


def hook(body: torch.nn.Module) -> None:
    body.layers[0].register_forward_hook(lambda module, inputs, outputs: 2.0 * outputs)


def hook_before(body: torch.nn.Module) -> None:
    body.layers[0].register_forward_pre_hook(lambda module, inputs: (2.0 * inputs[0],))


def hook_backward(body: torch.nn.Module) -> None:
    body.layers[0].register_full_backward_hook(lambda module, to, of: None)


def hook_before_backward(body: torch.nn.Module) -> None:
    body.layers[0].register_full_backward_pre_hook(lambda module, of: (2.0 * of[0],))


def hook_weight(body: torch.nn.Module) -> None:
    body.layers[0].weight.register_hook(lambda gradient: 2.0 * gradient)


def hook_gradient(body: torch.nn.Module) -> None:
    body.layers[0].weight.register_post_accumulate_grad_hook(lambda weight: None)


def own_forward(body: torch.nn.Module) -> None:
    dense = type(body).forward
    body.forward = lambda states: 2.0 * dense(body, states)


CHANGES = [
    *(tie, freeze, parametrize, without_bias, replace_last, own_forward),
    *(hook, hook_before, hook_backward, hook_before_backward, hook_weight, hook_gradient),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_built_in_body_that_was_changed_is_recorded_by_autograd(change: Any) -> None:
    spec = ObservationSpec((4,), "float32", 1)
    body = mlp(spec, 2, (8, 8, 8))
    plain = copy.deepcopy(body)
    for one in (body, plain):  # a copy would have no hooks of tensors
        torch.manual_seed(0)
        change(one)
    network = QNetwork(body, 2, HEADS["expected"], dueling=False)
    assert isinstance(network._function, Recorded)
    states = states_of(spec, 5, 0)
    Layout(network).move_(network, with_gradient=True)
    with torch.inference_mode():
        outputs, backward = network.with_backward(states)
        backward(torch.ones_like(outputs))
    plain(states).sum().backward()
    assert torch.equal(outputs, plain(states))
    for mine, its in zip(body.parameters(), plain.parameters(), strict=True):
        if mine.requires_grad:
            torch.testing.assert_close(mine.grad, its.grad)


@pytest.mark.parametrize(
    ("small", "convolutions"),
    [
        (True, [{"kernel_size": 3, "padding": 1}]),
        (True, [{"kernel_size": 3, "stride": 2}]),
        (True, [{"kernel_size": (3, 2)}]),
        (True, [{"kernel_size": 3, "dilation": 2}]),
        (True, [{"kernel_size": 3}, {"kernel_size": 3}]),
        (False, [{"kernel_size": 3, "padding": 1, "padding_mode": "circular"}]),
        (False, [{"kernel_size": 3, "padding": "same"}]),
        (False, [{"kernel_size": 3, "padding": "valid"}]),
        (False, [{"kernel_size": 3, "stride": 2, "padding": 1}]),
    ],
)
def test_convolutions_of_any_geometry_have_autograds_gradients(
    small: bool, convolutions: list[dict[str, Any]]
) -> None:
    """A chain where it can, autograd where it cannot."""
    spec = ObservationSpec((9, 9, 4), "uint8", 1, high=1.0)
    modules = [torch.nn.Conv2d(4, 4, **geometry) for geometry in convolutions]
    body = ConvNet(spec, modules, (8,), 2, small=small)
    network = QNetwork(body, 2, HEADS["expected"], dueling=False)
    unusual = "padding_mode" in convolutions[0] or convolutions[0].get("padding") != 1
    chained = isinstance(network._function, Chain | Compiled)
    assert chained == (not small and not unusual)
    plain, states = copy.deepcopy(body), states_of(spec, 5, 0)
    Layout(network).move_(network, with_gradient=True)
    with torch.inference_mode():
        outputs, backward = network.with_backward(states)
        backward(torch.ones_like(outputs))
    plain(states).sum().backward()
    torch.testing.assert_close(outputs, plain(states).detach())
    for mine, its in zip(body.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-4)


def test_a_subclass_of_a_built_in_body_is_recorded_by_autograd() -> None:
    class Halved(Dense):
        def forward(self, states: Tensor) -> Tensor:
            return super().forward(states) / 2.0

    body = Halved(4, (8,), 2)
    network = QNetwork(body, 2, HEADS["expected"], dueling=False)
    states = torch.ones(3, 1, 4)
    assert torch.equal(network(states), body(states))


def test_a_silent_layer_passes_no_gradient_to_its_noise() -> None:
    spec = ObservationSpec((4,), "float32", 1)
    network = build_network(spec, 2, NetworkConfig("mlp", (8,), noisy=True), 0)
    layers = noisy_layers(network)
    draw_noise(layers, np.random.default_rng(1))
    silence(layers)
    (vector,) = Layout(network).move_(network, with_gradient=True)
    vector.grad.fill_(torch.nan)
    states, recorded = states_of(spec, 5, 0), copy.deepcopy(network.body)
    with torch.inference_mode():
        outputs, backward = network.with_backward(states)
        backward(torch.ones_like(outputs))
    recorded.zero_grad()
    recorded(states).sum().backward()
    for mine, its in zip(network.body.parameters(), recorded.parameters(), strict=True):
        expected = torch.zeros_like(its) if its.grad is None else its.grad
        torch.testing.assert_close(mine.grad, expected)
