"""Experience: an append-only log on disk, and minibatches of n-step transitions sampled from it."""

from proxrl.replay.gather import Gather
from proxrl.replay.log import ReplayLog, log_nbytes
from proxrl.replay.sampling import (
    PrioritisedReplay,
    Replay,
    UniformReplay,
    register_sampler,
    sampler_of,
)

__all__ = [
    "Gather",
    "PrioritisedReplay",
    "Replay",
    "ReplayLog",
    "UniformReplay",
    "log_nbytes",
    "register_sampler",
    "sampler_of",
]
