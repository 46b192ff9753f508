"""The compiled functions: against PyTorch's, row by row, and where they leave the work to it.

`test_chain.py` compares networks of them with autograd on random shapes.
"""

import copy
import importlib.machinery
import importlib.util
import pickle
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from proxrl.agents import compiled, kernels, layers
from proxrl.agents.bodies import function_of, minatar, mlp
from proxrl.agents.chain import Chain, Function
from proxrl.agents.compiled import MOST_PLANS, Compiled
from proxrl.agents.networks import build_network
from proxrl.agents.weights import Layout
from proxrl.config import NetworkConfig
from proxrl.native import Call, backward_room, functions, library
from proxrl.native.checks import is_right
from proxrl.native.loading import ARGUMENTS, AVX2, AVX512, loaded
from proxrl.types import Array, ObservationSpec

SPEC = ObservationSpec((10, 10, 4), "bool", high=1.0)

pytestmark = pytest.mark.skipif(
    library() is None, reason="proxrl was installed without a C compiler"
)


def sparse_states(batch: int, spec: ObservationSpec = SPEC, seed: int = 0) -> Tensor:
    """Mostly zeros, as MinAtar's."""
    generator = np.random.default_rng(seed)
    return torch.from_numpy((generator.random((batch, *spec.state_shape)) < 0.1).astype(spec.dtype))


def small_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return minatar(SPEC, 6, (128,)).to(memory_format=torch.channels_last)


def without_kernels(make: Callable[[], Function], monkeypatch: pytest.MonkeyPatch) -> Function:
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "library", lambda: None)
        return make()


def test_one_call_per_layer_has_the_gradients_of_pytorchs_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = []
    for with_kernels in (True, False):
        body = small_network()
        (vector,) = Layout(body).move_(body, with_gradient=True)
        vector.grad.fill_(torch.nan)
        if with_kernels:
            function = function_of(body)
        else:
            function = without_kernels(lambda body=body: function_of(body), monkeypatch)
        assert isinstance(function, Compiled if with_kernels else Chain)
        with torch.inference_mode():
            outputs, backward = function.with_backward(sparse_states(32))
            backward(torch.linspace(-1.0, 1.0, outputs.numel()).view_as(outputs))
        results.append((outputs, torch.cat([p.grad.flatten() for p in body.parameters()])))
    (mine, gradient), (its, expected) = results
    torch.testing.assert_close(mine, its)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


