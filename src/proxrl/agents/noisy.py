"""Noisy layers: exploration by learned noise on the weights (Fortunato et al. 2018).

    y = W x + b + (sigma_W * eps_W) x + sigma_b * eps_b,      eps_W = f(e_out) f(e_in)^T

with f(e) = sign(e) sqrt|e| of Gaussian e. As the noise is an outer product, its term is
f(e_out) * (sigma_W (f(e_in) * x) + sigma_b): a second linear layer, without a noise matrix.

Noise is drawn from the caller's generator before each use, so it is not part of the state. A
network is silent (uses its mean) until noise is drawn.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from proxrl.transfer import to_device


class NoisyLinear(nn.Module):
    """A linear layer whose weights are means, with a learned sigma for each."""

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, mean: nn.Linear, sigma: float) -> None:
        super().__init__()
        start = sigma / math.sqrt(mean.in_features)
        self.weight = mean.weight
        self.bias = nn.Parameter(torch.zeros(mean.out_features)) if mean.bias is None else mean.bias
        self.weight_sigma = _sigma(self.weight, start)
        self.bias_sigma = _sigma(self.bias, start)
        self.silent = True
        self.register_buffer("noise_in", torch.zeros(mean.in_features), persistent=False)
        self.register_buffer("noise_out", torch.zeros(mean.out_features), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = functional.linear(inputs, self.weight, self.bias)
        if self.silent:
            return outputs
        noise = functional.linear(inputs * self.noise_in, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(outputs, noise, self.noise_out)


def _sigma(mean: Tensor, start: float) -> nn.Parameter:
    return nn.Parameter(torch.full_like(mean, start), requires_grad=mean.requires_grad)


def make_noisy(network: nn.Module, sigma: float) -> nn.Module:
    """Replace every plain `nn.Linear` by a noisy one with the same means."""
    made: dict[nn.Module, nn.Module] = {}  # a shared layer stays shared

    def noisy(module: nn.Module) -> nn.Module:
        if type(module) is nn.Linear:
            return made.setdefault(module, NoisyLinear(module, sigma))
        for name, child in module._modules.items():  # named_children() omits duplicates
            if child is not None:
                module._modules[name] = noisy(child)
        return module

    return noisy(network)


def draw_noise(layers: list[NoisyLinear], generator: np.random.Generator) -> None:
    """Draw new noise for these layers."""
    for layer in layers:
        for noise in (layer.noise_in, layer.noise_out):
            normal = generator.standard_normal(len(noise), dtype=np.float32)
            noise.copy_(to_device(np.copysign(np.sqrt(np.abs(normal)), normal), noise.device))
        layer.silent = False


def silence(layers: list[NoisyLinear]) -> None:
    """Use the means until noise is drawn again, for evaluation."""
    for layer in layers:
        layer.silent = True


@contextmanager
def silent(layers: list[NoisyLinear]) -> Iterator[None]:
    """Use the means within the block, to compare two networks without noise."""
    before = [layer.silent for layer in layers]
    silence(layers)
    try:
        yield
    finally:
        for layer, was in zip(layers, before, strict=True):
            layer.silent = was


def noisy_layers(network: nn.Module) -> list[NoisyLinear]:
    return [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
