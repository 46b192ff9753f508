"""The limit that the machine sets: how fast it multiplies matrices."""

import time

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from proxrl.agents.learner import Learner
from proxrl.agents.networks import build_network
from proxrl.config import RunConfig
from proxrl.training.environments import scoring_environment
from proxrl.types import Batch


def example_learner(config: RunConfig) -> tuple[Learner, Batch]:
    """The learner of a configuration, and a random batch for it."""
    environment = scoring_environment(config)
    spec, actions = environment.observation, environment.actions
    environment.close()
    network = build_network(spec, actions, config.network, config.seed, config.head)
    generator, size = np.random.default_rng(0), config.replay.batch_size
    states = generator.integers(0, 2, (2, size, *spec.state_shape)).astype(spec.dtype)
    batch = Batch(
        states=torch.from_numpy(states[0]),
        actions=torch.from_numpy(generator.integers(0, actions, size)),
        returns=torch.from_numpy(generator.normal(size=size).astype(np.float32)),
        discounts=torch.full((size,), 0.99),
        next_states=torch.from_numpy(states[1]),
        indices=np.arange(size),
    )
    return Learner(network, config, torch.device("cpu")), batch


def gflop_per_update(config: RunConfig) -> float:
    """Multiplications and additions in the matrix products and convolutions of one update."""
    learner, batch = example_learner(config)
    learner.update(batch)  # which also measures distances, as few updates do
    with FlopCounterMode(display=False) as counted:
        learner.update(batch)
    return counted.get_total_flops() / 1e9


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


def steps_per_second_limit(gflops: float, config: RunConfig) -> float:
    """Agent steps per second if nothing but the multiplications took time."""
    return gflops / gflop_per_update(config) * config.learner.update_period_steps
