"""The pull for sb3-contrib's quantile regression DQN; see `proxrl.integrations.stable_baselines3`.

    from proxrl.integrations.sb3_contrib import QRDQNPro

The paper has no such agent: its c-tilde values were not tuned for this loss.
"""

from proxrl.integrations.versions import require

require("stable-baselines3")
require("sb3-contrib")

from sb3_contrib import QRDQN  # noqa: E402

from proxrl.integrations.stable_baselines3 import ProximalTerm  # noqa: E402


class QRDQNPro(ProximalTerm, QRDQN):
    """sb3-contrib's `QRDQN` with `c` (a number or "adaptive") or `pull_per_sync`."""

    target_network = "quantile_net_target"
