"""Noisy layers: exploration by learnt noise on the weights (Fortunato et al. 2018).

    y = W x + b + (sigma_W * eps_W) x + sigma_b * eps_b,      eps_W = f(e_out) f(e_in)^T

with f(e) = sign(e) sqrt|e| of Gaussian e. As the noise is an outer product, its term is
f(e_out) * (sigma_W (f(e_in) * x) + sigma_b): a second linear layer and no matrix of noise.

Noise is drawn from a generator that the caller holds, before each use, so it is never state. A
network is silent, its mean alone, until noise is drawn.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class NoisyLinear(nn.Module):
    """A linear layer that keeps its weights as means and learns a sigma for each."""

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, mean: nn.Linear, sigma: float) -> None:
        super().__init__()
        start = sigma / math.sqrt(mean.in_features)
        self.weight = mean.weight
        self.bias = nn.Parameter(
            torch.zeros(mean.out_features) if mean.bias is None else mean.bias.data
        )
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, start))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, start))
        self.silent = True
        self.register_buffer("noise_in", torch.zeros(mean.in_features), persistent=False)
        self.register_buffer("noise_out", torch.zeros(mean.out_features), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = functional.linear(inputs, self.weight, self.bias)
        if self.silent:
            return outputs
        noise = functional.linear(inputs * self.noise_in, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(outputs, noise, self.noise_out)


def make_noisy(network: nn.Module, sigma: float) -> nn.Module:
    """The network with every `nn.Linear` in it replaced by a noisy one of the same means."""
    if isinstance(network, nn.Linear):
        return NoisyLinear(network, sigma)
    for name, child in network.named_children():
        setattr(network, name, make_noisy(child, sigma))
    return network


def draw_noise(network: nn.Module, generator: np.random.Generator) -> None:
    """New noise for every noisy layer of the network."""
    for layer in _noisy_layers(network):
        for noise in (layer.noise_in, layer.noise_out):
            normal = generator.standard_normal(len(noise), dtype=np.float32)
            noise.copy_(torch.from_numpy(np.copysign(np.sqrt(np.abs(normal)), normal)))
        layer.silent = False


def silence(network: nn.Module) -> None:
    """Means alone, until noise is drawn again: for scores."""
    for layer in _noisy_layers(network):
        layer.silent = True


def _noisy_layers(network: nn.Module) -> list[Any]:
    return [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
