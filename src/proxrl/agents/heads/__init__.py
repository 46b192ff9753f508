"""What is learnt of the return: its expectation, or its distribution; each in a file of its own.

A head reads the `size` numbers that a network's body gives for each action: what they are worth
(`values`), what they should become (`targets`), and how far they are from it, with the gradient
(`loss`). A new head is a class with these three methods and a place in `make_head`.
"""

from proxrl.agents.heads.base import Loss, at_action, of_action
from proxrl.agents.heads.categorical import Categorical
from proxrl.agents.heads.expected import Expected
from proxrl.config import HeadConfig

Head = Expected | Categorical

__all__ = ["Categorical", "Expected", "Head", "Loss", "at_action", "make_head", "of_action"]


def make_head(config: HeadConfig, loss: str = "squared") -> Head:
    """The configured head; `loss` (squared, huber) is for expected returns."""
    if config.kind == "categorical":
        return Categorical(config.atoms, config.v_min, config.v_max)
    return Expected(loss)
