"""The compiled layers: against PyTorch's, row by row, and where they leave the work to it.

`test_chain.py` compares them with autograd on random shapes.
"""

import importlib.machinery
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from proxrl.agents import kernels, layers
from proxrl.agents.bodies import function_of, minatar, mlp
from proxrl.agents.chain import Function
from proxrl.agents.library import _ARGUMENTS, _is_right, library
from proxrl.agents.networks import build_network
from proxrl.agents.weights import Layout
from proxrl.config import NetworkConfig
from proxrl.types import ObservationSpec

SPEC = ObservationSpec((10, 10, 4), "bool", high=1.0)

pytestmark = pytest.mark.skipif(
    library() is None, reason="proxrl was installed without a C compiler"
)


def sparse_states(batch: int, spec: ObservationSpec = SPEC, seed: int = 0) -> Tensor:
    """Mostly zeros, as MinAtar's."""
    generator = np.random.default_rng(seed)
    return torch.from_numpy((generator.random((batch, *spec.state_shape)) < 0.1).astype(spec.dtype))


def without_kernels(make: Callable[[], Function], monkeypatch: pytest.MonkeyPatch) -> Function:
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "library", lambda: None)
        return make()


def test_one_call_per_layer_has_the_gradients_of_pytorchs_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = []
    for compiled in (True, False):
        torch.manual_seed(0)
        body = minatar(SPEC, 6, (128,)).to(memory_format=torch.channels_last)
        (vector,) = Layout(body).move_(body, with_gradient=True)
        vector.grad.fill_(torch.nan)
        if compiled:
            function = function_of(body)
        else:
            function = without_kernels(lambda body=body: function_of(body), monkeypatch)
        first = function._layers[0]
        assert isinstance(first, kernels.Convolution if compiled else layers.SmallConvolution)
        with torch.inference_mode():
            outputs, backward = function.with_backward(sparse_states(32))
            backward(torch.linspace(-1.0, 1.0, outputs.numel()).view_as(outputs))
        results.append((outputs, torch.cat([p.grad.flatten() for p in body.parameters()])))
    (mine, gradient), (its, expected) = results
    torch.testing.assert_close(mine, its)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


def test_a_state_has_the_same_bits_in_a_batch_and_alone() -> None:
    function = function_of(minatar(SPEC, 6, (128,)).to(memory_format=torch.channels_last))
    states, of_state = sparse_states(33), function.of_state()
    with torch.inference_mode():
        together = function.forward(states)
        for number, state in enumerate(states):
            assert torch.equal(function.forward(state[None])[0], together[number])
            assert np.array_equal(of_state(state.numpy()), together[number].numpy())


