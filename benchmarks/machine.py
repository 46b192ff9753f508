"""The limit that the machine sets: how fast it multiplies matrices."""

import time

import torch

GFLOP_PER_UPDATE = 4.4  # Nature network, batch 64: two forward passes and one backward pass


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


def steps_per_second_limit(gflops: float) -> float:
    """Agent steps a second if nothing but the multiplications took time (an update per 4 steps)."""
    return gflops / GFLOP_PER_UPDATE * 4
