"""Networks: sizes known from the papers, choice by observation, registration."""

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from proxrl.agents import bodies
from proxrl.agents.bodies import scaled_images
from proxrl.agents.layers import Convolution
from proxrl.agents.networks import QNetwork, _registry, build_network, register_network
from proxrl.agents.noisy import noisy_layers
from proxrl.agents.padding import SameConvolution, same_padding
from proxrl.agents.weights import Layout
from proxrl.config import HeadConfig, NetworkConfig
from proxrl.errors import UserError
from proxrl.plugins import BUILT_IN
from proxrl.proximal.rules import registry
from proxrl.types import Array, ObservationSpec

ATARI = ObservationSpec((84, 84), "uint8", 4, high=255.0)
MINATAR = ObservationSpec((10, 10, 4), "uint8", 1, high=1.0)
VECTOR = ObservationSpec((4,), "float32")


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_nature_has_the_published_number_of_weights() -> None:
    """4x8x8x32+32, 32x4x4x64+64, 64x3x3x64+64, 3136x512+512, 512x18+18."""
    network = build_network(ATARI, 18, NetworkConfig("nature", (512,)), seed=0)
    assert count(network) == 8224 + 32832 + 36928 + 1606144 + 9234


def test_nature_same_has_dopamines_number_of_weights() -> None:
    """84 -> 21 -> 11 -> 11: 11 x 11 x 64 = 7,744 features; the convolutions as in `nature`."""
    network = build_network(ATARI, 4, NetworkConfig("nature-same", (512,)), seed=0)
    assert count(network) == 8224 + 32832 + 36928 + (7744 * 512 + 512) + (512 * 4 + 4)
    assert count(network) == 4_045_476
    sides, images = [], scaled_images(torch.zeros((1, 4, 84, 84), dtype=torch.uint8), ATARI)
    for module in network.body.convolutions:
        images = Convolution(module).forward(images)
        sides.append(tuple(images.shape[1:3]))
        assert images.is_contiguous(), "channels last, so that flattening copies nothing"
    assert sides == [(21, 21), (11, 11), (11, 11)]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        *((84, 8, 4, (2, 2)), (21, 4, 2, (1, 2)), (11, 3, 1, (1, 1)), (10, 3, 1, (1, 1))),
        *((5, 1, 1, (0, 0)), (8, 2, 4, (0, 0)), (9, 2, 4, (0, 1))),
    ],
)
def test_same_padding_by_hand(
    size: int, kernel: int, stride: int, padding: tuple[int, int]
) -> None:
    assert same_padding(size, kernel, stride) == padding


def test_both_axes_have_a_kernel_and_a_stride_of_their_own() -> None:
    layer = SameConvolution(1, 1, kernel_size=(4, 3), stride=(2, 1))
    assert layer.zeros(torch.zeros(1, 1, 21, 11)) == (1, 2, 1, 1)
    assert layer.zeros(torch.zeros(1, 1, 11, 21)) == (1, 2, 1, 1)
    assert layer.zeros(torch.zeros(1, 1, 22, 21)) == (1, 1, 1, 1)


def same_oracle(images: Array, weight: Array, bias: Array, stride: int) -> Array:
    """SAME padding from TensorFlow's documentation, one output at a time: k - s zeros if the stride
    divides the size, else k - size mod s, the odd one at the end."""
    kernel = weight.shape[2]
    zeros = [max(kernel - (size % stride or stride), 0) for size in images.shape[1:3]]
    (top, bottom), (left, right) = ((n // 2, n - n // 2) for n in zeros)
    padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)))
    places = [math.ceil(size / stride) for size in images.shape[1:3]]
    outputs = np.zeros((len(images), *places, len(weight)))
    for row, column in np.ndindex(*places):
        y, x = row * stride, column * stride
        patch = padded[:, y : y + kernel, x : x + kernel]  # [batch, kernel, kernel, channels]
        outputs[:, row, column] = np.einsum("byxc,ocyx->bo", patch, weight) + bias
    return outputs.clip(min=0.0)


