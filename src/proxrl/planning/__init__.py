"""Planning with a proximal term: Sections 3 and 5.1 of the paper, in NumPy.

from proxrl.planning import from_gymnasium, pmpi

mdp = from_gymnasium("FrozenLake8x8-v1", discount=0.99)
outcome = pmpi.iterate(mdp, iterations=100, n=1, beta=0.4)

Arrays have states first, then any batch shape: a value function is [states], a batch of them
[states, ...]. Modules in reading order: mdp, operators, bregman, pmpi, theory, figure, adaptive,
comparison, accelerated.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxrl.planning.adaptive import AdaptiveBeta
    from proxrl.planning.bregman import LpNorm, Mahalanobis, SquaredEuclidean
    from proxrl.planning.figure import draw, figure1
    from proxrl.planning.mdp import MDP, from_file, from_gymnasium, garnet
    from proxrl.planning.operators import optimal, policy_value
    from proxrl.planning.pmpi import Noise, policy_error

__all__ = [
    "MDP",
    "AdaptiveBeta",
    "LpNorm",
    "Mahalanobis",
    "Noise",
    "SquaredEuclidean",
    "draw",
    "figure1",
    "from_file",
    "from_gymnasium",
    "garnet",
    "optimal",
    "policy_error",
    "policy_value",
]

_MODULES = {
    "adaptive": ("AdaptiveBeta",),
    "bregman": ("LpNorm", "Mahalanobis", "SquaredEuclidean"),
    "figure": ("draw", "figure1"),
    "mdp": ("MDP", "from_file", "from_gymnasium", "garnet"),
    "operators": ("optimal", "policy_value"),
    "pmpi": ("Noise", "policy_error"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Lazy import: the help of the command line does not need SciPy."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"proxrl.planning.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'proxrl.planning' has no attribute {name!r}")
