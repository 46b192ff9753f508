"""The proximal term: the paper's update (`pull`), and a wrapper for any torch optimizer."""

from proxrl.proximal.optimizer import Proximal
from proxrl.proximal.pull import (
    c_from_pull_per_sync,
    distance,
    not_both,
    pull_,
    pull_per_sync,
    pull_strength,
)

__all__ = [
    "Proximal",
    "c_from_pull_per_sync",
    "distance",
    "not_both",
    "pull_",
    "pull_per_sync",
    "pull_strength",
]