@pytest.mark.parametrize(
    ("height", "width", "kernel", "stride"),
    [
        *((84, 84, 8, 4), (21, 21, 4, 2), (11, 11, 3, 1)),  # those of the network
        *((13, 22, 8, 4), (7, 8, 4, 2), (21, 20, 4, 2), (5, 3, 3, 3), (9, 9, 2, 4), (1, 6, 4, 2)),
    ],
)
def test_a_padded_convolution_is_tensorflows(
    height: int, width: int, kernel: int, stride: int
) -> None:
    layer = SameConvolution(3, 5, kernel_size=kernel, stride=stride)
    images = torch.rand((2, height, width, 3))
    with torch.no_grad():
        found = Convolution(layer).forward(images)
    expected = same_oracle(
        images.double().numpy(),
        layer.weight.detach().double().numpy(),
        layer.bias.detach().double().numpy(),  # type: ignore[union-attr]
        stride,
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


FAN_IN, FAN_OUT = 4 * 8 * 8, 32 * 8 * 8  # of the first convolution


@pytest.mark.parametrize(
    ("how", "bound"),
    [
        ("xavier", math.sqrt(6 / (FAN_IN + FAN_OUT))),
        ("fan_in", math.sqrt(3 / math.sqrt(3) / FAN_IN)),  # TensorFlow's limit sqrt(3 scale / n)
        ("torch", 1 / math.sqrt(FAN_IN)),
    ],
)
def test_initial_weights_are_uniform_within_their_bound(how: Any, bound: float) -> None:
    config = NetworkConfig("nature-same", (512,), initial_weights=how)
    network = build_network(ATARI, 4, config, seed=0)
    layer = network.body.convolutions[0]
    weights = layer.weight.detach().flatten()
    assert 0.99 * bound < weights.abs().max() <= bound
    assert weights.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    for each in (layer, network.body.dense.layers[0], network.body.dense.last):
        assert bool(each.bias.any()) == (how == "torch")
    again = build_network(ATARI, 4, config, seed=0)
    other = build_network(ATARI, 4, config, seed=1)
    assert torch.equal(layer.weight, again.body.convolutions[0].weight)
    assert not torch.equal(layer.weight, other.body.convolutions[0].weight)


def test_initial_weights_of_dense_layers() -> None:
    """7,744 inputs and 512 outputs, by hand."""
    for how, bound in (("xavier", math.sqrt(6 / 8256)), ("fan_in", math.sqrt(3**0.5 / 7744))):
        config = NetworkConfig("nature-same", (512,), initial_weights=how)  # type: ignore[arg-type]
        weight = build_network(ATARI, 4, config, seed=0).body.dense.layers[0].weight
        assert 0.999 * bound < weight.abs().max() <= bound


def test_noisy_layers_keep_their_initial_weights() -> None:
    """Means and biases uniform within 1/sqrt(inputs) (Fortunato et al. 2018)."""
    config = NetworkConfig("minatar", (128,), noisy=True, initial_weights="fan_in")
    network = build_network(MINATAR, 4, config, seed=0)
    bound = 1 / math.sqrt(8 * 8 * 16)
    first = noisy_layers(network)[0]
    for means in (first.weight, first.bias):
        assert 0.9 * bound < means.abs().max() <= bound
    assert not network.body.convolutions[0].bias.any()


def test_minatar_has_the_published_number_of_weights() -> None:
    """4x3x3x16+16, 8x8x16x128+128, 128x6+6."""
    network = build_network(MINATAR, 6, NetworkConfig("minatar", (128,)), seed=0)
    assert count(network) == 592 + 131200 + 774


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        (ATARI, (32, 4, 8, 8)),
        (ObservationSpec((96, 96, 3), "uint8", 2, high=255.0), (32, 6, 8, 8)),
        (MINATAR, (16, 4, 3, 3)),
        (VECTOR, (128, 4)),
        (ObservationSpec((4,), "float32", stack=3), (128, 12)),
        (ObservationSpec((36, 40), "uint8", 2, high=255.0), (32, 2, 8, 8)),
        (ObservationSpec((40, 35), "uint8", 2, high=255.0), (16, 2, 3, 3)),
        (ObservationSpec((3, 9), "uint8", 2, high=255.0), (16, 2, 3, 3)),
        (ObservationSpec((9, 2), "uint8", 2, high=255.0), (128, 36)),
    ],
)
def test_auto_fits_the_observation(spec: ObservationSpec, first: tuple[int, ...]) -> None:
    network = build_network(spec, 3, NetworkConfig(), seed=0)
    assert next(network.parameters()).shape == first


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(
    ("kind", "spec"),
    [("nature", ObservationSpec((40, 36), "uint8", 2, high=255.0)), ("mlp", VECTOR)],
)
def test_a_relu_follows_every_layer_but_the_last(
    kind: str, spec: ObservationSpec, noisy: bool
) -> None:
    """The layers called one after the other; noisy ones are silent."""
    network = build_network(spec, 3, NetworkConfig(kind, (9, 7), noisy=noisy), seed=0)
    generator = torch.Generator().manual_seed(0)
    if kind == "nature":
        states = torch.randint(0, 256, (5, 2, 40, 36), dtype=torch.uint8, generator=generator)
        values, dense = states / 255.0, network.body.dense
        for convolution in network.body.convolutions:
            values = convolution(values).relu()
        values = values.permute(0, 2, 3, 1).flatten(1)  # channels innermost
    else:
        states = torch.randn(5, 1, 4, generator=generator)
        values, dense = states.flatten(1), network.body
    for layer in dense.layers:
        values = layer(values).relu()
    torch.testing.assert_close(network(states), dense.last(values))


