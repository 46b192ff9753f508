"""Networks from states [batch, stack, *observation] to action values [batch, actions].

A network function creates the *body*, which maps states to numbers; `QNetwork` interprets them as
action values or as distributions of returns. Dueling and noisy layers work with any body.

8-bit images are scaled to [0, 1] inside the network, so that bytes are stored and transferred. A
stack of images becomes channels, last in memory: convolutions and their gradients are faster that
way on the CPU. Initial weights are drawn from the seed of the run.
"""

import copy
import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.agents import layers
from proxrl.agents.chain import Backward, Chain, Function, Layer, Recorded
from proxrl.agents.heads import make_head
from proxrl.agents.noisy import NoisyLinear, make_noisy, noisy_layers
from proxrl.agents.padding import SameConvolution
from proxrl.config import HeadConfig, NetworkConfig
from proxrl.errors import UserError
from proxrl.plugins import imported
from proxrl.types import Array, ArrayFunction, ObservationSpec

NetworkFunction = Callable[[ObservationSpec, int, tuple[int, ...]], nn.Module]
EXPECTED = HeadConfig()


class QNetwork(nn.Module):
    """A body with an expected or categorical head, optionally dueling."""

    def __init__(self, body: nn.Module, actions: int, head: HeadConfig, dueling: bool) -> None:
        super().__init__()
        self.body = body
        self.head = make_head(head)
        self._rows = actions + int(dueling)
        self._dueling = dueling
        self._function = _function_of(body)

    @staticmethod
    def body_outputs(actions: int, head: HeadConfig, dueling: bool) -> int:
        """Required number of body outputs per state."""
        return (actions + int(dueling)) * make_head(head).size

    def forward(self, states: Tensor) -> Tensor:
        """Action values Q(s, .), [batch, actions]."""
        return self.head.values(self.outputs(states))

    def outputs(self, states: Tensor) -> Tensor:
        """Action values [batch, actions], or logits [batch, actions, atoms]."""
        return self._combine(self._function.forward(states))

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        """The outputs, and their backward function (`agents/chain.py`)."""
        numbers, body_backward = self._function.with_backward(states)

        def backward(gradient: Tensor) -> None:
            if self._dueling:  # the transpose of V + A - mean A
                to_value = gradient.sum(dim=1, keepdim=True)
                to_advantages = gradient - gradient.mean(dim=1, keepdim=True)
                gradient = torch.cat([to_value, to_advantages], dim=1)
            body_backward(gradient.flatten(1))

        return self._combine(numbers), backward

    def recorded(self) -> "QNetwork":
        """A copy whose body is called as a module: a chain's operations depend on the batch size,
        so that a graph of them would fit one size only."""
        network = copy.deepcopy(self)
        network._function = Recorded(network.body)
        return network

    def of_state(self) -> ArrayFunction:
        """A function from one state [stack, *observation] to its action values [actions], for
        acting: in NumPy if the body is small and on the CPU.

        It follows changes of the weights, but not their move to other memory.
        """
        device = next(self.parameters()).device
        body = self._function.of_state() if device.type == "cpu" else None
        if body is not None:
            return self._of_state(body)

        @torch.inference_mode()
        def values(state: Array) -> Array:
            found: Array = self(torch.from_numpy(state[None]).to(device))[0].cpu().numpy()
            return found

        return values

    def _of_state(self, body: ArrayFunction) -> ArrayFunction:
        """`forward` for one state, in NumPy."""
        head, size, dueling = self.head.of_state(), self.head.size, self._dueling
        if size == 1 and not dueling:
            return body

        def values(state: Array) -> Array:
            rows = body(state).reshape(-1, size)
            if dueling:  # as in `_combine`
                rows = rows[:1] + rows[1:] - rows[1:].mean(axis=0)
            return head(rows)

        return values

    def _combine(self, numbers: Tensor) -> Tensor:
        """Body outputs [batch, rows x size] to outputs per action."""
        if self.head.size > 1:
            numbers = numbers.view(-1, self._rows, self.head.size)
        if self._dueling:  # the first row is V, the others are A: Q = V + A - mean A
            advantages = numbers[:, 1:]
            numbers = numbers[:, :1] + advantages - advantages.mean(dim=1, keepdim=True)
        return numbers


