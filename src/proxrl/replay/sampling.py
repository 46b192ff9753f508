"""Samplers: uniform and prioritised replay.

Prioritised replay (Schaul et al. 2016), the proportional variant, as in Dopamine's Rainbow:

    P(i) = p_i^alpha / sum_k p_k^alpha,      weight_i = P(i)^-beta / max_batch P^-beta

A new transition gets the largest priority seen so far.

A custom sampler implements `Replay`: register it, and set `replay.sampling` to its name.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from proxrl.config import ReplayConfig
from proxrl.errors import UserError
from proxrl.replay.gather import Gather
from proxrl.replay.sumtree import SumTree
from proxrl.transfer import to_device
from proxrl.types import Array, Batch, Saveable, State

SMALLEST = 1e-10  # added to every priority, so that none is 0


class Replay(Saveable, Protocol):
    """The interface of a sampler; its state is what the log does not store."""

    def __len__(self) -> int:
        """Number of transitions that can be sampled: complete and alive."""

    def sample(self) -> Batch:
        """A batch whose states are valid until the call after next."""

    def update(self, indices: Array, priorities: torch.Tensor) -> None:
        """Update the priorities of sampled transitions."""


class UniformReplay:
    """Samples complete transitions uniformly, with replacement."""

    def __init__(self, gather: Gather, generator: np.random.Generator) -> None:
        self._gather = gather
        self._generator = generator

    def __len__(self) -> int:
        return max(0, self._gather.complete - self._gather.log.oldest)

    def sample(self) -> Batch:
        oldest, end = self._gather.log.oldest, self._gather.complete
        return self._gather(self._generator.integers(oldest, end, self._gather.batch_size))

    def update(self, indices: Array, priorities: torch.Tensor) -> None:
        """Does nothing."""

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        pass


class PrioritisedReplay:
    """Samples complete transitions in proportion to a power of their priority, stratified."""

    def __init__(
        self,
        gather: Gather,
        generator: np.random.Generator,
        priority_exponent: float,
        importance_exponent: float,
    ) -> None:
        self._gather = gather
        self._generator = generator
        self._alpha, self._beta = priority_exponent, importance_exponent
        self._tree = SumTree(gather.log.capacity)  # leaf index: step number % capacity
        self._largest = 1.0  # largest leaf seen
        self._known = 0  # transitions below this number have a priority
        self._forgotten = 0  # leaves of steps below this number are cleared

    def __len__(self) -> int:
        return max(0, self._gather.complete - self._gather.log.oldest)

    def sample(self) -> Batch:
        self._catch_up()
        leaves = self._tree.draw(self._gather.batch_size, self._generator)
        newest = self._gather.log.steps - 1
        steps = newest - (newest - leaves) % self._gather.log.capacity
        found = self._tree.leaves[leaves]
        weights = (found.min() / found) ** self._beta
        batch = self._gather(steps)
        weights = to_device(weights.astype(np.float32), batch.returns.device)
        return batch._replace(weights=weights)

    def update(self, indices: Array, priorities: torch.Tensor) -> None:
        """Waits for the device: the next draw depends on these priorities."""
        raw = priorities.detach().cpu().numpy().astype(np.float64)
        leaves = (raw + SMALLEST) ** self._alpha
        leaves[~np.isfinite(leaves)] = self._largest  # non-finite loss: the run is about to stop
        self._tree.set(indices % self._gather.log.capacity, leaves)
        self._largest = max(self._largest, float(leaves.max()))

    def _catch_up(self) -> None:
        """Update the leaves for changes of the log since the last draw.

        Newly completed transitions get the largest priority seen; leaves of incomplete steps, and
        of steps that expired before their leaf was reused, are set to zero.
        """
        log, complete = self._gather.log, self._gather.complete
        new = np.arange(max(self._known, log.oldest), complete)
        waiting = np.arange(complete, log.steps)
        dead = np.arange(max(self._forgotten, log.steps - log.capacity), log.oldest)
        changed = np.concatenate([new, waiting, dead])
        if len(changed):
            weights = np.zeros(len(changed))
            weights[: len(new)] = self._largest
            self._tree.set(changed % log.capacity, weights)
        self._known, self._forgotten = complete, log.oldest

    def state(self) -> State:
        """The current leaves; later updates follow from the log."""
        return {
            "priorities": self._tree.leaves.copy(),
            "largest_priority": self._largest,
            "caught_up": [self._known, self._forgotten],
        }

    def load(self, state: State) -> None:
        self._tree.load(state["priorities"])
        self._largest = float(state["largest_priority"])
        self._known, self._forgotten = (int(number) for number in state["caught_up"])


Sampler = Callable[[Gather, np.random.Generator, ReplayConfig], Replay]


def _uniform(gather: Gather, generator: np.random.Generator, config: ReplayConfig) -> Replay:
    return UniformReplay(gather, generator)


def _prioritised(gather: Gather, generator: np.random.Generator, config: ReplayConfig) -> Replay:
    return PrioritisedReplay(
        gather, generator, config.priority_exponent, config.importance_exponent
    )


_samplers: dict[str, Sampler] = {"uniform": _uniform, "prioritised": _prioritised}


def register_sampler(name: str, sampler: Sampler) -> None:
    """Register `sampler(gather, generator, config.replay)` under a name for `replay.sampling`."""
    _samplers[name] = sampler


def sampler_of(config: ReplayConfig) -> Sampler:
    """The configured sampler's factory."""
    if config.sampling not in _samplers:
        raise UserError(
            f"unknown replay.sampling {config.sampling}: choose from {', '.join(_samplers)}"
        )
    return _samplers[config.sampling]