def test_images_are_scaled_to_one_inside_the_network() -> None:
    network = build_network(ATARI, 2, NetworkConfig("nature", (512,)), seed=0)
    states = torch.full((1, 4, 84, 84), 255, dtype=torch.uint8)
    assert scaled_images(states, ATARI).max() == 1.0
    for high in (1.0, 2.0):
        spec = ObservationSpec((84, 84), "uint8", 4, high=high)
        assert scaled_images(torch.full_like(states, int(high)), spec).unique().tolist() == [1.0]
    assert torch.equal(network(states), network(states.clone())), "and the states are left alone"


def test_a_stack_of_images_with_channels_becomes_channels() -> None:
    spec = ObservationSpec((5, 6, 2), "uint8", stack=2, high=1.0)
    states = torch.arange(2 * 5 * 6 * 2).reshape(1, 2, 5, 6, 2).to(torch.uint8)
    images = scaled_images(states, spec)
    assert images.shape == (1, 5, 6, 4)
    assert images.is_contiguous()
    assert torch.equal(images[0, :, :, 3], states[0, 1, :, :, 1].float())


def test_weights_depend_only_on_the_seed() -> None:
    def weights(seed: int) -> torch.Tensor:
        return next(build_network(VECTOR, 2, NetworkConfig(), seed).parameters())

    torch.manual_seed(123)
    one = weights(0)
    torch.manual_seed(456)
    assert torch.equal(one, weights(0))
    assert not torch.equal(one, weights(1))
    after = torch.rand(1)
    torch.manual_seed(456)
    assert torch.equal(torch.rand(1), after), "building a network draws nothing from outside"


CATEGORICAL = HeadConfig("categorical", atoms=5, v_min=-2.0, v_max=2.0)


def test_a_categorical_head_outputs_logits_and_their_expectation() -> None:
    """5 atoms at -2 .. 2: Q = sum_i z_i softmax_i."""
    network = build_network(VECTOR, 3, NetworkConfig(hidden=(8,)), seed=0, head=CATEGORICAL)
    states = torch.randn(6, 1, 4)
    logits = network.outputs(states)
    assert logits.shape == (6, 3, 5)
    expected = (logits.softmax(dim=2) * torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])).sum(dim=2)
    torch.testing.assert_close(network(states), expected)


