"""The complete configuration of a run: nested frozen dataclasses for command line, JSON and Python.

Units: *steps* are agent steps, *frames* emulator frames, *updates* gradient updates. A field's
docstring is its help on the command line. Does not import torch, so that `--help` is fast.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from proxrl.config.rules import (
    AcceleratedOptions,
    AdaptiveOptions,
    MetricOptions,
    ScheduledOptions,
)
from proxrl.errors import UserError, did_you_mean

try:  # the drop-in needs these settings without the command line
    from tyro.conf import Suppress
except ModuleNotFoundError:
    Suppress = None  # type: ignore[misc]


@dataclass(frozen=True)
class ProtocolConfig:
    """How the environment is presented to the agent; recorded with every score."""

    stack: int = 1
    """Observations stacked into a state, zero-padded at the start of an episode."""
    max_episode_steps: int | None = None
    """Truncate episodes after this many agent steps; None: the environment's own limit (if it has
    none, only evaluation episodes are truncated, after 27,000)."""
    sticky_actions: float = 0.0
    """Probability of repeating the last action, per emulator frame (or step if there are none)."""
    frame_skip: int = 1
    """Emulator frames per agent step."""
    frame_size: int = 84
    """Height and width to which a frame is resized (Atari only)."""
    grayscale: bool = True
    """Frames in grayscale, or in colour with three channels (Atari only)."""
    life_loss_terminal: bool = False
    """A lost life ends the episode for learning (never for scores)."""
    clip_rewards: bool = False
    """Clip rewards to [-1, 1] for learning (never for scores)."""
    time_limit_terminal: bool = False
    """Treat time limits as terminal for learning: no bootstrapping."""


@dataclass(frozen=True)
class NetworkConfig:
    """The function from states to action values."""

    kind: str = "auto"
    """nature (Mnih et al., no padding), nature-same (Dopamine's and the paper's, SAME padding),
    minatar, mlp, auto (by observation), a registered name or module:function."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each dense hidden layer."""
    initial_weights: Literal["torch", "xavier", "fan_in"] = "torch"
    """torch: PyTorch's defaults; xavier: Xavier uniform, biases 0 (Dopamine's DQN); fan_in:
    uniform within sqrt(sqrt(3) / fan-in), biases 0 (Dopamine's Rainbow)."""
    dueling: bool = False
    """Separate value and advantage streams: Q = V + A - mean A (Wang et al. 2016)."""
    noisy: bool = False
    """Dense layers with learned noise (Fortunato et al. 2018); epsilon can then be 0."""
    noisy_sigma: float = 0.5
    """Initial noise scale, times 1/sqrt(inputs) of the layer."""


@dataclass(frozen=True)
class HeadConfig:
    """What the network predicts: expected returns, or their distribution over atoms (C51)."""

    kind: Literal["expected", "categorical"] = "expected"
    """expected: action values; categorical: a distribution over `atoms` equally spaced returns."""
    atoms: int = 51
    """Categorical: number of atoms of the support."""
    v_min: float = -10.0
    """Categorical: smallest return of the support (discounted, of clipped rewards)."""
    v_max: float = 10.0
    """Categorical: largest return of the support."""


@dataclass(frozen=True)
class ReplayConfig:
    """Replay memory and sampling."""

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
    """Prioritised: weights (1 / probability) ** exponent, over their maximum; 0: no weights."""


@dataclass(frozen=True)
class LearnerConfig:
    """Objective and optimizer (Adam)."""

    discount: float = 0.99
    """gamma, in [0, 1]."""
    loss: Literal["squared", "huber"] = "squared"
    """Squared TD error as in the paper's equation 5, or Huber (half quadratic, then linear); the
    categorical head has the cross-entropy instead."""
    double: bool = False
    """Double DQN: the online network selects the action, the target network evaluates it."""
    learning_rate: float = 1e-4
    """alpha."""
    annealed_rate: float | None = None
    """alpha': alpha decays linearly to it between two syncs, then restarts; None: constant."""
    rate_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Decay of alpha to `final_rate` from the first update to the end of `rate_schedule_steps`."""
    rate_schedule_steps: int | None = None
    """Agent steps of the schedule, warm-up included; alpha is `final_rate` after them. None: all of
    the run's steps, which then cannot be extended."""
    final_rate: float = 0.0
    """Learning rate at the end of the schedule."""
    max_gradient_norm: float | None = None
    """Scale the gradient of the loss down to this Euclidean norm if it is larger, before Adam; the
    pull is not part of it. None: no clipping."""
    adam_epsilon: float = 1.5e-4
    """Adam's epsilon (not in the paper; Dopamine's)."""
    update_period_steps: int = 4
    """Agent steps between two learning phases."""
    updates_per_step: int = 1
    """Gradient updates per learning phase (Algorithm 1's N)."""


@dataclass(frozen=True)
class TargetConfig:
    """How the target network follows the online one."""

    rule: Literal["periodic", "polyak"] = "periodic"
    """periodic: theta <- w every period; polyak: theta <- tau w + (1 - tau) theta each update."""
    period: int = 8_000
    """Interval between two syncs (periodic), in `period_unit`."""
    period_unit: Literal["steps", "updates"] = "steps"
    """Agent steps as in Dopamine, or gradient updates as in the paper's Algorithm 1."""
    tau: float = 0.005
    """Averaging coefficient (polyak)."""


