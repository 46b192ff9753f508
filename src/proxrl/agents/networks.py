"""Networks from states [batch, stack, *observation] to action values [batch, actions].

A network function makes the *body*, from states to plain numbers; `QNetwork` reads them as action
values or as distributions of returns. Dueling streams and noisy layers fit any body.

Images of 8-bit values are scaled to [0, 1] inside the network, so that the replay and the bus carry
bytes. A stack of images becomes channels, last in memory: convolutions and their gradients are
faster so on the CPU. Initial weights are drawn from the run's own seed.
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from proxrl.agents.categorical import expected_values
from proxrl.agents.noisy import make_noisy, noisy_layers
from proxrl.config import HeadConfig, NetworkConfig
from proxrl.errors import UserError
from proxrl.plugins import imported
from proxrl.types import ObservationSpec

NetworkFunction = Callable[[ObservationSpec, int, tuple[int, ...]], nn.Module]
EXPECTED = HeadConfig()


class QNetwork(nn.Module):
    """A body and its head: expected returns, or categorical ones; dueling or not."""

    support: Tensor | None

    def __init__(self, body: nn.Module, actions: int, head: HeadConfig, dueling: bool) -> None:
        super().__init__()
        self.body = body
        self._rows = actions + int(dueling)
        self._dueling = dueling
        categorical = head.kind == "categorical"
        self._atoms = head.atoms if categorical else 1
        support = torch.linspace(head.v_min, head.v_max, head.atoms) if categorical else None
        self.register_buffer("support", support, persistent=False)

    @staticmethod
    def body_outputs(actions: int, head: HeadConfig, dueling: bool) -> int:
        """Numbers per state that the body must give."""
        return (actions + int(dueling)) * (head.atoms if head.kind == "categorical" else 1)

    def outputs(self, states: Tensor) -> Tensor:
        """Action values [batch, actions], or logits [batch, actions, atoms]."""
        outputs: Tensor = self.body(states)
        if self.support is not None:
            outputs = outputs.view(-1, self._rows, self._atoms)
        if self._dueling:  # the first row is V, the others are A: Q = V + A - mean A
            advantages = outputs[:, 1:]
            outputs = outputs[:, :1] + advantages - advantages.mean(dim=1, keepdim=True)
        return outputs

    def forward(self, states: Tensor) -> Tensor:
        """Action values Q(s, .), [batch, actions]."""
        outputs = self.outputs(states)
        return outputs if self.support is None else expected_values(outputs, self.support)


class Convolution(nn.Conv2d):
    """A convolution and its ReLU on images [batch, height, width, channels]."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.permute(0, 3, 1, 2)).relu_().permute(0, 2, 3, 1)


class SameConvolution(nn.Conv2d):
    """A convolution and its ReLU with TensorFlow's SAME padding, [batch, height, width, channels].

    The output has ceil(size / stride) places along each axis; the zeros that this takes are split
    in halves, the odd one after the image. Padding that is even goes into the convolution, uneven
    padding (a stride that does not divide) is a copy of the image.
    """

    def forward(self, images: Tensor) -> Tensor:
        (top, bottom), (left, right) = (
            same_padding(images.shape[1 + axis], self.kernel_size[axis], self.stride[axis])
            for axis in (0, 1)
        )
        even = (top, left) == (bottom, right)
        if not even:
            images = functional.pad(images, (0, 0, left, right, top, bottom))
        padding = (top, left) if even else (0, 0)
        inputs = images.permute(0, 3, 1, 2)
        outputs = functional.conv2d(inputs, self.weight, self.bias, self.stride, padding)
        return outputs.relu_().permute(0, 2, 3, 1)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis, as TensorFlow's SAME: 84, 8, 4 is (2, 2); 21, 4, 2 (1, 2)."""
    places = -(-size // stride)
    zeros = max(0, (places - 1) * stride + kernel - size)
    return zeros // 2, zeros - zeros // 2


class SmallConvolution(nn.Conv2d):
    """The same as one matrix product over all patches, stride 1: for images so small (MinAtar's)
    that the set-up of a convolution costs more than its arithmetic."""

    def forward(self, images: Tensor) -> Tensor:
        batch, height, width, channels = images.shape
        side = self.kernel_size[0]
        out = (batch, height - side + 1, width - side + 1)
        image, row, pixel, _ = images.stride()
        patches = images.as_strided((*out, side, side * channels), (image, row, pixel, row, 1))
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)  # [out, side x side x channels]
        found = functional.linear(patches.reshape(-1, weight.shape[1]), weight, self.bias)
        return found.relu_().view(*out, -1)


class ConvNet(nn.Module):
    """Convolutions, then dense layers."""

    def __init__(
        self,
        spec: ObservationSpec,
        convolutions: list[nn.Conv2d],
        hidden: tuple[int, ...],
        outputs: int,
    ) -> None:
        super().__init__()
        self._spec = spec
        self.convolutions = nn.ModuleList(convolutions)
        with torch.no_grad():
            example = torch.zeros((1, *spec.state_shape), dtype=_dtype(spec))
            features = self._features(example).shape[1]
        self.dense = Dense(features, hidden, outputs)

    def forward(self, states: Tensor) -> Tensor:
        outputs: Tensor = self.dense(self._features(states))
        return outputs

    def _features(self, states: Tensor) -> Tensor:
        """Vectors with channels innermost: the order in memory of channels-last convolutions (and
        of Dopamine's networks), so that nothing is copied."""
        images = to_images(states, self._spec)
        for convolution in self.convolutions:
            images = convolution(images)
        return images.flatten(1)