@pytest.mark.parametrize("head", [HeadConfig(), CATEGORICAL])
def test_dueling_centres_the_advantages_and_adds_the_value(head: HeadConfig) -> None:
    """With V = 0 and advantages of mean 0 it is the plain network; V shifts all actions equally."""
    plain = build_network(VECTOR, 3, NetworkConfig(hidden=(8,)), 0, head)
    dueling = build_network(VECTOR, 3, NetworkConfig(hidden=(8,), dueling=True), 0, head)
    mine, its = ([*network.body.layers, network.body.last] for network in (plain, dueling))
    rows = head.atoms if head.kind == "categorical" else 1
    with torch.no_grad():
        for weight in (mine[-1].weight, mine[-1].bias):  # advantages of mean zero
            by_action = weight.view(3, rows, -1)
            by_action -= by_action.mean(dim=0)
        for layer, other in zip(mine, its, strict=True):
            if isinstance(layer, nn.Linear):
                last = layer is mine[-1]
                other.weight[rows if last else 0 :] = layer.weight
                other.bias[rows if last else 0 :] = layer.bias
        its[-1].weight[:rows] = 0.0
        its[-1].bias[:rows] = 0.0
    states = torch.randn(6, 1, 4)
    torch.testing.assert_close(dueling.outputs(states), plain.outputs(states), rtol=0, atol=1e-6)
    with torch.no_grad():
        its[-1].bias[:rows] = 0.5
    torch.testing.assert_close(
        dueling.outputs(states), plain.outputs(states) + 0.5, rtol=0, atol=1e-6
    )


def test_dueling_by_hand() -> None:
    """V = 10 and advantages 1, 2, 6 of mean 3; and the same for each of two atoms."""
    expected = QNetwork(nn.Flatten(), 3, HeadConfig(), dueling=True)
    assert expected.outputs(torch.tensor([[[10.0, 1.0, 2.0, 6.0]]])).tolist() == [[8, 9, 13]]
    atoms = QNetwork(nn.Flatten(), 3, HeadConfig("categorical", 2, 0.0, 1.0), dueling=True)
    numbers = torch.tensor([[[10.0, 20.0], [1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]])
    assert atoms.outputs(numbers).tolist() == [[[8, 19], [9, 19], [13, 22]]]


@pytest.mark.parametrize("head", [HeadConfig(), CATEGORICAL])
@pytest.mark.parametrize("dueling", [False, True])
def test_the_way_back_through_the_head_is_autograds(head: HeadConfig, dueling: bool) -> None:
    network = build_network(VECTOR, 3, NetworkConfig(hidden=(8,), dueling=dueling), 0, head)
    states = torch.randn(6, 1, 4)
    outputs = network.outputs(states)
    gradient = torch.linspace(-1.0, 2.0, outputs.numel()).view_as(outputs)
    expected = torch.autograd.grad(outputs, list(network.parameters()), gradient)
    Layout(network).move_(network, with_gradient=True)
    with torch.inference_mode():
        _, backward = network.with_backward(states)
        backward(gradient)
    for parameter, its in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, its)


def test_noisy_layers_fit_any_network() -> None:
    register_network("my-linear", linear)
    noisy = build_network(VECTOR, 2, NetworkConfig("my-linear", noisy=True), seed=0)
    plain = build_network(VECTOR, 2, NetworkConfig("my-linear"), seed=0)
    states = torch.randn(6, 1, 4)
    assert count(noisy) == 2 * count(plain)
    assert torch.equal(noisy(states), plain(states)), "silent until noise is drawn"


def bare(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LayerNorm(4))


def lazy(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(outputs))


def test_a_network_without_linear_layers_cannot_be_noisy() -> None:
    register_network("bare", bare)
    with pytest.raises(UserError, match=r"bare has no nn\.Linear"):
        build_network(VECTOR, 4, NetworkConfig("bare", (), noisy=True), seed=0)


def test_lazy_layers_draw_from_the_seed_and_can_be_noisy() -> None:
    register_network("lazy", lazy)
    one, other = (build_network(VECTOR, 2, NetworkConfig("lazy"), seed=0) for _ in range(2))
    states = torch.randn(3, 1, 4)
    assert torch.equal(one(states), other(states))
    noisy = build_network(VECTOR, 2, NetworkConfig("lazy", noisy=True), seed=0)
    assert torch.equal(one(states), noisy(states))


def dropping(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(spec.shape[0], outputs))


@pytest.mark.parametrize("noisy", [False, True])
def test_networks_stay_in_evaluation_mode(noisy: bool) -> None:
    kind = f"{__name__}:dropping"
    network = build_network(VECTOR, 2, NetworkConfig(kind, noisy=noisy), seed=0)
    assert not any(module.training for module in network.body.modules())
    states = torch.randn(6, 1, 4)
    assert torch.equal(network(states), network(states))


def linear(spec: ObservationSpec, actions: int, hidden: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(spec.shape[0], actions))