def _function_of(body: nn.Module) -> Function:
    """A `Chain` for built-in bodies as they were built; autograd for any other module, and if
    parameters are tied or frozen or layers were replaced, parametrized or hooked."""
    if isinstance(body, ConvNet | Dense) and _is_unchanged(body):
        return body.as_chain()
    return Recorded(body)


def _is_unchanged(body: nn.Module) -> bool:
    layers = [module for module in body.modules() if not isinstance(module, nn.ModuleList)]
    hooks = [(m._forward_hooks, m._forward_pre_hooks, m._backward_hooks) for m in layers]
    parameters = [p for _, p in body.named_parameters(remove_duplicate=False)]
    return (
        all(type(layer) in CHAINED for layer in layers)
        and all(getattr(layer, "bias", True) is not None for layer in layers)
        and not any(itertools.chain(*hooks))
        and all(parameter.requires_grad for parameter in parameters)
        and len(set(parameters)) == len(parameters)
    )


class ConvNet(nn.Module):
    """Convolutions, then dense layers, with a ReLU after each but the last."""

    def __init__(
        self,
        spec: ObservationSpec,
        convolutions: Sequence[nn.Conv2d],
        hidden: tuple[int, ...],
        outputs: int,
        small: bool = False,
    ) -> None:
        super().__init__()
        self._spec = spec
        self._small = small
        self.convolutions = nn.ModuleList(convolutions)
        with torch.no_grad():
            features = torch.zeros((1, _channels(spec), *spec.shape[:2]))
            for convolution in convolutions:
                features = convolution(features)
        self.dense = Dense(features.numel(), hidden, outputs)

    def as_chain(self) -> Chain:
        """Channels are innermost in memory, as in Dopamine's networks: flattening does not copy.

        `small` images have one convolution, on patches.
        """

        convolutions = [module for module in self.convolutions if isinstance(module, nn.Conv2d)]
        dense = self.dense.chain_layers()
        if not self._small:
            images = functools.partial(scaled_images, spec=self._spec)
            return Chain(images, [*map(layers.Convolution, convolutions), *dense])
        first = layers.SmallConvolution(convolutions[0], self._spec)
        return Chain(first.patches, [first, *dense])

    def forward(self, states: Tensor) -> Tensor:
        images = scaled_images(states, self._spec).permute(0, 3, 1, 2)
        for convolution in self.convolutions:
            images = convolution(images).relu()
        features: Tensor = self.dense(images.permute(0, 2, 3, 1))
        return features


