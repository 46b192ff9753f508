"""Any other Gymnasium environment with discrete actions: settings by observation.

| observation                      | settings                                                    |
|----------------------------------|-------------------------------------------------------------|
| image, at least 36 x 36          | the Nature network, Atari's learning rate, a smaller replay |
| image, 3 x 3 to 35 x 35          | MinAtar's, without its sticky actions                       |
| vector (or flattened)            | two dense layers                                            |

The scale of rewards is unknown: the loss is Huber, rewards are not clipped, Rainbow's support is
wide. Episodes are truncated after 27,000 steps, so that evaluations end even if an environment has
no limit. c gives the paper's pull per sync, 1 for DQN Pro and 2.5 for Rainbow Pro; for small images
0.25 for both, as on MinAtar.
"""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

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
from proxrl.plugins import imported
from proxrl.suites.suite import Suite, agents

if TYPE_CHECKING:  # imports NumPy
    from proxrl.types import ObservationSpec

SMALL_SIDE = 3  # pixels: the smallest image for one 3 x 3 convolution
LARGE_SIDE = 36  # pixels: the smallest image for the Nature network

RAINBOW = {"head.v_min": -100.0, "head.v_max": 100.0}

VECTOR = Suite(
    name="any",
    title="vector observations",
    ids=r".*",
    shown_ids="others: vectors",
    base=RunConfig(
        agent="dqn",
        env="CartPole-v1",
        steps=500_000,
        threads=1,
        protocol=ProtocolConfig(max_episode_steps=27_000),
        network=NetworkConfig(kind="mlp", hidden=(256, 256)),
        replay=ReplayConfig(capacity=100_000, warmup_steps=1_000, batch_size=64),
        learner=LearnerConfig(
            loss="huber",
            learning_rate=2.5e-4,
            adam_epsilon=1.5e-4,
            update_period_steps=4,
        ),
        target=TargetConfig(period=1_000),
        exploration=ExplorationConfig(final_epsilon=0.02, decay_steps=50_000),
        evaluation=EvaluationConfig(period_steps=10_000, episodes=10),
        checkpoint=CheckpointConfig(period_steps=10_000),
    ),
    agents=agents(RAINBOW, dqn_c=0.0625, rainbow_c=0.025),
)

SMALL_IMAGE = replace(
    VECTOR,
    title="small images",
    shown_ids="others: small images",
    base=replace(
        VECTOR.base,
        steps=1_000_000,
        network=NetworkConfig(kind="minatar", hidden=(128,)),
        replay=ReplayConfig(capacity=100_000, warmup_steps=1_000, batch_size=32),
        learner=replace(VECTOR.base.learner, adam_epsilon=3.125e-4),
        exploration=ExplorationConfig(final_epsilon=0.01, decay_steps=100_000),
    ),
    agents=agents(RAINBOW, dqn_c=0.25, rainbow_c=0.25),
)

LARGE_IMAGE = replace(
    VECTOR,
    title="large images",
    shown_ids="others: large images",
    base=replace(
        VECTOR.base,
        steps=2_000_000,
        threads=0,
        protocol=ProtocolConfig(stack=4, max_episode_steps=27_000),
        network=NetworkConfig(kind="nature", hidden=(512,)),
        replay=ReplayConfig(capacity=50_000, warmup_steps=5_000, batch_size=32),
        learner=replace(VECTOR.base.learner, learning_rate=1e-4),
        target=TargetConfig(period=4_000),
        exploration=ExplorationConfig(final_epsilon=0.01, decay_steps=100_000),
        evaluation=EvaluationConfig(period_steps=20_000, episodes=5),
        checkpoint=CheckpointConfig(period_steps=5_000),
    ),
    agents=agents({**RAINBOW, "learner.learning_rate": 6.25e-5}, dqn_c=0.1, rainbow_c=0.025),
)

COLUMNS = (VECTOR, SMALL_IMAGE, LARGE_IMAGE)


def for_observation(spec: "ObservationSpec") -> Suite:
    """The settings for an observation."""
    side = min(spec.shape[:2]) if spec.is_image else 0
    return VECTOR if side < SMALL_SIDE else SMALL_IMAGE if side < LARGE_SIDE else LARGE_IMAGE


@cache
def observation_of(env: str) -> "ObservationSpec":
    """Make the environment to get its observation spec, or raise `UserError`."""
    spec: ObservationSpec = imported("proxrl.envs.make:observation_of", "suite")(env)
    return spec
