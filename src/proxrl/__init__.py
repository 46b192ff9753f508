"""proxrl: proximal deep reinforcement learning (Asadi et al., NeurIPS 2022) in PyTorch.

from proxrl import Agent, presets, train

config = presets.make("dqn-pro", "CartPole-v1", seed=1)
agent = train(config, "runs/cartpole")
print(agent.evaluate(episodes=30).mean)
"""

import importlib
from typing import TYPE_CHECKING, Any

from proxrl.extras import explain

if TYPE_CHECKING:
    from proxrl.agents.networks import register_network
    from proxrl.config import RunConfig
    from proxrl.proximal import Proximal
    from proxrl.proximal.rules import register_rule
    from proxrl.suites import presets, register_suite
    from proxrl.training.agent import Agent
    from proxrl.training.callbacks import Callback
    from proxrl.training.progress import display_for_terminal
    from proxrl.training.run import resume, train

__all__ = [
    "Agent",
    "Callback",
    "Proximal",
    "RunConfig",
    "display_for_terminal",
    "presets",
    "register_network",
    "register_rule",
    "register_suite",
    "resume",
    "train",
]
__version__ = "0.1.0"

_HOMES = {
    "Agent": "proxrl.training.agent",
    "Callback": "proxrl.training.callbacks",
    "Proximal": "proxrl.proximal",
    "RunConfig": "proxrl.config",
    "display_for_terminal": "proxrl.training.progress",
    "register_network": "proxrl.agents.networks",
    "register_rule": "proxrl.proximal.rules",
    "register_suite": "proxrl.suites",
    "resume": "proxrl.training.run",
    "train": "proxrl.training.run",
}


def __getattr__(name: str) -> Any:
    """Lazy import: importing torch takes seconds, and `proxrl --help` does not need it."""
    if name == "presets":
        return _imported("proxrl.suites.presets", name)
    if name in _HOMES:
        return getattr(_imported(_HOMES[name], name), name)
    raise AttributeError(f"module 'proxrl' has no attribute {name!r}")


def _imported(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise explain(error, f"proxrl.{name}") from None
