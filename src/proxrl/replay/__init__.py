"""Experience: an append-only log on disk, and minibatches of n-step transitions drawn from it."""

from proxrl.replay.log import ReplayLog, log_nbytes
from proxrl.replay.sampling import UniformReplay

__all__ = ["ReplayLog", "UniformReplay", "log_nbytes"]
