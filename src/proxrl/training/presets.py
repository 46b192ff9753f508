"""The agents by name: one learner, told what to be.

A preset is an agent in a family of environments (`atari`, `minatar`, `classic`). Within a family
an agent and its `-pro` twin differ in one value: `proximal.c`.

Atari is the paper's Table 1; `-authors` is what the authors' published code does where it differs
(docs/fidelity.md, A), for Atari only. MinAtar follows Dopamine's MinAtar settings (Ceron & Castro
2021), Rainbow's support apart (docs/fidelity.md, 23).
c for MinAtar and classic control is chosen so that the pull per sync kappa is the paper's when its
period counts agent steps: 1 for DQN Pro, 2.5 for Rainbow Pro. On MinAtar that is too strong for
Rainbow Pro, whose kappa is 0.25 there (docs/fidelity.md, 10).
"""

from dataclasses import replace
from typing import Any

from proxrl.config import (
    CheckpointConfig,
    EvaluationConfig,
    ExplorationConfig,
    LearnerConfig,
    NetworkConfig,
    ProtocolConfig,
    ReplayConfig,
    RunConfig,
    TargetConfig,
)
from proxrl.errors import UserError

ATARI = RunConfig(
    agent="dqn",
    env="ALE/Breakout-v5",
    steps=30_000_000,  # x 4 = 120M frames
    protocol=ProtocolConfig(
        stack=4,
        max_episode_steps=27_000,
        sticky_actions=0.25,
        frame_skip=4,
        life_loss_terminal=False,
        clip_rewards=True,
    ),
    network=NetworkConfig(kind="nature-same", hidden=(512,), initial_weights="xavier"),
    replay=ReplayConfig(capacity=200_000, warmup_steps=20_000, batch_size=64, n_step=1),
    learner=LearnerConfig(
        discount=0.99,
        loss="squared",
        learning_rate=1e-4,
        adam_epsilon=1.5e-4,
        update_period_steps=4,
    ),
    target=TargetConfig(rule="periodic", period=8_000, period_unit="steps"),
    exploration=ExplorationConfig(final_epsilon=0.01, decay_steps=250_000),
    evaluation=EvaluationConfig(period_steps=10_000, episodes=2, epsilon=0.001),
    checkpoint=CheckpointConfig(period_steps=5_000),
)

MINATAR = RunConfig(
    agent="dqn",
    env="MinAtar/Breakout-v1",
    steps=1_000_000,
    threads=1,  # too small to share
    protocol=ProtocolConfig(sticky_actions=0.1, max_episode_steps=5_000),
    network=NetworkConfig(kind="minatar", hidden=(128,)),
    replay=ReplayConfig(capacity=100_000, warmup_steps=1_000, batch_size=32),
    learner=LearnerConfig(
        loss="huber",
        learning_rate=2.5e-4,
        adam_epsilon=3.125e-4,
        update_period_steps=4,
    ),
    target=TargetConfig(period=1_000),
    exploration=ExplorationConfig(final_epsilon=0.01, decay_steps=100_000),
    evaluation=EvaluationConfig(period_steps=10_000, episodes=10),
    checkpoint=CheckpointConfig(period_steps=10_000),
)

CLASSIC = RunConfig(
    agent="dqn",
    env="CartPole-v1",
    steps=60_000,
    threads=1,
    network=NetworkConfig(kind="auto", hidden=(256, 256)),
    replay=ReplayConfig(capacity=50_000, warmup_steps=1_000, batch_size=128),
    learner=LearnerConfig(
        loss="huber",
        learning_rate=5e-4,
        adam_epsilon=1e-8,
        update_period_steps=2,
    ),
    target=TargetConfig(period=256),
    exploration=ExplorationConfig(final_epsilon=0.04, decay_steps=8_000),
    evaluation=EvaluationConfig(period_steps=5_000, episodes=10),
    checkpoint=CheckpointConfig(period_steps=5_000),
)

FAMILIES = {"atari": ATARI, "minatar": MINATAR, "classic": CLASSIC}