class Dense(nn.Module):
    """Linear layers with ReLU between them, on flattened inputs."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(before, after) for before, after in itertools.pairwise((inputs, *hidden))
        )
        self.last = nn.Linear(hidden[-1] if hidden else inputs, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        values = inputs.flatten(1).float()
        for layer in self.layers:
            values = layer(values).relu_()
        outputs: Tensor = self.last(values)
        return outputs


def to_images(states: Tensor, spec: ObservationSpec) -> Tensor:
    """States to floats within [0, 1], [batch, height, width, stack x channels], in this order in
    memory (as the replay gives them)."""
    if len(spec.shape) == 3:  # [batch, stack, height, width, channels]
        images = states[:, 0] if spec.stack == 1 else states.permute(0, 2, 3, 1, 4).flatten(3)
    else:
        images = states.permute(0, 2, 3, 1)
    images = images.float() if spec.high == 1.0 else images * (1.0 / spec.high)
    return images.contiguous()


def nature(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """The Nature DQN network (Mnih et al. 2015): three convolutions, one dense layer of 512."""
    if len(spec.shape) < 2 or min(spec.shape[:2]) < 36:
        raise UserError(f"network nature needs images of 36 x 36 or more, not {spec.shape}")
    convolutions: list[nn.Conv2d] = [
        Convolution(_channels(spec), 32, kernel_size=8, stride=4),
        Convolution(32, 64, kernel_size=4, stride=2),
        Convolution(64, 64, kernel_size=3, stride=1),
    ]
    return ConvNet(spec, convolutions, hidden, outputs)


def nature_same(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """Dopamine's Nature network, and so the paper's: Mnih's layers with SAME padding.

    84 x 84 images become 21 x 21, 11 x 11 and 11 x 11: 7,744 features where `nature` has 3,136.
    """
    if len(spec.shape) < 2:
        raise UserError(f"network nature-same needs images, not {spec.shape}")
    convolutions: list[nn.Conv2d] = [
        SameConvolution(_channels(spec), 32, kernel_size=8, stride=4),
        SameConvolution(32, 64, kernel_size=4, stride=2),
        SameConvolution(64, 64, kernel_size=3, stride=1),
    ]
    return ConvNet(spec, convolutions, hidden, outputs)


def minatar(spec: ObservationSpec, outputs: int, hidden: tuple[int, ...]) -> nn.Module:
    """MinAtar's network (Young & Tian 2019): one 3 x 3 convolution, one dense layer of 128."""
    if len(spec.shape) < 2 or min(spec.shape[:2]) < 3:
        raise UserError(f"network minatar needs images of 3 x 3 or more, not {spec.shape}")
    return ConvNet(spec, [SmallConvolution(_channels(spec), 16, kernel_size=3)], hidden, outputs)


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
    """Make `function(observation_spec, outputs, hidden) -> nn.Module` known as `network.kind`.

    `outputs` is the number of actions for a plain DQN, more for a categorical or dueling head.
    Networks stay in evaluation mode: dropout is off and batch statistics do not move, so that a
    value is a function of weights and state alone.
    """
    _registry[name] = function


def build_network(
    spec: ObservationSpec,
    actions: int,
    config: NetworkConfig,
    seed: int,
    head: HeadConfig = EXPECTED,
) -> QNetwork:
    """The configured network, its weights drawn from `seed` and nothing else."""
    function = _function(config.kind, spec)
    outputs = QNetwork.body_outputs(actions, head, config.dueling)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            body = function(spec, outputs, config.hidden)
            if not isinstance(body, nn.Module):
                raise UserError(f"network {config.kind} gives {body!r:.40}, not a torch.nn.Module")
            _require_function(body.eval(), spec, outputs, config.kind)
            initialise(body, config.initial_weights, dense=not config.noisy)
        except UserError:
            raise
        except (TypeError, ValueError, RuntimeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"network {config.kind} cannot be built: {why}") from None
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.noisy:
        body = make_noisy(body, config.noisy_sigma).eval()
        if not noisy_layers(body):
            raise UserError(f"network {config.kind} has no nn.Linear that could be noisy")
    return QNetwork(body, actions, head, config.dueling)


@torch.no_grad()
def initialise(network: nn.Module, how: str, dense: bool = True) -> None:
    """Redraw the weights of linear and convolutional layers, uniform, with biases of 0.

    The variance is 2 / (fan-in + fan-out) for `xavier` and 1 / (sqrt(3) fan-in) for `fan_in`;
    `torch` leaves the layers as they are. Dense layers that will be noisy stay as they are too:
    uniform within 1/sqrt(inputs), as Fortunato et al. have them.
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
    """A `UserError` unless it gives the numbers asked for, and they follow from weights and state
    alone: with anything else a resumed run would not repeat itself."""
    state = torch.zeros((1, *spec.state_shape), dtype=_dtype(spec))
    shape = tuple(body(state).shape)  # lazy layers draw their weights here
    if shape != (1, outputs):
        raise UserError(f"network {kind} gives shape {shape} for one state, not (1, {outputs})")
    drawn = torch.random.get_rng_state()
    held = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    body(state)
    if not torch.equal(drawn, torch.random.get_rng_state()):
        raise UserError(f"network {kind} draws random numbers: its values must be a function")
    for name, tensor in body.state_dict().items():
        if not torch.equal(held[name], tensor):
            raise UserError(f"network {kind} changes its {name}: its values must be a function")


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
    raise UserError(f"unknown network {kind}: choose from {known}, or say module:function")


def _channels(spec: ObservationSpec) -> int:
    return spec.stack * (spec.shape[2] if len(spec.shape) == 3 else 1)


def _dtype(spec: ObservationSpec) -> torch.dtype:
    return torch.uint8 if spec.dtype == "uint8" else torch.float32
