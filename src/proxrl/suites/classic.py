"""Classic control with discrete actions, and LunarLander: small vectors, fast episodes.

The settings were tuned on CartPole. c is chosen so that the pull per sync kappa is the paper's if
its period counts agent steps: 1 for DQN Pro, 2.5 for Rainbow Pro.
"""

from proxrl.config import (
    CheckpointConfig,
    EvaluationConfig,
    ExplorationConfig,
    LearnerConfig,
    NetworkConfig,
    ReplayConfig,
    RunConfig,
    TargetConfig,
)
from proxrl.suites.suite import Suite, agents

BASE = RunConfig(
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

RAINBOW = {"head.v_min": -100.0, "head.v_max": 100.0}

CLASSIC = Suite(
    name="classic",
    title="classic control",
    ids=r"(CartPole|Acrobot|MountainCar|LunarLander)-v\d+",
    shown_ids="classic control",
    base=BASE,
    agents=agents(RAINBOW, dqn_c=0.064, rainbow_c=0.0256),
)
