"""A suite: a family of environments as data.

A suite imports neither torch nor Gymnasium nor the environments: `make` and `provider` are names
that are imported on first use.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from proxrl.config import RunConfig, validated
from proxrl.errors import UserError

Settings = Mapping[str, Any]  # dotted setting -> value, overrides of a base config

# Dopamine's Rainbow: categorical, prioritised, 3-step.
_THREE_PARTS = {"head.kind": "categorical", "replay.sampling": "prioritised", "replay.n_step": 3}

# The other parts of Hessel et al. (2018); noisy layers replace epsilon-greedy exploration.
_OTHER_PARTS = {
    "learner.double": True,
    "network.dueling": True,
    "network.noisy": True,
    "exploration.final_epsilon": 0.0,
    "exploration.decay_steps": 0,
}

ADAPTIVE = {"proximal.rule": "adaptive"}  # kappa sets itself: docs/rules.md


class Score(NamedTuple):
    """Reference scores of a game."""

    random: float
    human: float = math.nan  # unknown


def agents(rainbow: Settings, dqn_c: float, rainbow_c: float) -> dict[str, Settings]:
    """Overrides of each agent for a suite's base config, which is DQN's.

    `rainbow`: additional settings of Rainbow. `dqn_c` and `rainbow_c`: `proximal.c` of the Pro
    agents, the only difference between an agent and its Pro version. The adaptive versions differ
    in `proximal.rule` instead.
    """
    rainbow = {**_THREE_PARTS, **rainbow}
    full = {**rainbow, **_OTHER_PARTS}
    return {
        "dqn": {},
        "dqn-pro": {"proximal.c": dqn_c},
        "dqn-pro-adaptive": ADAPTIVE,
        "rainbow": rainbow,
        "rainbow-pro": {**rainbow, "proximal.c": rainbow_c},
        "rainbow-pro-adaptive": {**rainbow, **ADAPTIVE},
        "rainbow-full": full,
        "rainbow-full-pro": {**full, "proximal.c": rainbow_c},
    }


OF_THE_AUTHORS = ("dqn-authors", "dqn-authors-pro", "rainbow-authors", "rainbow-authors-pro")
AGENTS = (*agents({}, 1.0, 1.0), *OF_THE_AUTHORS)  # the last four are for Atari


@dataclass(frozen=True, eq=False)
class Suite:
    """A family of environments; only the first six fields are required."""

    name: str
    """Short and unique; study files use it (`written_for = "atari"`)."""
    title: str
    """Display name: Atari."""
    ids: str
    """Regular expression that matches a whole Gymnasium id (without `module:`). Its group `game`
    is the name of the environment in reports; without it they use the id."""
    shown_ids: str
    """The ids for display: ALE/*."""
    base: RunConfig
    """Config of the agent `dqn` on an example environment."""
    agents: Mapping[str, Settings]
    """Agent -> its overrides of `base`."""

    # How an environment is made
    provider: str | None = None
    """Module whose import registers the ids with Gymnasium."""
    package: str | None = None
    """Distribution of the provider; checkpoints record its version."""
    install: str = ""
    """Command that installs the provider, for the error message."""
    make: str | None = None
    """`module:function`, called as function(env, protocol, pictures); returns a `gymnasium.Env` or
    a `proxrl.envs.Environment`. None: `gymnasium.make(env)`."""
    protocol: frozenset[str] = frozenset()
    """Which of sticky_actions, frame_skip, life_loss_terminal, frame_size and grayscale `make`
    supports."""

    # How results are reported
    games: tuple[str, ...] = ()
    """Standard games ("all" in a study file); empty: no list."""
    same_observation: bool = False
    """All games have the same observation, so that memory is estimated from one of them."""
    noun: str = "environment"
    """Noun for one environment in reports, singular."""
    axis: Literal["steps", "frames"] = "steps"
    """Unit of learning curves: agent steps, or emulator frames (steps x frame skip)."""
    scale: Literal["human", "dqn", "raw"] = "raw"
    """What a normalised score of 1 means: the human score, DQN's score in the same study (Rainbow's
    if DQN was not run), or no normalisation (raw). 0 is random play. human and dqn need
    `scores`."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """Game -> reference scores; games without any are excluded from averages."""
    baselines: tuple[str, ...] = ()
    """Published learning curves that `proxrl report` can draw (`--baselines`)."""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.ids)

    def matches(self, env: str) -> bool:
        return self._pattern.fullmatch(bare_id(env).split(",")[0]) is not None

    def game_of(self, env: str) -> str:
        """Breakout for ALE/Breakout-v5; the id itself if `ids` has no group `game`."""
        found = self._pattern.fullmatch(bare_id(env))
        named = found.groupdict().get("game") if found else None
        return named or bare_id(env)


def bare_id(env: str) -> str:
    """The Gymnasium id without the `module:` that registers it."""
    return env.split(":", 1)[-1]


def checked(suite: Any) -> Suite:
    """Validate a suite from outside this package."""
    if not isinstance(suite, Suite):
        raise UserError(f"{suite!r:.60} is not a proxrl.suites.Suite")
    where = f"suite {suite.name}"
    try:
        re.compile(suite.ids)
    except re.error as error:
        raise UserError(f"{where}: invalid ids {suite.ids!r}: {error}") from None
    for field_name, value, known in (
        ("axis", suite.axis, ("steps", "frames")),
        ("scale", suite.scale, ("human", "dqn", "raw")),
    ):
        if value not in known:
            raise UserError(f"{where}: invalid {field_name} {value!r}: choose {' or '.join(known)}")
    unknown = set(suite.agents) - set(AGENTS)
    if unknown or "dqn" not in suite.agents:
        wrong = f"unknown agent {min(unknown)}" if unknown else "no settings for the agent dqn"
        raise UserError(f"{where}: {wrong}; agents are {', '.join(AGENTS)}")
    for agent, settings in suite.agents.items():
        try:
            validated(suite.base.override(dict(settings)))
        except UserError as error:
            raise UserError(f"{where}: {agent}: {error}") from None
    return suite
