"""A run, said completely: nested frozen dataclasses that the command line, JSON and Python share.

Units: *steps* are agent steps, *frames* emulator frames, *updates* gradient updates. A field's
docstring is its help on the command line. Knows nothing of torch, so that `--help` is instant.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from proxrl.config.rules import AdaptiveOptions, ScheduledOptions
from proxrl.errors import UserError


@dataclass(frozen=True)
class ProtocolConfig:
    """How the environment is presented to the agent; stamped on every score."""

    stack: int = 1
    """Observations that make a state, zeros before an episode begins."""
    max_episode_steps: int | None = None
    """Agent steps after which an episode is truncated; None: the environment's own limit."""
    sticky_actions: float = 0.0
    """Probability of repeating the last action, per emulator frame or, without these, per step."""
    frame_skip: int = 1
    """Emulator frames per agent step."""
    life_loss_terminal: bool = False
    """A lost life ends the episode for learning (never for scores)."""
    clip_rewards: bool = False
    """Clip rewards to [-1, 1] for learning (never for scores)."""
    time_limit_terminal: bool = False
    """Learn from an episode cut at its time limit as if it had ended there: no bootstrapping."""


@dataclass(frozen=True)
class NetworkConfig:
    """The function from states to action values."""

    kind: str = "auto"
    """nature (Mnih et al., no padding), nature-same (Dopamine's and the paper's, SAME padding),
    minatar, mlp, auto (by the observation), a registered name or module:function."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each dense hidden layer."""
    initial_weights: Literal["torch", "xavier", "fan_in"] = "torch"
    """torch: as PyTorch's layers start; xavier: Xavier uniform, biases 0 (Dopamine's DQN); fan_in:
    uniform within sqrt(sqrt(3) / fan-in), biases 0 (Dopamine's Rainbow)."""
    dueling: bool = False
    """Value and advantages apart: Q = V + A - mean A (Wang et al. 2016)."""
    noisy: bool = False
    """Dense layers with learnt noise (Fortunato et al. 2018); with it, epsilon can be 0."""
    noisy_sigma: float = 0.5
    """Noise at the start, times 1/sqrt(inputs) of the layer."""


@dataclass(frozen=True)
class HeadConfig:
    """What is learnt of the return: its expectation, or its distribution over atoms (C51)."""

    kind: Literal["expected", "categorical"] = "expected"
    """expected: action values; categorical: a distribution over `atoms` equally spaced returns."""
    atoms: int = 51
    """Categorical: points of the support."""
    v_min: float = -10.0
    """Categorical: smallest return of the support, discounted and as learnt from (clipped)."""
    v_max: float = 10.0
    """Categorical: largest return of the support."""


@dataclass(frozen=True)
class ReplayConfig:
    """What is remembered and how it is drawn."""

    capacity: int = 100_000
    """Transitions kept."""
    warmup_steps: int = 1_000
    """Transitions in the replay before the first update."""
    batch_size: int = 32
    """Transitions per update."""
    n_step: int = 1
    """Update horizon: rewards summed before bootstrapping."""
    sampling: str = "uniform"
    """uniform; prioritised: in proportion to priority ** priority_exponent (Schaul et al. 2016); or
    a registered sampler."""
    priority_exponent: float = 0.5
    """Prioritised: 0 is uniform; the priority is |TD error|, or the cross-entropy (categorical)."""
    importance_exponent: float = 0.5
    """Prioritised: weights (1 / probability) ** it, over the batch's largest; 0 weighs nothing."""


@dataclass(frozen=True)
class LearnerConfig:
    """Objective and optimizer (Adam)."""

    discount: float = 0.99
    """gamma, in [0, 1]."""
    loss: Literal["squared", "huber"] = "squared"
    """Squared TD error as in the paper's equation 5, or Huber (half quadratic, then linear); the
    categorical head has the cross-entropy instead."""
    double: bool = False
    """Double DQN: the online network chooses the action that the target network values."""
    learning_rate: float = 1e-4
    """alpha."""
    annealed_rate: float | None = None
    """alpha': alpha falls to it linearly between two syncs, then starts again; None: constant."""
    adam_epsilon: float = 1.5e-4
    """Adam's epsilon (not in the paper; Dopamine's)."""
    update_period_steps: int = 4
    """Agent steps between two phases of learning."""
    updates_per_step: int = 1
    """Gradient updates in each phase (Algorithm 1's N)."""


@dataclass(frozen=True)
class TargetConfig:
    """How the target network follows the online one."""

    rule: Literal["periodic", "polyak"] = "periodic"
    """periodic: theta <- w every period; polyak: theta <- tau w + (1 - tau) theta each update."""
    period: int = 8_000
    """Distance between two syncs (periodic), in `period_unit`."""
    period_unit: Literal["steps", "updates"] = "steps"
    """Agent steps as Dopamine counts, or gradient updates as the paper's Algorithm 1."""
    tau: float = 0.005
    """Share of the online weights taken at each update (polyak)."""


