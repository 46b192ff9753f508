"""The proximal term: the paper's update (`pull`), and a wrapper for any torch optimizer."""

from proxrl.config import AdaptiveOptions
from proxrl.proximal.optimizer import ADAPTIVE, Proximal, only_if_adaptive
from proxrl.proximal.pull import (
    c_from_pull_per_sync,
    distance,
    not_both,
    pull_,
    pull_per_sync,
    pull_strength,
)

__all__ = [
    "ADAPTIVE",
    "AdaptiveOptions",
    "Proximal",
    "c_from_pull_per_sync",
    "distance",
    "not_both",
    "only_if_adaptive",
    "pull_",
    "pull_per_sync",
    "pull_strength",
]