Settings = dict[str, dict[str, Any]]  # family -> what differs from it

DQN: Settings = {"atari": {}, "minatar": {}, "classic": {}}

# Dopamine's Rainbow: categorical, prioritised, 3-step. Its other parts are switches: see FULL.
_THREE_PARTS = {"head.kind": "categorical", "replay.sampling": "prioritised", "replay.n_step": 3}
RAINBOW: Settings = {
    "atari": {
        **_THREE_PARTS,
        "learner.learning_rate": 6.25e-5,
        "replay.capacity": 1_000_000,
        "network.initial_weights": "fan_in",
    },
    "minatar": {**_THREE_PARTS, "head.v_min": -20.0, "head.v_max": 20.0},  # docs/fidelity.md, 23
    "classic": {**_THREE_PARTS, "head.v_min": -100.0, "head.v_max": 100.0},
}

# All six parts of Hessel et al. (2018); noisy layers explore in place of epsilon.
_OTHER_PARTS = {
    "learner.double": True,
    "network.dueling": True,
    "network.noisy": True,
    "exploration.final_epsilon": 0.0,
    "exploration.decay_steps": 0,
}
FULL: Settings = {family: {**settings, **_OTHER_PARTS} for family, settings in RAINBOW.items()}


# The authors' published code (amazon-research/fast-rl-with-slow-updates), Atari only. Its Rainbow
# is configs/rainbow_our_first_paper.gin; DQN has no such file, so only what the code fixes.
_AUTHORS = {
    "protocol.time_limit_terminal": True,
    "evaluation.period_steps": 250_000,
    "evaluation.episodes": 1,
    "evaluation.min_steps": 125_000,
}
DQN_AUTHORS: Settings = {"atari": {**_AUTHORS, "learner.loss": "huber"}}
RAINBOW_AUTHORS: Settings = {
    "atari": {
        **RAINBOW["atari"],
        **_AUTHORS,
        "protocol.sticky_actions": 0.0,
        "protocol.life_loss_terminal": True,
    }
}


def _pro(base: Settings, **c: float) -> Settings:
    return {family: {**settings, "proximal.c": c[family]} for family, settings in base.items()}


AGENTS: dict[str, Settings] = {
    "dqn": DQN,
    "dqn-pro": _pro(DQN, atari=0.2, minatar=0.0625, classic=0.064),
    "rainbow": RAINBOW,
    "rainbow-pro": _pro(RAINBOW, atari=0.05, minatar=0.25, classic=0.0256),
    "rainbow-full": FULL,
    "rainbow-full-pro": _pro(FULL, atari=0.05, minatar=0.25, classic=0.0256),
    "dqn-authors": DQN_AUTHORS,
    "dqn-authors-pro": _pro(DQN_AUTHORS, atari=0.2),
    "rainbow-authors": RAINBOW_AUTHORS,
    "rainbow-authors-pro": _pro(RAINBOW_AUTHORS, atari=0.05),
}


def family_of(env: str) -> str:
    """atari for ALE/ ids, minatar for MinAtar/ ids, classic for everything else."""
    name = env.split(":", 1)[-1]
    if name.startswith("ALE/"):
        return "atari"
    return "minatar" if name.startswith("MinAtar/") else "classic"


def make(agent: str, env: str, overrides: dict[str, Any] | None = None, **top: Any) -> RunConfig:
    """The preset of this agent that fits this environment.

    >>> make("dqn-pro", "CartPole-v1", {"proximal.c": 0.5}, seed=3)
    """
    if agent not in AGENTS:
        raise UserError(f"unknown preset {agent!r}: choose from {', '.join(sorted(AGENTS))}")
    family = family_of(env)
    if family not in AGENTS[agent]:
        raise UserError(
            f"preset {agent} is for Atari (ALE/...), not {env}: it is the configuration of the "
            "authors' Atari experiments"
        )
    config = replace(FAMILIES[family], agent=agent, env=env)
    return config.override({**AGENTS[agent][family], **top, **(overrides or {})})