@dataclass(frozen=True)
class ProximalConfig:
    """How the online network is kept near the target: w <- w + (alpha/c)(theta - w)."""

    rule: str = "parameters"
    """parameters: the paper's pull, decoupled from Adam; gradient: (w - theta)/c added to the
    gradient, so that Adam rescales it; values: (1/c) mean (Q(w) - Q(theta))^2 added to the loss;
    adaptive, adaptive-layers: the pull with kappa from the gradient's signal-to-noise ratio;
    scheduled: the pull with kappa by a schedule; or a registered rule or module:Rule."""
    c: float = math.inf
    """The paper's c-tilde; inf is plain DQN."""
    pull_per_sync: float | None = None
    """Another way to say c: kappa = (alpha/c) x updates per sync; overrides c (parameters only)."""
    actions: Literal["taken", "all"] = "taken"
    """Rule values: over the action taken, or over all actions of a state."""
    own_batch: bool = False
    """Rule values: on a uniform batch of its own, not on the one that the loss is taken on."""
    adaptive: AdaptiveOptions = field(default_factory=AdaptiveOptions)
    scheduled: ScheduledOptions = field(default_factory=ScheduledOptions)
    options: tuple[str, ...] = ()
    """Options of a registered rule or module:Rule, each KEY=VALUE (docs/rules.md)."""


@dataclass(frozen=True)
class ExplorationConfig:
    """epsilon-greedy acting: 1 until warm-up is over, then a linear decay."""

    final_epsilon: float = 0.01
    """Probability of a random action after the decay."""
    decay_steps: int = 250_000
    """Agent steps from 1 to the final value, counted from the end of warm-up."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Scores: undiscounted, unclipped returns in an environment of their own."""

    period_steps: int = 10_000
    """Agent steps between two evaluations; also the interval of metrics.jsonl."""
    episodes: int = 2
    """Episodes per evaluation."""
    environments: int = 10
    """Episodes that advance together, each in an environment of its own; at most `episodes`."""
    epsilon: float = 0.001
    """Probability of a random action."""
    min_steps: int = 0
    """Play further episodes until an evaluation has this many agent steps."""
    training_period_steps: int = 250_000
    """Agent steps over which training returns are averaged, as in Dopamine's published curves."""


@dataclass(frozen=True)
class CheckpointConfig:
    """What survives a kill."""

    period_steps: int = 5_000
    """Agent steps between two checkpoints."""
    keep_replay: bool = False
    """Keep the replay when the run finishes, so that an extension is exact to the bit."""
    keep_all: bool = False
    """Keep every checkpoint, not only the newest two (the newest one when finished)."""


@dataclass(frozen=True)
class LoggingConfig:
    """Where numbers go besides metrics.jsonl."""

    tensorboard: bool = True
    """Write TensorBoard events into the run folder."""
    wandb: str | None = None
    """Weights & Biases project to log to (needs the extra `wandb`)."""


@dataclass(frozen=True)
class RunConfig:
    """One training run: same config, same seed, same CPU model: same bits."""

    agent: Annotated[str, tyro.conf.Suppress]
    """Preset this config came from."""
    env: str
    """Gymnasium id, e.g. ALE/Breakout-v5, CartPole-v1 or module:Name-v0."""
    seed: int = 0
    """Every random draw of the run follows from it."""
    steps: int = 1_000_000
    """Agent steps in total."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where the networks live; auto: cuda, else mps, else cpu."""
    threads: int = 0
    """CPU threads of torch, part of what fixes the bits; 0: one per core."""
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    proximal: ProximalConfig = field(default_factory=ProximalConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)

    @property
    def updates_per_sync(self) -> float:
        """Gradient updates between two syncs; for Polyak averaging its time constant 1/tau."""
        if self.target.rule == "polyak":
            return 1.0 / self.target.tau
        if self.target.period_unit == "updates":
            return self.target.period
        phases = self.target.period / self.learner.update_period_steps
        return phases * self.learner.updates_per_step

    @property
    def c(self) -> float:
        """The proximal coefficient in force, however it was said."""
        kappa = self.proximal.pull_per_sync
        if kappa is None:
            return self.proximal.c
        return self.learner.learning_rate * self.updates_per_sync / kappa if kappa else math.inf

    @property
    def pull_per_sync(self) -> float:
        """kappa in force: 0 for plain DQN."""
        return self.learner.learning_rate / self.c * self.updates_per_sync

    def override(self, changes: dict[str, Any]) -> "RunConfig":
        """A copy with dotted settings replaced: `config.override({"proximal.c": 0.1})`."""
        config = self
        for path, value in changes.items():
            config = _replaced(config, path.split("."), value, path)
        return config


def _replaced(node: Any, path: list[str], value: Any, whole: str) -> Any:
    name, *rest = path
    if not dataclasses.is_dataclass(node) or name not in {f.name for f in dataclasses.fields(node)}:
        raise UserError(f"unknown setting {whole}")
    inner = _replaced(getattr(node, name), rest, value, whole) if rest else value
    return dataclasses.replace(node, **{name: inner})  # type: ignore[type-var]
