"""epsilon-greedy acting."""

import numpy as np
import torch
from torch import Tensor, nn

from proxrl.types import Array


def linear_epsilon(step: int, warmup_steps: int, decay_steps: int, final: float) -> float:
    """1 until warm-up is over, then linearly down to `final` over `decay_steps`."""
    left = warmup_steps + decay_steps - step
    if left >= decay_steps:
        return 1.0
    return final if left <= 0 else final + (1.0 - final) * left / decay_steps


def epsilon_greedy(
    network: nn.Module,
    state: Array,
    epsilon: float,
    actions: int,
    generator: np.random.Generator,
    device: torch.device,
) -> int:
    """A random action with probability epsilon, else the one of largest value (lowest on ties)."""
    if generator.random() < epsilon:
        return int(generator.integers(actions))
    return int(action_values(network, state, device).argmax())


def action_values(network: nn.Module, state: Array, device: torch.device) -> Tensor:
    """Q(s, .) of one state, [actions]."""
    with torch.inference_mode():
        values: Tensor = network(torch.from_numpy(state[None]).to(device))[0]
        return values
