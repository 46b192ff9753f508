"""A run, said completely: nested frozen dataclasses that the command line, JSON and Python share.

Units: *steps* are agent steps, *frames* emulator frames, *updates* gradient updates. A field's
docstring is its help on the command line. Knows nothing of torch, so that `--help` is instant.
"""

import dataclasses
import math
import typing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from proxrl.errors import UserError


@dataclass(frozen=True)
class ProtocolConfig:
    """How the environment is presented to the agent; stamped on every score."""

    stack: int = 1
    """Observations that make a state, zeros before an episode begins."""
    max_episode_steps: int | None = None
    """Agent steps after which an episode is truncated; None: the environment's own limit."""
    sticky_actions: float = 0.0
    """Probability of repeating the last action, per frame on Atari and per step on MinAtar."""
    frame_skip: int = 1
    """Atari: emulator frames per agent step."""
    life_loss_terminal: bool = False
    """Atari: a lost life ends the episode for learning (never for scores)."""
    clip_rewards: bool = False
    """Clip rewards to [-1, 1] for learning (never for scores)."""


@dataclass(frozen=True)
class NetworkConfig:
    """The function from states to action values."""

    kind: str = "auto"
    """nature, minatar, mlp, auto (by the observation), a registered name or module:function."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each dense hidden layer."""
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
    sampling: Literal["uniform", "prioritised"] = "uniform"
    """uniform, or in proportion to priority ** priority_exponent (Schaul et al. 2016)."""
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
    or a registered rule or module:Rule."""
    c: float = math.inf
    """The paper's c-tilde; inf is plain DQN."""
    pull_per_sync: float | None = None
    """Another way to say c: kappa = (alpha/c) x updates per sync; overrides c (parameters only)."""
    actions: Literal["taken", "all"] = "taken"
    """Rule values: over the action taken, or over all actions of a state."""
    own_batch: bool = False
    """Rule values: on a uniform batch of its own, not on the one that the loss is taken on."""


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
    epsilon: float = 0.001
    """Probability of a random action."""


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
    """Gymnasium id, e.g. ALE/Breakout-v5, MinAtar/Asterix-v1, CartPole-v1 or module:Name-v0."""
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

    def validate(self) -> "RunConfig":
        """Self, or a `UserError` that names the first setting that cannot work."""
        for rules in (_impossible_alone, _impossible_together):  # in this order: alone first
            for path, wrong, right in rules(self):
                if wrong:
                    raise UserError(f"{path} = {flatten(self)[path]} cannot be: {right}")
        return self


# ---------------------------------------------------------------------------------- what can be


Rules = list[tuple[str, bool, str]]  # (setting, is it wrong, what would be right)


def _impossible_alone(config: RunConfig) -> Rules:
    """Values that cannot be, whatever the others are."""
    c, r, lr, t = config, config.replay, config.learner, config.target
    steps = [
        ("steps", c.steps),
        ("protocol.stack", c.protocol.stack),
        ("protocol.frame_skip", c.protocol.frame_skip),
        ("replay.capacity", r.capacity),
        ("replay.warmup_steps", r.warmup_steps),
        ("replay.batch_size", r.batch_size),
        ("replay.n_step", r.n_step),
        ("learner.update_period_steps", lr.update_period_steps),
        ("learner.updates_per_step", lr.updates_per_step),
        ("target.period", t.period),
        ("evaluation.period_steps", c.evaluation.period_steps),
        ("evaluation.episodes", c.evaluation.episodes),
        ("checkpoint.period_steps", c.checkpoint.period_steps),
    ]
    rates = [
        ("learner.learning_rate", lr.learning_rate),
        ("learner.adam_epsilon", lr.adam_epsilon),
        ("proximal.c", c.proximal.c),
    ]
    annealed = lr.annealed_rate
    shares = [
        ("learner.discount", lr.discount),
        ("replay.priority_exponent", r.priority_exponent),
        ("replay.importance_exponent", r.importance_exponent),
        ("protocol.sticky_actions", c.protocol.sticky_actions),
        ("exploration.final_epsilon", c.exploration.final_epsilon),
        ("evaluation.epsilon", c.evaluation.epsilon),
    ]
    kappa = c.proximal.pull_per_sync
    limit = c.protocol.max_episode_steps
    return [
        *((path, value < 1, "it must be at least 1") for path, value in steps),
        *((path, not value > 0, "it must be positive") for path, value in rates),
        *((path, not 0 <= value <= 1, "it must lie in [0, 1]") for path, value in shares),
        ("learner.learning_rate", math.isinf(lr.learning_rate), "it must be finite"),
        ("learner.adam_epsilon", math.isinf(lr.adam_epsilon), "it must be finite"),
        (
            "learner.annealed_rate",
            annealed is not None and not 0 <= annealed < math.inf,
            "it must be finite and not negative",
        ),
        ("head.atoms", c.head.atoms < 2, "it must be at least 2"),
        ("replay.n_step", r.n_step > 256, "it must be at most 256"),
        ("head.v_min", not math.isfinite(c.head.v_min), "it must be finite"),
        ("head.v_max", not math.isfinite(c.head.v_max), "it must be finite"),
        (
            "network.noisy_sigma",
            not 0 <= c.network.noisy_sigma < math.inf,
            "it must be finite and not negative",
        ),
        ("seed", not 0 <= c.seed < 2**63, "it must lie in [0, 2^63)"),
        ("threads", not 0 <= c.threads <= 1024, "it must be 0 (one per core) or up to 1024"),
        ("protocol.stack", c.protocol.stack > 255, "it must be at most 255"),
        ("protocol.max_episode_steps", limit is not None and limit < 1, "it must be at least 1"),
        ("exploration.decay_steps", c.exploration.decay_steps < 0, "it must not be negative"),
        ("target.tau", not 0 < t.tau <= 1, "it must lie in (0, 1]"),
        (
            "proximal.pull_per_sync",
            kappa is not None and not 0 <= kappa < math.inf,
            "it must be finite and not negative",
        ),
        ("network.hidden", any(units < 1 for units in c.network.hidden), "units must be >= 1"),
    ]