@pytest.mark.parametrize(("height", "width", "channels"), [(3, 3, 1), (4, 9, 7), (8, 3, 13)])
@pytest.mark.parametrize("filled", [0.0, 0.1, 1.0])
def test_the_convolution_at_every_border(
    height: int, width: int, channels: int, filled: float
) -> None:
    spec = ObservationSpec((height, width, channels), "uint8", high=1.0)
    pixels = (np.random.default_rng(0).random((5, *spec.state_shape)) < filled).astype(np.uint8)
    module = nn.Conv2d(channels, 16, kernel_size=3).to(memory_format=torch.channels_last)
    images = torch.from_numpy(pixels[:, 0]).permute(0, 3, 1, 2)
    with torch.no_grad():
        layer = kernels.make_convolution(module, spec)
        assert isinstance(layer, kernels.Convolution)
        found = layer.forward(layer.inputs(torch.from_numpy(pixels)))
        expected = module(images.float()).relu().permute(0, 2, 3, 1).flatten(1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("inputs", [1, 7, 8, 17, 300])
@pytest.mark.parametrize("units", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("batch", [1, 5, 8])
def test_dense_layers_of_sizes_that_fill_no_register(inputs: int, units: int, batch: int) -> None:
    torch.manual_seed(0)
    module, values = nn.Linear(inputs, units), torch.randn(batch, inputs)
    gradient = torch.randn(batch, units)
    found = []
    for layer in (kernels.Dense(module, relu=True), layers.Dense(module, relu=True)):
        for parameter in module.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        with torch.inference_mode():
            outputs = layer.forward(values)
            before = layer.backward(values, outputs, gradient, wanted=True)
        found.append([outputs, before, *(p.grad for p in module.parameters())])
    for mine, its in zip(*found, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


def test_not_a_number_passes_through() -> None:
    """Otherwise a diverging run would not be noticed."""
    layer = kernels.Dense(nn.Linear(9, 4), relu=True)
    with torch.no_grad():
        assert layer.forward(torch.full((3, 9), torch.nan)).isnan().all()
    module = nn.Conv2d(4, 16, 3).to(memory_format=torch.channels_last)
    module.weight.data.fill_(torch.nan)
    first = kernels.make_convolution(module, SPEC)
    with torch.no_grad():
        outputs = first.forward(first.inputs(torch.ones(2, *SPEC.state_shape, dtype=torch.bool)))
    assert outputs.isnan().all()


def test_autograd_counters_and_large_layers_are_left_to_pytorch() -> None:
    states = sparse_states(8)
    body = minatar(SPEC, 6, (128,)).to(memory_format=torch.channels_last)
    function = function_of(body)
    outputs = function.forward(states)  # differentiable
    assert outputs.grad_fn is not None
    with torch.no_grad():
        torch.testing.assert_close(function.forward(states), outputs.detach())
        with FlopCounterMode(display=False) as counted:
            function.forward(states)
        assert counted.get_total_flops() == 2 * 8 * (64 * 36 * 16 + 1024 * 128 + 128 * 6)
        large = kernels.Dense(nn.Linear(4_000, 4_000), relu=False)
        assert not large._computes(torch.zeros(1, 4_000))


def test_without_the_library_pytorchs_layers_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ObservationSpec((4,), "float32")
    function = without_kernels(lambda: function_of(mlp(spec, 2, (8,))), monkeypatch)
    assert all(isinstance(layer, layers.Dense) for layer in function._layers)


def test_a_library_that_cannot_be_loaded_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.so").write_bytes(b"not a library")
    for origin in (None, str(tmp_path / "broken.so")):
        spec = importlib.machinery.ModuleSpec("broken", None, origin=origin)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, spec=spec: spec)
        assert library.__wrapped__() is None


def test_a_library_that_computes_something_else_is_not_used() -> None:
    found = library()
    assert found is not None
    assert _is_right(found)
    for name in _ARGUMENTS:
        wrong = {each: getattr(found, each) for each in _ARGUMENTS}
        wrong[name] = lambda *arguments: None
        assert not _is_right(SimpleNamespace(**wrong))


def test_weights_in_another_memory_order_are_left_to_pytorch() -> None:
    module = nn.Linear(6, 5)
    module.weight.data = module.weight.data.t().contiguous().t()
    values = torch.randn(3, 6)
    layer = kernels.Dense(module, relu=False)
    with torch.no_grad():
        torch.testing.assert_close(layer.forward(values), module(values))
        of_state = layer.of_state()
        assert of_state is not None
        torch.testing.assert_close(
            torch.from_numpy(of_state(values[0].numpy())), module(values)[0].detach()
        )
    body = minatar(SPEC, 6, (16,)).to(memory_format=torch.contiguous_format)
    states = sparse_states(4)
    with torch.no_grad():
        torch.testing.assert_close(function_of(body).forward(states), body(states))


def test_torchs_defaults_do_not_matter() -> None:
    function = function_of(mlp(ObservationSpec((6,), "float32"), 2, (8,)))
    states = torch.randn(3, 1, 6)
    with torch.no_grad():
        expected = function.forward(states)
        torch.set_default_dtype(torch.bfloat16)
        try:
            found = function.forward(states)
        finally:
            torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)


def test_states_of_another_shape_are_refused_as_by_pytorch() -> None:
    function = function_of(mlp(ObservationSpec((6,), "float32"), 2, (8,)))
    images = function_of(minatar(SPEC, 6, (16,)).to(memory_format=torch.channels_last))
    with torch.no_grad():
        for network, states in (
            (function, torch.zeros(3, 1, 5)),
            (images, torch.zeros(2, 1, 5, 5, 4, dtype=torch.bool)),
        ):
            with pytest.raises((RuntimeError, IndexError)):
                network.forward(states)
            with pytest.raises((ValueError, AssertionError)):
                network.of_state()(states[0].numpy())


@pytest.mark.filterwarnings("ignore")  # tracing is deprecated, and warns of lengths
def test_a_traced_network_computes() -> None:
    network = build_network(ObservationSpec((6,), "float32"), 2, NetworkConfig("mlp", (8,)), 0)
    states = torch.randn(3, 1, 6)
    with torch.no_grad():
        traced = torch.jit.trace(network, states)
        torch.testing.assert_close(traced(2 * states), network(2 * states))


def test_an_empty_batch_has_no_gradient() -> None:
    module = nn.Linear(6, 5)
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    layer = kernels.Dense(module, relu=True)
    with torch.inference_mode():
        outputs = layer.forward(torch.empty(0, 6))
        layer.backward(torch.empty(0, 6), outputs, torch.empty(0, 5), wanted=True)
    assert all((parameter.grad == 0).all() for parameter in module.parameters())


def test_arrays_of_the_function_for_one_state_are_kept() -> None:
    """The compiled function is given addresses only."""
    of_states = [
        function_of(minatar(SPEC, 6, (16,)).to(memory_format=torch.channels_last)).of_state()
        for _ in range(20)
    ]
    state = sparse_states(1)[0].numpy()
    first = [of_state(state) for of_state in of_states]
    _ = [np.full(4_000, np.nan, np.float32) for _ in range(500)]  # reuses what was freed
    for of_state, values in zip(of_states, first, strict=True):
        assert np.array_equal(of_state(state), values)


def test_a_bias_in_another_memory_order_or_dtype_is_left_to_pytorch() -> None:
    values = torch.randn(3, 6)
    strided, double = nn.Linear(6, 5), nn.Linear(6, 5)
    strided.bias.data = torch.randn(5, 2)[:, 0]
    double.bias.data = double.bias.data.double()
    with torch.no_grad():
        found = kernels.Dense(strided, relu=False).forward(values)
        torch.testing.assert_close(found, strided(values))
        with pytest.raises(RuntimeError):  # as from PyTorch
            kernels.Dense(double, relu=False).forward(values)


def test_a_gradient_in_another_memory_order_is_refused() -> None:
    module = nn.Linear(6, 5)
    layer, values = kernels.Dense(module, relu=False), torch.randn(3, 6)
    module.weight.grad, module.bias.grad = torch.zeros(6, 5).t(), torch.zeros(5)
    with torch.inference_mode():
        outputs = layer.forward(values)
        with pytest.raises(ValueError, match="another memory order"):
            layer.backward(values, outputs, torch.ones_like(outputs), wanted=False)