def silent_failure(spec: ObservationSpec, actions: int, hidden: tuple[int, ...]) -> nn.Module:
    raise ValueError


def no_module(spec: ObservationSpec, actions: int, hidden: tuple[int, ...]) -> Any:
    return torch.relu


def too_narrow(spec: ObservationSpec, actions: int, hidden: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(spec.shape[0] - 1, actions))


class WithDropout(nn.Linear):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().forward(states.flatten(1)), training=True)


def with_dropout(spec: ObservationSpec, actions: int, hidden: tuple[int, ...]) -> nn.Module:
    return WithDropout(spec.shape[0], actions)


class WithMemory(nn.Linear):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return super().forward(states.flatten(1))


def with_memory(spec: ObservationSpec, actions: int, hidden: tuple[int, ...]) -> nn.Module:
    return WithMemory(spec.shape[0], actions)


class Dishonest(nn.Linear):
    """Not a function of weights and state, in a way that a state of zeros does not show."""

    def __init__(self, inputs: int, outputs: int, how: str) -> None:
        super().__init__(inputs, outputs)
        self.how, self.calls = how, 0
        self.seen: list[float] = []
        self.counts, self.table = [0, 0], {"calls": [0, 0]}
        self.own = np.random.default_rng(0)
        self.register_buffer("counter", torch.zeros(1), persistent=False)
        self.array, self.counted = np.zeros(1), itertools.count()
        self.tensor = torch.zeros(1, dtype=torch.bfloat16)  # which NumPy does not have

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        states = states.flatten(1)
        if self.how == "numpy":
            states = states * np.random.rand()  # noqa: NPY002
        elif self.how == "random":
            states = states * random.random()
        elif self.how == "own":
            states = states * self.own.random()
        elif self.how == "counts in an attribute":
            self.calls += 1  # used later
        elif self.how == "remembers":
            self.seen.append(float(states.sum()))
        elif self.how == "counts in a list":
            self.counts[0] += 1
        elif self.how == "counts in a dictionary":
            self.table["calls"][1] += 1
        elif self.how == "in-place":
            states.mul_(0.5)
        elif self.how == "relu":  # no value of the check is negative
            states.relu_()
        elif self.how == "clamp":
            states.clamp_(-1.0, 1.0)
        elif self.how == "mixes rows":
            states = states - states.mean(0)
        elif self.how == "frozen":
            return super().forward(states).detach()
        elif self.how == "counts in a buffer":
            self.counter += 1
        elif self.how == "counts in an array":
            self.array[0] += 1
        elif self.how == "counts in a tensor":
            self.tensor += 1
        elif self.how == "counts":
            next(self.counted)
        elif self.how == "draws unused numbers":
            self.own.random()
        elif self.how == "returns nan":
            return super().forward(states) * math.nan
        elif self.how == "returns a tuple":
            return (super().forward(states),)  # type: ignore[return-value]
        elif self.how == "raises":
            raise KeyError("nothing")
        elif self.how == "exits":
            raise SystemExit(0)
        return super().forward(states)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("numpy", "draws random numbers"),
        ("random", "draws random numbers"),
        ("own", r"changes its own in forward\(\)"),
        ("counts in an attribute", r"changes its calls in forward\(\)"),
        ("remembers", r"changes its seen in forward\(\)"),
        ("counts in a list", r"changes its counts in forward\(\)"),
        ("counts in a dictionary", r"changes its table in forward\(\)"),
        ("in-place", r"changes its input in forward\(\)"),
        ("relu", r"changes its input in forward\(\)"),
        ("clamp", r"changes its input in forward\(\)"),
        ("counts in a buffer", r"changes its counter in forward\(\)"),
        ("counts in an array", r"changes its array in forward\(\)"),
        ("counts in a tensor", r"changes its tensor in forward\(\)"),
        ("counts", r"changes its counted in forward\(\)"),
        ("draws unused numbers", r"changes its own in forward\(\)"),
        ("returns nan", "returned nan or inf"),
        ("returns a tuple", "returned a tuple, expected a tensor"),
        ("raises", r"it raised KeyError: 'nothing' \(test_networks.py, line"),
        ("exits", r"it called sys.exit\(0\) \(test_networks.py, line"),
        ("mixes rows", "rows of a batch must not affect each other"),
        ("frozen", "has no parameter to train that its output depends on"),
    ],
)
def test_a_network_that_is_no_function_is_refused(how: str, message: str) -> None:
    register_network("dishonest", lambda spec, outputs, hidden: Dishonest(4, outputs, how))
    with pytest.raises(UserError, match=message):
        build_network(VECTOR, 2, NetworkConfig("dishonest"), seed=0)


