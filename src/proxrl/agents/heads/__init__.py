"""Heads: expected returns, or their distribution; one file each.

A head interprets the `size` outputs of a network body for each action: their value (`values`, and
`of_state` on arrays), their targets (`targets`), and the loss with its gradient (`loss`). A new
head is a class with these methods, the name of its loss (`loss_name`) and what helps if that
diverges (`advice`), and an entry in `make_head`.
"""

from proxrl.agents.heads.base import Loss, at_action, of_action
from proxrl.agents.heads.categorical import Categorical
from proxrl.agents.heads.expected import Expected
from proxrl.config import HeadConfig

Head = Expected | Categorical

__all__ = ["Categorical", "Expected", "Head", "Loss", "at_action", "make_head", "of_action"]


def make_head(config: HeadConfig, loss: str = "squared") -> Head:
    """The configured head; `loss` (squared, huber) applies to expected returns."""
    if config.kind == "categorical":
        return Categorical(config.atoms, config.v_min, config.v_max)
    return Expected(loss)
