"""Bodies: networks from states [batch, stack, *observation] to numbers [batch, outputs].

8-bit images are scaled to [0, 1] inside the body, so that bytes are stored and transferred. A stack
of images becomes channels, last in memory: convolutions and their gradients are faster that way on
the CPU.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from proxrl.agents import layers
from proxrl.agents.chain import Chain, Function, Layer, Recorded
from proxrl.agents.compiled import compile_chain
from proxrl.agents.noisy import NoisyLinear
from proxrl.agents.padding import SameConvolution
from proxrl.errors import UserError
from proxrl.types import ObservationSpec


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

    @property
    def has_chain(self) -> bool:
        """Whether layers of a chain compute these convolutions."""
        modules = [module for module in self.convolutions if isinstance(module, nn.Conv2d)]
        zeros = all(
            module.padding_mode == "zeros" and isinstance(module.padding, tuple)
            for module in modules
        )
        return zeros and (not self._small or (len(modules) == 1 and _is_plain(modules[0])))

    def as_chain(self) -> Function:
        """Channels are innermost in memory, as in Dopamine's networks: flattening does not copy.

        `small` images have one convolution.
        """

        convolutions = [module for module in self.convolutions if isinstance(module, nn.Conv2d)]
        dense = self.dense.chain_layers()
        if not self._small:
            images = functools.partial(scaled_images, spec=self._spec)
            return Chain(images, [*map(layers.Convolution, convolutions), *dense])
        first = layers.SmallConvolution(convolutions[0], self._spec)
        chain = Chain(first.inputs, [first, *dense])
        return compile_chain(chain, [convolutions[0], *self.dense.modules_in_order], self._spec)

    def forward(self, states: Tensor) -> Tensor:
        images = scaled_images(states, self._spec).permute(0, 3, 1, 2)
        for convolution in self.convolutions:
            images = convolution(images).relu()
        features: Tensor = self.dense(images.permute(0, 2, 3, 1))
        return features


def _is_plain(module: nn.Conv2d) -> bool:
    """Whether it is a convolution with a square kernel that moves by one pixel, without padding."""
    height, width = module.kernel_size
    return (
        type(module) is nn.Conv2d
        and height == width
        and (module.stride, module.padding, module.dilation) == ((1, 1), (0, 0), (1, 1))
        and module.groups == 1
    )


class Dense(nn.Module):
    """Linear layers on flattened inputs, with a ReLU after each but the last."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(before, after) for before, after in itertools.pairwise((inputs, *hidden))
        )
        self.last: nn.Module = nn.Linear(hidden[-1] if hidden else inputs, outputs)

    @property
    def modules_in_order(self) -> list[nn.Module]:
        return [*self.layers, self.last]

    def chain_layers(self) -> list[Layer]:
        hidden = [_dense(module, relu=True) for module in self.layers]
        return [*hidden, _dense(self.last, relu=False)]

    def as_chain(self) -> Function:
        chain = Chain(lambda states: states.flatten(1).float(), self.chain_layers())
        return compile_chain(chain, self.modules_in_order)

    def forward(self, states: Tensor) -> Tensor:
        values = states.flatten(1).float()
        for layer in self.layers:
            values = layer(values).relu()
        outputs: Tensor = self.last(values)
        return outputs


MODULE_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
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


def function_of(body: nn.Module) -> Function:
    """A `Chain` for built-in bodies as they were built; autograd for any other module, and if
    parameters are tied or frozen, layers were replaced, parametrized or hooked, or a convolution is
    of a kind that no layer of a chain computes."""
    if isinstance(body, ConvNet | Dense) and _is_unchanged(body):
        return body.as_chain()
    return Recorded(body)


def _is_unchanged(body: nn.Module) -> bool:
    layers = [module for module in body.modules() if not isinstance(module, nn.ModuleList)]
    parameters = [p for _, p in body.named_parameters(remove_duplicate=False)]
    hooks = [
        *(getattr(layer, name) for layer in layers for name in MODULE_HOOKS),
        *(getattr(parameter, name) for parameter in parameters for name in TENSOR_HOOKS),
    ]
    return (
        all(type(layer) in CHAINED and "forward" not in vars(layer) for layer in layers)
        and all(getattr(layer, "bias", True) is not None for layer in layers)
        and not any(hooks)
        and (not isinstance(body, ConvNet) or body.has_chain)
        and all(parameter.requires_grad for parameter in parameters)
        and len(set(parameters)) == len(parameters)
    )


def _channels(spec: ObservationSpec) -> int:
    return spec.stack * (spec.shape[2] if len(spec.shape) == 3 else 1)