@pytest.mark.parametrize(("kind", "spec"), [("minatar", MINATAR), ("mlp", VECTOR)])
def test_building_a_network_does_not_affect_the_callers_random_numbers(
    kind: str, spec: ObservationSpec
) -> None:
    before = torch.random.get_rng_state()
    build_network(spec, 2, NetworkConfig(kind), seed=0)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_names_that_are_known_without_torch_are_those_of_the_registries() -> None:
    built_in = [kind for kind, one in _registry.items() if one.__module__ == bodies.__name__]
    assert BUILT_IN["network.kind"] == ("auto", *built_in)
    for kind in BUILT_IN["network.kind"]:
        build_network(MINATAR if kind == "minatar" else ATARI, 2, NetworkConfig(kind), seed=0)
    rules = [name for name, rule in registry._rules.items() if "proxrl" in rule.__module__]
    assert tuple(rules) == BUILT_IN["proximal.rule"]


def test_a_network_that_looks_up_its_states_is_accepted() -> None:
    """The states of the check are within the range of the observations."""

    def lookup(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
        class Lookup(nn.Embedding):
            def forward(self, states: torch.Tensor) -> torch.Tensor:
                return super().forward(states.flatten(1).long()).sum(1)

        return Lookup(4, outputs)

    register_network("lookup", lookup)
    for spec in (VECTOR, ObservationSpec((5,), "uint8", 1, high=3.0)):
        build_network(spec, 2, NetworkConfig("lookup"), seed=0)


def test_a_custom_network_by_name_or_by_module() -> None:
    register_network("my-linear", linear)
    assert count(build_network(VECTOR, 2, NetworkConfig("my-linear"), seed=0)) == 10
    by_module = NetworkConfig(f"{__name__}:linear")
    assert count(build_network(VECTOR, 2, by_module, seed=0)) == 10


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("resnet", VECTOR, "choose from"),
        ("nature", VECTOR, "needs images"),
        ("nature-same", VECTOR, "needs images"),
        ("nature", MINATAR, "36 x 36"),
        ("nature", ObservationSpec((84, 35), "uint8", 1, high=255.0), "36 x 36"),
        ("minatar", VECTOR, "at least 3 x 3"),
        ("minatar", ObservationSpec((10, 2), "uint8", 1, high=255.0), "at least 3 x 3"),
        (f"{__name__}:silent_failure", VECTOR, "cannot build network .*: it raised ValueError"),
        (f"{__name__}:no_module", VECTOR, "not a torch.nn.Module"),
        ("no_module:f", VECTOR, "cannot import network"),
        (":f", VECTOR, "cannot import network"),
        (
            f"{__name__}:linear",
            ObservationSpec((4,), "uint8"),
            "cannot build network .*: mat1 and mat2",
        ),
        (f"{__name__}:too_narrow", VECTOR, "cannot build network .*: mat1 and mat2"),
        (f"{__name__}:with_dropout", VECTOR, "draws random numbers"),
        (f"{__name__}:with_memory", VECTOR, "changes its seen"),
    ],
)
def test_invalid_networks(kind: str, spec: ObservationSpec, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_network(spec, 2, NetworkConfig(kind), seed=0)


def test_a_network_with_the_wrong_output_is_named() -> None:
    register_network("wrong", lambda spec, actions, hidden: nn.Linear(4, 7))
    with pytest.raises(
        UserError, match=r"returned shape \(1, 1, 7\) for one state, expected \(1, 2\)"
    ):
        build_network(VECTOR, 2, NetworkConfig("wrong"), seed=0)


def test_a_network_of_another_precision_is_named() -> None:
    register_network("double", lambda spec, actions, hidden: _Double())
    with pytest.raises(UserError, match=r"returned torch.float64, expected torch.float32"):
        build_network(VECTOR, 2, NetworkConfig("double"), seed=0)


class _Double(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.layer(states.flatten(1).double())