def _impossible_together(config: RunConfig) -> Rules:
    """Values that do not fit one another."""
    c, r, lr, t = config, config.replay, config.learner, config.target
    largest_rate = max(lr.learning_rate, lr.annealed_rate or 0.0)
    return [
        (
            "target.period",
            t.rule == "periodic" and not float(c.updates_per_sync).is_integer(),
            f"it must be a multiple of learner.update_period_steps = {lr.update_period_steps}",
        ),
        (
            "replay.batch_size",
            r.batch_size > r.warmup_steps,
            f"it must be at most replay.warmup_steps = {r.warmup_steps}",
        ),
        (
            "replay.warmup_steps",
            r.warmup_steps + r.n_step > r.capacity,
            f"with replay.n_step it must fit into replay.capacity = {r.capacity}",
        ),
        (
            "proximal.c" if c.proximal.pull_per_sync is None else "proximal.pull_per_sync",
            c.proximal.rule == "parameters" and largest_rate / c.c > 1,
            f"lr/c would be above 1; with lr = {largest_rate:g}, c must be at least that",
        ),
        (
            "proximal.pull_per_sync",
            c.proximal.pull_per_sync is not None and c.proximal.rule != "parameters",
            f"with proximal.rule = {c.proximal.rule} there is no such pull, say proximal.c",
        ),
        (
            "proximal.actions",
            c.proximal.actions == "all" and c.proximal.rule in ("parameters", "gradient"),
            f"proximal.rule = {c.proximal.rule} looks at no actions",
        ),
        (
            "proximal.own_batch",
            c.proximal.own_batch and c.proximal.rule in ("parameters", "gradient"),
            f"proximal.rule = {c.proximal.rule} needs no batch",
        ),
        (
            "learner.annealed_rate",
            lr.annealed_rate is not None and t.rule == "polyak",
            "the step size is annealed between syncs, and target.rule = polyak has none",
        ),
        (
            "head.v_min",
            c.head.v_min >= c.head.v_max,
            f"it must be below head.v_max = {c.head.v_max:g}",
        ),
    ]


# ------------------------------------------------------------------------- dictionaries and back


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """{"learner.discount": 0.99, ...}: every setting by its dotted name."""
    flat: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            flat |= flatten(value, f"{prefix}{item.name}.")
        else:
            flat[prefix + item.name] = value
    return flat


def differences(one: RunConfig, other: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Settings in which two configs differ, by dotted name."""
    left, right = flatten(one), flatten(other)
    return {path: (left[path], right[path]) for path in left if left[path] != right[path]}


def to_json(config: RunConfig) -> dict[str, Any]:
    """Plain JSON values; infinity, which JSON lacks, as the string "inf"."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return list(value)
        return "inf" if value == math.inf else value

    return typing.cast(dict[str, Any], plain(dataclasses.asdict(config)))


def from_json(values: dict[str, Any]) -> RunConfig:
    """The config that `to_json` wrote; a `UserError` names what does not belong."""
    config: RunConfig = _from_plain(RunConfig, values, "")
    return config


def _from_plain(kind: Any, values: dict[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UserError(f"unknown setting {prefix}{unknown[0]} in config.json")
    arguments = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(hints[name]):
            value = _from_plain(hints[name], value, f"{prefix}{name}.")
        elif isinstance(value, list):
            value = tuple(value)
        elif value == "inf":
            value = math.inf
        arguments[name] = value
    return kind(**arguments)


def _replaced(node: Any, path: list[str], value: Any, whole: str) -> Any:
    name, *rest = path
    if not dataclasses.is_dataclass(node) or name not in {f.name for f in dataclasses.fields(node)}:
        raise UserError(f"unknown setting {whole}")
    inner = _replaced(getattr(node, name), rest, value, whole) if rest else value
    return dataclasses.replace(node, **{name: inner})  # type: ignore[type-var]
