"""The limit that the machine sets: how fast it multiplies matrices."""

import math
import time

import torch
from torch import Tensor, nn

from proxrl.agents.networks import build_network
from proxrl.config import NetworkConfig
from proxrl.types import ObservationSpec

ATARI = ObservationSpec((84, 84), "uint8", 4, high=255.0)
ACTIONS, BATCH = 4, 64


def gflop_per_update(network: str) -> float:
    """Multiplications and additions of a DQN update on Atari, counted layer by layer: a forward
    pass of each network, and a backward pass, which is two more products for every layer but the
    first (whose inputs need no gradient)."""
    products: list[int] = []  # multiply-adds of each layer for one state

    def count(layer: nn.Module, _: object, outputs: Tensor) -> None:
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        each = math.prod(layer.weight.shape[1:])
        products.append(outputs.numel() * each)

    built = build_network(ATARI, ACTIONS, NetworkConfig(network, (512,)), seed=0)
    for layer in built.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    built(torch.zeros((1, *ATARI.state_shape), dtype=torch.uint8))
    return 2e-9 * BATCH * (4 * sum(products) - products[0])


def matmul_gflops(seconds: float = 1.0, side: int = 2048) -> float:
    """Float32 matrix products, the best block of several: the machine at its least disturbed."""
    a, b = torch.randn(side, side), torch.randn(side, side)
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(3):
            a @ b
        best = max(best, 3 * 2 * side**3 / (time.perf_counter() - start) / 1e9)
    return best


def steps_per_second_limit(gflops: float, network: str) -> float:
    """Agent steps a second if nothing but the multiplications took time (an update per 4 steps)."""
    return gflops / gflop_per_update(network) * 4
