"""epsilon-greedy action selection."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from proxrl.types import Array


def linear_epsilon(step: int, warmup_steps: int, decay_steps: int, final: float) -> float:
    """1 during warm-up, then a linear decay to `final` over `decay_steps`."""
    left = warmup_steps + decay_steps - step
    if left >= decay_steps:
        return 1.0
    return final if left <= 0 else final + (1.0 - final) * left / decay_steps


def epsilon_greedy(
    values: Callable[[Array], Array],
    state: Array,
    epsilon: float,
    actions: int,
    generator: np.random.Generator,
) -> int:
    """A random action with probability epsilon, else the one of largest value, `values(state)`
    (the lowest index on ties)."""
    if generator.random() < epsilon:
        return int(generator.integers(actions))
    return int(values(state).argmax())


def greedy_actions(network: nn.Module, states: Array, device: torch.device) -> Array:
    """The greedy action in each state, [batch]; the lowest index on ties."""
    with torch.inference_mode():
        values = network.forward(torch.from_numpy(states).to(device))
        actions: Array = values.cpu().numpy().argmax(axis=1)
        return actions