@dataclass(frozen=True)
class ProximalConfig:
    """How the online network is kept near the target: w <- w + (alpha/c)(theta - w)."""

    rule: str = "parameters"
    """parameters: the paper's pull, decoupled from Adam; gradient: (w - theta)/c added to the
    gradient, so that Adam rescales it; values: (1/c) mean (Q(w) - Q(theta))^2 added to the loss;
    adaptive, adaptive-layers: the pull with kappa from the gradient's signal-to-noise ratio;
    scheduled: the pull with kappa by a schedule; accelerated: towards an extrapolated anchor;
    metric: in a diagonal metric from Adam's moments; or a registered rule or module:Rule."""
    c: float = math.inf
    """The paper's c-tilde; inf is plain DQN."""
    pull_per_sync: float | None = None
    """Alternative to c: kappa = (alpha/c) x updates per sync; overrides c (rules parameters,
    accelerated, metric, and rules of your own)."""
    actions: Literal["taken", "all"] = "taken"
    """Rule values: the action taken only, or all actions of a state."""
    own_batch: bool = False
    """Rule values: use a separate, uniformly sampled batch instead of the batch of the loss."""
    adaptive: AdaptiveOptions = field(default_factory=AdaptiveOptions)
    scheduled: ScheduledOptions = field(default_factory=ScheduledOptions)
    accelerated: AcceleratedOptions = field(default_factory=AcceleratedOptions)
    metric: MetricOptions = field(default_factory=MetricOptions)
    options: tuple[str, ...] = ()
    """Options of a registered rule or module:Rule, each KEY=VALUE (docs/rules.md)."""


@dataclass(frozen=True)
class ExplorationConfig:
    """epsilon-greedy exploration: 1 during warm-up, then a linear decay."""

    final_epsilon: float = 0.01
    """Probability of a random action after the decay."""
    decay_steps: int = 250_000
    """Agent steps over which epsilon decays, starting at the end of warm-up."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Scores: undiscounted, unclipped returns in a separate environment."""

    period_steps: int = 10_000
    """Agent steps between two evaluations; also the interval of metrics.jsonl."""
    episodes: int = 2
    """Episodes per evaluation."""
    environments: int = 10
    """Episodes evaluated in parallel, each in its own environment; at most `episodes`."""
    epsilon: float = 0.001
    """Probability of a random action."""
    min_steps: int = 0
    """Run more episodes until an evaluation has this many agent steps."""
    training_period_steps: int = 250_000
    """Agent steps over which training returns are averaged, as in Dopamine's published curves."""
    video: int = 0
    """At every n-th evaluation, write a video of its first episode to videos/step-N.mp4 (up to
    5,000 steps); does not affect results. 0: none."""


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints."""

    period_steps: int = 5_000
    """Agent steps between two checkpoints."""
    keep_replay: bool = False
    """Keep the replay of a finished run, so that extending it is bit-identical."""
    keep_all: bool = False
    """Keep every checkpoint, not only the newest two (only the last one of a finished run)."""


@dataclass(frozen=True)
class LoggingConfig:
    """Logging besides metrics.jsonl."""

    tensorboard: bool = True
    """Write TensorBoard events to the run folder."""
    tensorboard_updates: int = 0
    """Also write loss and mean value of every n-th update; 0: only their means."""
    wandb: str | None = None
    """Weights & Biases project to log to (needs the extra `wandb`)."""


@dataclass(frozen=True)
class RunConfig:
    """One training run: bit-identical for the same config, seed and CPU model."""

    agent: Annotated[str, Suppress]
    """Preset this config is based on."""
    env: str
    """Gymnasium id, e.g. ALE/Breakout-v5, CartPole-v1 or module:Name-v0, or module:function;
    keyword arguments follow after commas: FrozenLake-v1,is_slippery=false."""
    seed: int = 0
    """Seed of all random draws of the run."""
    steps: int = 1_000_000
    """Agent steps in total."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device of the networks; auto: cuda, else mps, else cpu."""
    threads: int = 0
    """CPU threads of torch, which affect the exact results; 0: one per core."""
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
        """The effective proximal coefficient, given as c or as pull per sync."""
        kappa = self.proximal.pull_per_sync
        if kappa is None:
            return self.proximal.c
        return self.learner.learning_rate * self.updates_per_sync / kappa if kappa else math.inf

    @property
    def pull_per_sync(self) -> float:
        """The effective kappa; 0 for plain DQN."""
        return self.learner.learning_rate / self.c * self.updates_per_sync

    def override(self, changes: dict[str, Any]) -> "RunConfig":
        """A copy with dotted settings replaced: `config.override({"proximal.c": 0.1})`."""
        config = self
        for path, value in changes.items():
            config = _replace(config, path.split("."), value, path)
        return config


def _meant(path: str) -> str:
    from proxrl.config.plain import flatten  # which imports this module

    known = list(flatten(RunConfig(agent="", env="")))
    same = [one for one in known if one.rsplit(".", 1)[-1] == path]
    return f"; did you mean {' or '.join(same)}?" if same else did_you_mean(path, known)


def _replace(node: Any, path: list[str], value: Any, whole: str) -> Any:
    name, *rest = path
    if not dataclasses.is_dataclass(node) or name not in {f.name for f in dataclasses.fields(node)}:
        raise UserError(f"unknown setting {whole}{_meant(whole)}")
    inner = _replace(getattr(node, name), rest, value, whole) if rest else value
    return dataclasses.replace(node, **{name: inner})  # type: ignore[type-var]