def test_a_state_has_the_same_bits_in_a_batch_and_alone() -> None:
    function = function_of(small_network())
    states, of_state = sparse_states(33), function.of_state()
    with torch.inference_mode():
        together = function.forward(states)
        for number, state in enumerate(states):
            assert torch.equal(function.forward(state[None])[0], together[number])
            assert np.array_equal(of_state(state.numpy()), together[number].numpy())


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="a CPU without AVX-512"
)
@pytest.mark.parametrize("sizes", [(32, 1024, 128), (9, 35, 266), (1, 8, 1), (17, 100, 7)])
def test_all_cpus_have_the_same_bits(sizes: tuple[int, int, int]) -> None:
    """A wider register computes more numbers at once, none in another order."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return generator.normal(size=shape).astype(np.float32)

    batch, inputs, units = sizes
    x, weight, bias, gradient = (
        normal(*shape) for shape in ((batch, inputs), (units, inputs), (units,), (batch, units))
    )
    images = (generator.random((batch, 10, 10, 4)) < 0.1).astype(np.uint8)
    kernel, channels, to_image = normal(16, 3, 3, 4), normal(16), normal(batch, 8, 8, 16)
    moments = (normal(4 * 16), normal(4 * 16), normal(4 * 16), normal(4 * 16) ** 2)
    found = []
    for name in (AVX2, AVX512):
        c = loaded(name)
        y, to_weight, to_bias, to_x = (np.empty_like(a) for a in (gradient, weight, bias, x))
        z, to_kernel, to_channels = (np.empty_like(a) for a in (to_image, kernel, channels))
        scratch, adam = np.empty(1 << 16, np.float32), [moment.copy() for moment in moments]
        Call(c.dense_forward, *sizes, x, weight, bias, 1, y)()
        before = (*sizes, x, weight, y, 1, gradient, scratch)
        Call(c.dense_backward, *before, to_weight, to_bias, to_x)()
        shape = images.shape
        Call(c.convolution_forward, *shape, images, kernel, channels, scratch, z)()
        into = (scratch, to_kernel, to_channels)
        Call(c.convolution_backward, *shape, images, z, to_image, *into)()
        Call(c.adam_step, 64, *adam, 0.1, 0.999, 0.001, 1e-3, 0.9, 1e-4)()
        found.append([y, to_weight, to_bias, to_x, z, to_kernel, to_channels, *adam])
    for mine, its in zip(*found, strict=True):
        assert np.array_equal(mine, its)


@pytest.mark.parametrize("sizes", [(130, 163, 131), (3, 200, 6), (200, 3, 2)])
@pytest.mark.parametrize("on", [0.0, 0.3, 1.0])
def test_a_backward_pass_leaves_out_the_units_that_are_off(
    sizes: tuple[int, int, int], on: float
) -> None:
    """Products deeper than a panel, of columns that fill wide strips, narrow ones and neither."""
    batch, inputs, units = sizes
    generator = np.random.default_rng(0)
    x, weight = generator.normal(size=(2, max(batch, units), inputs)).astype(np.float32)
    x, weight = x[:batch].copy(), weight[:units].copy()
    gradient = generator.normal(size=(batch, units)).astype(np.float32)
    y = (generator.random((batch, units)) < on).astype(np.float32)
    scratch = np.full(backward_room(batch, units), np.nan, np.float32)
    to_weight, to_bias, to_x = np.empty_like(weight), np.empty(units, np.float32), np.empty_like(x)
    before = (*sizes, x, weight, y, 1, gradient, scratch)
    Call(functions().dense_backward, *before, to_weight, to_bias, to_x)()
    passed = (gradient * y).astype(np.float64)
    np.testing.assert_allclose(to_weight, passed.T @ x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(to_x, passed @ weight, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(to_bias, passed.sum(axis=0), rtol=1e-4, atol=1e-4)
    if on == 0.0:  # not even NaN
        x[...] = weight[...] = np.nan
        Call(functions().dense_backward, *before, to_weight, to_bias, to_x)()
        assert not to_weight.any()
        assert not to_x.any()


@pytest.mark.parametrize("where", ["gradient", "x", "weight"])
def test_nan_passes_backward_where_a_unit_is_on(where: str) -> None:
    arrays = {"x": np.ones((2, 9), np.float32), "weight": np.ones((3, 9), np.float32)}
    arrays["gradient"] = np.ones((2, 3), np.float32)
    arrays[where][1, 1] = np.nan
    to_weight, to_bias, to_x = (np.empty(n, np.float32) for n in ((3, 9), 3, (2, 9)))
    scratch, y = np.empty(backward_room(2, 3), np.float32), np.ones((2, 3), np.float32)
    before = (2, 9, 3, arrays["x"], arrays["weight"], y, 1, arrays["gradient"], scratch)
    Call(functions().dense_backward, *before, to_weight, to_bias, to_x)()
    assert np.isnan(to_weight).any() == (where != "weight")
    assert np.isnan(to_x).any() == (where != "x")
    assert np.isnan(to_bias).any() == (where == "gradient")


@pytest.mark.parametrize(("height", "width", "channels"), [(3, 3, 1), (4, 9, 7), (8, 3, 13)])
@pytest.mark.parametrize("filled", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("stack", [1, 3])
def test_the_convolution_at_every_border(
    height: int, width: int, channels: int, filled: float, stack: int
) -> None:
    spec = ObservationSpec((height, width, channels), "uint8", stack, high=1.0)
    pixels = (np.random.default_rng(0).random((5, *spec.state_shape)) < filled).astype(np.uint8)
    body = minatar(spec, 4, (8,)).to(memory_format=torch.channels_last)
    function, states = function_of(body), torch.from_numpy(pixels)
    assert isinstance(function, Compiled)
    with torch.no_grad():
        torch.testing.assert_close(function.forward(states), body(states))
        one = torch.from_numpy(function.of_state()(pixels[0]))
        torch.testing.assert_close(one, body(states)[0])


@pytest.mark.parametrize("inputs", [1, 7, 8, 17, 300])
@pytest.mark.parametrize("units", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("batch", [1, 5, 8])
@pytest.mark.parametrize("relu", [True, False])
def test_dense_layers_of_sizes_that_fill_no_register(
    inputs: int, units: int, batch: int, relu: bool
) -> None:
    torch.manual_seed(0)
    module, values = nn.Linear(inputs, units), torch.randn(batch, inputs)
    gradient = torch.randn(batch, units)
    found = []
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    layer, x, y = kernels.Dense(module, relu), values.numpy(), np.empty((batch, units), np.float32)
    to_x = np.empty_like(x)
    layer.forward(x, y)()
    layer.backward(x, y, gradient.numpy(), to_x)()
    gradients = [parameter.grad.clone() for parameter in module.parameters()]
    found.append([torch.from_numpy(y), torch.from_numpy(to_x), *gradients])
    theirs = layers.Dense(module, relu)
    with torch.inference_mode():
        outputs = theirs.forward(values)
        before = theirs.backward(values, outputs, gradient, wanted=True)
    found.append([outputs, before, *(p.grad for p in module.parameters())])
    for mine, its in zip(*found, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


def test_not_a_number_passes_through() -> None:
    """Otherwise a diverging run would not be noticed."""
    dense = function_of(mlp(ObservationSpec((9,), "float32"), 2, (4,)))
    body = small_network()
    body.convolutions[0].weight.data.fill_(torch.nan)
    with torch.no_grad():
        assert dense.forward(torch.full((3, 1, 9), torch.nan)).isnan().all()
        states = torch.ones(2, *SPEC.state_shape, dtype=torch.bool)
        assert function_of(body).forward(states).isnan().all()


def test_autograd_counters_and_large_layers_are_left_to_pytorch() -> None:
    states = sparse_states(8)
    function = function_of(small_network())
    outputs = function.forward(states)  # differentiable
    assert outputs.grad_fn is not None
    with torch.no_grad():
        torch.testing.assert_close(function.forward(states), outputs.detach())
        with FlopCounterMode(display=False) as counted:
            function.forward(states)
        assert counted.get_total_flops() == 2 * 8 * (64 * 36 * 16 + 1024 * 128 + 128 * 6)
        large = function_of(mlp(ObservationSpec((4_000,), "float32"), 4_000, ()))
        assert isinstance(large, Compiled)
        assert large._plan(torch.zeros(1, 1, 4_000), backward=False) is None


def test_without_the_library_pytorchs_layers_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ObservationSpec((4,), "float32")
    function = without_kernels(lambda: function_of(mlp(spec, 2, (8,))), monkeypatch)
    assert all(isinstance(layer, layers.Dense) for layer in function._layers)


def test_weights_that_move_are_followed() -> None:
    body = small_network()
    function, states, last = function_of(body), sparse_states(4), body.dense.last
    with torch.no_grad():
        before = function.forward(states)
        last.weight.data, last.bias.data = 2.0 * last.weight.data, 2.0 * last.bias.data
        torch.testing.assert_close(function.forward(states), 2.0 * before)
    square = mlp(ObservationSpec((6,), "float32"), 6, ())
    function, states = function_of(square), torch.randn(3, 1, 6)
    with torch.no_grad():
        function.forward(states)
        square.last.weight.data = square.last.weight.data.t()  # at the same address
        torch.testing.assert_close(function.forward(states), square(states))


def test_copies_of_a_network_have_buffers_of_their_own() -> None:
    """Also if it was used before; its calls hold addresses, which cannot be copied."""
    body = small_network()
    network = build_network(SPEC, 3, NetworkConfig("minatar", (16,)), 0)
    states = sparse_states(4)
    with torch.no_grad():
        before = network(states)
        copied, loaded_ = copy.deepcopy(network), pickle.loads(pickle.dumps(body))
        copied.body.dense.last.bias.data += 1.0
        torch.testing.assert_close(copied(states), before + 1.0)
        assert torch.equal(network(states), before)
        torch.testing.assert_close(function_of(loaded_).forward(states), body(states))


def test_buffers_are_not_shared_by_threads_and_not_kept_for_ever() -> None:
    function, wrong = function_of(small_network()), []
    batches = [sparse_states(16, seed=seed) for seed in range(4)]

    def apply(states: Tensor, expected: Tensor) -> None:
        right = 0
        try:
            with torch.inference_mode():
                for number in range(200):
                    size = 1 + number % len(states)
                    right += torch.equal(function.forward(states[:size]), expected[:size])
        finally:
            wrong.append(right < 200)

    with torch.inference_mode():
        threads = [
            Thread(target=apply, args=(states, function.forward(states))) for states in batches
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for size in range(1, 2 * MOST_PLANS):
            function.forward(sparse_states(size))
    assert wrong == [False] * len(batches)
    assert len(function._plans) == MOST_PLANS


def test_outputs_are_kept_and_a_late_backward_pass_is_refused() -> None:
    body = small_network()
    Layout(body).move_(body, with_gradient=True)
    function = function_of(body)
    with torch.inference_mode():
        outputs, backward = function.with_backward(sparse_states(4, seed=1))
        kept = outputs.clone()
        function.forward(sparse_states(4, seed=2))  # in other buffers
        backward(torch.ones_like(outputs))
        function.with_backward(sparse_states(4, seed=3))
        assert torch.equal(outputs, kept)
        with pytest.raises(RuntimeError, match="applied again, or moved, before its backward"):
            backward(torch.ones_like(outputs))
        _, backward = function.with_backward(sparse_states(4))
        for parameter in body.parameters():
            parameter.grad = torch.zeros_like(parameter)
        with pytest.raises(RuntimeError, match="applied again, or moved, before its backward"):
            backward(torch.ones_like(outputs))


def test_states_of_another_dtype_or_memory_order_are_read_as_by_pytorch() -> None:
    body = small_network()
    function, dense = function_of(body), mlp(ObservationSpec((6,), "float32", 4), 2, (8,))
    stacked = torch.randn(3, 6, 4).permute(0, 2, 1)  # as sampled from the replay
    with torch.no_grad():
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int64, torch.float32):
            states = sparse_states(5).to(dtype)
            torch.testing.assert_close(function.forward(states), body(states))
            one = torch.from_numpy(function.of_state()(states[0].numpy()))
            torch.testing.assert_close(one, body(states)[0])
        minus = -sparse_states(5).to(torch.int8)
        torch.testing.assert_close(function.forward(minus), body(minus))
        torch.testing.assert_close(function_of(dense).forward(stacked), dense(stacked))
        with torch.autocast("cpu", torch.bfloat16):  # not computed: some CPUs cannot
            assert function._plan(sparse_states(5), backward=False) is None


def test_a_library_that_cannot_be_loaded_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.so").write_bytes(b"not a library")
    for origin in (None, str(tmp_path / "broken.so")):
        spec = importlib.machinery.ModuleSpec("broken", None, origin=origin)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, spec=spec: spec)
        assert loaded("proxrl.native._kernels") is None


def test_a_library_that_computes_something_else_is_not_used() -> None:
    found = library()
    assert found is not None
    assert is_right(found)
    for name in ARGUMENTS:
        wrong = {each: getattr(found, each) for each in ARGUMENTS}
        wrong[name] = lambda *arguments: None
        assert not is_right(SimpleNamespace(**wrong))


def test_weights_in_another_memory_order_are_left_to_pytorch() -> None:
    module = nn.Linear(6, 5)
    module.weight.data = module.weight.data.t().contiguous().t()
    values = torch.randn(3, 6)
    assert not kernels.Dense(module, relu=False).is_here
    dense = mlp(ObservationSpec((6,), "float32"), 5, ())
    dense.last = module
    with torch.no_grad():
        function = function_of(dense)
        torch.testing.assert_close(function.forward(values[:, None]), module(values))
        of_state = function.of_state()
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
        for dtype in (torch.bfloat16, torch.float64):
            torch.set_default_dtype(dtype)
            try:
                found, of_state = copy.deepcopy(function).forward(states), function.of_state()
            finally:
                torch.set_default_dtype(torch.float32)
            assert torch.equal(found, function.forward(states))
            assert np.array_equal(of_state(states[0].numpy()), found[0].numpy())


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
    body = mlp(ObservationSpec((6,), "float32"), 5, (4,))
    (vector,) = Layout(body).move_(body, with_gradient=True)
    vector.grad.fill_(torch.nan)
    with torch.inference_mode():
        outputs, backward = function_of(body).with_backward(torch.empty(0, 1, 6))
        backward(torch.empty_like(outputs))
    assert all((parameter.grad == 0).all() for parameter in body.parameters())


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
    values = torch.randn(3, 1, 6)
    strided, double = (mlp(ObservationSpec((6,), "float32"), 5, ()) for _ in range(2))
    strided.last.bias.data = torch.randn(5, 2)[:, 0]
    double.last.bias.data = double.last.bias.data.double()
    with torch.no_grad():
        torch.testing.assert_close(function_of(strided).forward(values), strided(values))
        with pytest.raises(RuntimeError):  # as from PyTorch
            function_of(double).forward(values)


def test_a_gradient_in_another_memory_order_is_refused() -> None:
    body = mlp(ObservationSpec((6,), "float32"), 5, ())
    body.last.weight.grad, body.last.bias.grad = torch.zeros(6, 5).t(), torch.zeros(5)
    with (
        torch.inference_mode(),
        pytest.raises(ValueError, match="another memory order"),
    ):
        function_of(body).with_backward(torch.randn(3, 1, 6))