class Dense(nn.Module):
    """Linear layers on flattened inputs, with a ReLU after each but the last."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(before, after) for before, after in itertools.pairwise((inputs, *hidden))
        )
        self.last: nn.Module = nn.Linear(hidden[-1] if hidden else inputs, outputs)

    def chain_layers(self) -> list[Layer]:
        hidden = [_dense(module, relu=True) for module in self.layers]
        return [*hidden, _dense(self.last, relu=False)]

    def as_chain(self) -> Chain:
        return Chain(lambda states: states.flatten(1).float(), self.chain_layers())

    def forward(self, states: Tensor) -> Tensor:
        values = states.flatten(1).float()
        for layer in self.layers:
            values = layer(values).relu()
        outputs: Tensor = self.last(values)
        return outputs


CHAINED = (ConvNet, Dense, nn.Conv2d, SameConvolution, nn.Linear, NoisyLinear)


def _dense(module: nn.Module, relu: bool) -> Layer:
    if isinstance(module, NoisyLinear):
        return layers.NoisyDense(module, relu)
    assert isinstance(module, nn.Linear)
    return layers.Dense(module, relu)


def scaled_images(states: Tensor, spec: ObservationSpec) -> Tensor:
    """States to floats within [0, 1], [batch, height, width, stack x channels], in this memory
    order (as sampled from the replay)."""
    images = layers.to_images(states, spec)
    images = images.float() if spec.high == 1.0 else images * (1.0 / spec.high)
    return images.contiguous()


def nature(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """The Nature DQN network (Mnih et al. 2015): three convolutions, one dense layer of 512."""
    if len(spec.shape) < 2 or min(spec.shape[:2]) < 36:
        raise UserError(f"network nature needs images of at least 36 x 36, got shape {spec.shape}")
    convolutions = [
        nn.Conv2d(_channels(spec), 32, kernel_size=8, stride=4),
        nn.Conv2d(32, 64, kernel_size=4, stride=2),
        nn.Conv2d(64, 64, kernel_size=3, stride=1),
    ]
    return ConvNet(spec, convolutions, hidden, outputs)


def nature_same(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """Dopamine's Nature network, and so the paper's: Mnih's layers with SAME padding.

    84 x 84 images become 21 x 21, 11 x 11 and 11 x 11: 7,744 features where `nature` has 3,136.
    """
    if len(spec.shape) < 2:
        raise UserError(f"network nature-same needs images, got shape {spec.shape}")
    convolutions = [
        SameConvolution(_channels(spec), 32, kernel_size=8, stride=4),
        SameConvolution(32, 64, kernel_size=4, stride=2),
        SameConvolution(64, 64, kernel_size=3, stride=1),
    ]
    return ConvNet(spec, convolutions, hidden, outputs)


def minatar(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """MinAtar's network (Young & Tian 2019): one 3 x 3 convolution, one dense layer of 128."""
    if len(spec.shape) < 2 or min(spec.shape[:2]) < 3:
        raise UserError(f"network minatar needs images of at least 3 x 3, got shape {spec.shape}")
    convolution = nn.Conv2d(_channels(spec), 16, kernel_size=3)
    return ConvNet(spec, [convolution], hidden, outputs, small=True)


def mlp(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """Dense layers on the flattened state."""
    return Dense(math.prod(spec.state_shape), hidden, outputs)


_registry: dict[str, NetworkFunction] = {
    "nature": nature,
    "nature-same": nature_same,
    "minatar": minatar,
    "mlp": mlp,
}


def register_network(name: str, function: NetworkFunction) -> None:
    """Register `function(observation_spec, outputs, hidden) -> nn.Module` for `network.kind`.

    `outputs` is the number of actions for plain DQN, more for a categorical or dueling head.
    Networks stay in evaluation mode, so that values depend on weights and state only: dropout is
    off and batch statistics are not updated.
    """
    _registry[name] = function


def build_network(
    spec: ObservationSpec,
    actions: int,
    config: NetworkConfig,
    seed: int,
    head: HeadConfig = EXPECTED,
) -> QNetwork:
    """Build the configured network; its weights depend only on `seed`."""
    function = _function(config.kind, spec)
    outputs = QNetwork.body_outputs(actions, head, config.dueling)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            body = function(spec, outputs, config.hidden)
            if not isinstance(body, nn.Module):
                raise UserError(
                    f"network {config.kind} returned {body!r:.40}, not a torch.nn.Module"
                )
            _require_function(body.eval(), spec, outputs, config.kind)
            initialise(body, config.initial_weights, dense=not config.noisy)
        except UserError:
            raise
        except (TypeError, ValueError, RuntimeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"cannot build network {config.kind}: {why}") from None
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.noisy:
        body = make_noisy(body, config.noisy_sigma).eval()
        if not noisy_layers(body):
            raise UserError(f"network {config.kind} has no nn.Linear for network.noisy")
    return QNetwork(body, actions, head, config.dueling)


@torch.no_grad()
def initialise(network: nn.Module, how: str, dense: bool = True) -> None:
    """Reinitialize linear and convolutional layers: uniform weights, zero biases.

    The variance is 2 / (fan-in + fan-out) for `xavier` and 1 / (sqrt(3) fan-in) for `fan_in`;
    `torch` keeps PyTorch's initialization. So do dense layers that will be made noisy: uniform
    within 1/sqrt(inputs), as in Fortunato et al.
    """
    if how == "torch":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d) or (dense and isinstance(layer, nn.Linear)):
            pixels = math.prod(layer.weight.shape[2:])  # of a kernel
            fan_out, fan_in = (units * pixels for units in layer.weight.shape[:2])
            variance = 2.0 / (fan_in + fan_out) if how == "xavier" else 3.0**-0.5 / fan_in
            bound = math.sqrt(3.0 * variance)
            layer.weight.uniform_(-bound, bound)
            if layer.bias is not None:
                layer.bias.zero_()


