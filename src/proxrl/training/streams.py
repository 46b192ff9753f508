"""The random number generators of a run.

Each stream is a child of the run's seed. Episodes and evaluations derive their own generators from
theirs (`envs/journal.py`, `evaluate.py`); the states of the others are saved in checkpoints.
"""

import numpy as np

from proxrl.config import RunConfig
from proxrl.proximal.rules import make_rule
from proxrl.types import State

(
    TRAINING_STREAM,
    EVALUATION_STREAM,
    ACTING_STREAM,
    SAMPLING_STREAM,
    NOISE_STREAM,
    PROXIMAL_STREAM,
    RULE_STREAM,
    INDEPENDENT_STREAM,
) = range(8)


class Generators(dict[str, np.random.Generator]):
    """Generators by name."""

    def state(self) -> State:
        return {name: generator.bit_generator.state for name, generator in self.items()}

    def load(self, state: State) -> None:
        for name, generator in self.items():
            generator.bit_generator.state = state[name]


def generators_of(config: RunConfig) -> Generators:
    """The generators that this run needs."""
    streams = {"acting": ACTING_STREAM, "sampling": SAMPLING_STREAM}
    if config.network.noisy:
        streams["noise"] = NOISE_STREAM
    if config.proximal.own_batch:
        streams["proximal"] = PROXIMAL_STREAM
    if make_rule(config).draws:
        streams["rule"] = RULE_STREAM
    return Generators(
        (name, np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(stream,))))
        for name, stream in streams.items()
    )


def independent_seed(run_seed: int, number: int) -> int:
    """A seed for an evaluation that shares no draws with the run or with any other seed's run."""
    sequence = np.random.SeedSequence(run_seed, spawn_key=(INDEPENDENT_STREAM, number))
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)  # a run's seed is below 2^63
