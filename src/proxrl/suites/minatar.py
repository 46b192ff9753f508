"""MinAtar (Young & Tian 2019): five small games, no human scores.

The base config follows Dopamine's MinAtar settings (Ceron & Castro 2021), except Rainbow's support
(docs/fidelity.md, 23). The pull per sync kappa is 0.25 for both Pro agents, tuned on two games
(docs/fidelity.md, 10); the paper's are 1 and 2.5 (`--proximal.pull-per-sync 1`).
"""

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
from proxrl.suites.suite import Score, Suite, agents
from proxrl.suites.tables import read_table

BASE = RunConfig(
    agent="dqn",
    env="MinAtar/Breakout-v1",
    steps=1_000_000,
    threads=1,  # too small to parallelize
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

RAINBOW = {"head.v_min": -20.0, "head.v_max": 20.0}  # docs/fidelity.md, 23

_TABLE = read_table("minatar_random.csv")

MINATAR = Suite(
    name="minatar",
    title="MinAtar",
    ids=r"MinAtar/(?P<game>.*?)(-v\d+)?",
    shown_ids="MinAtar/*",
    base=BASE,
    agents=agents(RAINBOW, dqn_c=0.25, rainbow_c=0.25),
    provider="minatar.gym",
    package="minatar",
    install="pip install 'proxrl[minatar]'",
    make="proxrl.envs.minatar:make",
    protocol=frozenset({"sticky_actions"}),
    games=tuple(row["game"] for row in _TABLE),
    noun="MinAtar game",
    scale="dqn",
    scores={row["game"]: Score(float(row["random"])) for row in _TABLE},
)