@torch.no_grad()
def _require_function(body: nn.Module, spec: ObservationSpec, outputs: int, kind: str) -> None:
    """Raise `UserError` unless the output shape is right and values depend only on weights and
    state, which bit-identical resuming requires: two calls on the same random states must agree
    and change nothing."""
    states = _random_states(spec)
    one = body(states[:1].clone())  # lazy layers draw their weights here
    shape = tuple(one.shape)
    if one.dtype != torch.float32:
        raise UserError(
            f"network {kind} returned {one.dtype}, expected torch.float32: add .float()"
        )
    if shape != (1, outputs):
        raise UserError(
            f"network {kind} returned shape {shape} for one state, expected (1, {outputs})"
        )
    given, before, drawn = states.clone(), _held(body), _random_state()
    first, second = body(given), body(given)
    if not torch.equal(given, states):
        raise UserError(f"network {kind} changes its input in forward(): it must not")
    if drawn != _random_state():
        raise UserError(f"network {kind} draws random numbers: it must be deterministic")
    after = _held(body)
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            raise UserError(f"network {kind} changes its {name} in forward(): it must be stateless")
    if not torch.equal(first, second):
        raise UserError(f"network {kind} returned two values for one state: it must be a function")


def _random_states(spec: ObservationSpec) -> Tensor:
    """Three states, the same for every run."""
    generator = np.random.default_rng(0)
    size = (3, *spec.state_shape)
    if spec.dtype == "uint8":
        return torch.from_numpy(generator.integers(0, int(spec.high) + 1, size, dtype=np.uint8))
    return torch.from_numpy(generator.random(size, dtype=np.float32))


def _random_state() -> tuple[object, ...]:
    """The state of all global generators."""
    numpy_state = repr(np.random.get_state(legacy=False))  # noqa: NPY002
    return torch.random.get_rng_state().numpy().tobytes(), numpy_state, random.getstate()


def _held(body: nn.Module) -> dict[str, object]:
    """Parameters, buffers and plain attributes by name, as comparable values."""
    held: dict[str, object] = {
        name: tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, tensor in body.state_dict().items()
    }
    for prefix, module in body.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, int | float | str | bytes | tuple | None):
                held[f"{prefix}.{name}".lstrip(".")] = repr(value)
            elif isinstance(value, list | dict | set):
                held[f"{prefix}.{name}".lstrip(".")] = len(value)
    return held


def _function(kind: str, spec: ObservationSpec) -> NetworkFunction:
    if kind == "auto":
        side = min(spec.shape[:2]) if spec.is_image else 0
        kind = "mlp" if side < 3 else "minatar" if side < 36 else "nature"
    if kind in _registry:
        return _registry[kind]
    if ":" in kind:
        function: NetworkFunction = imported(kind, "network")
        return function
    known = ", ".join(sorted(_registry))
    raise UserError(f"unknown network {kind}: choose from {known}, or pass module:function")


def _channels(spec: ObservationSpec) -> int:
    return spec.stack * (spec.shape[2] if len(spec.shape) == 3 else 1)


def _dtype(spec: ObservationSpec) -> torch.dtype:
    return torch.uint8 if spec.dtype == "uint8" else torch.float32
