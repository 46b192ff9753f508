"""Which settings can work: alone, and with one another."""

import math

from proxrl.config.kinds import convert, kind_of
from proxrl.config.options import check_options
from proxrl.config.plain import flatten
from proxrl.config.rules import BUILT_IN, SET_KAPPA, WITHOUT_BATCH
from proxrl.config.settings import RunConfig
from proxrl.errors import UserError

Rules = list[tuple[str, bool, str]]  # (setting, is it wrong, what would be right)


def validated(config: RunConfig) -> RunConfig:
    """The same, or a `UserError` that names the first setting that cannot work."""
    for path, value in flatten(config).items():
        meant = convert(path, value, kind_of(path))
        if type(meant) is not type(value):  # a list for a tuple, a whole number for a float
            config = config.override({path: meant})
    check_options(config.proximal.adaptive, "proximal.adaptive.")
    check_options(config.proximal.scheduled, "proximal.scheduled.")
    for rules in (_impossible_alone, _impossible_together):  # in this order: alone first
        for path, wrong, right in rules(config):
            if wrong:
                raise UserError(f"{path} = {flatten(config)[path]} cannot be: {right}")
    return config


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
        ("evaluation.training_period_steps", c.evaluation.training_period_steps),
        ("evaluation.environments", c.evaluation.environments),
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
        ("evaluation.min_steps", c.evaluation.min_steps < 0, "it must not be negative"),
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
            "proximal.c" if c.proximal.pull_per_sync is None else "proximal.pull_per_sync",
            c.proximal.rule in SET_KAPPA and c.c < math.inf,
            f"proximal.rule = {c.proximal.rule} sets kappa itself; leave c at inf, as in dqn",
        ),
        (
            "proximal.pull_per_sync",
            c.proximal.pull_per_sync is not None and c.proximal.rule != "parameters",
            f"with proximal.rule = {c.proximal.rule} there is no such pull, say proximal.c",
        ),
        (
            "proximal.options",
            bool(c.proximal.options) and c.proximal.rule in BUILT_IN,
            f"proximal.rule = {c.proximal.rule} is built in and has settings of its own",
        ),
        (
            "proximal.actions",
            c.proximal.actions == "all" and c.proximal.rule in WITHOUT_BATCH,
            f"proximal.rule = {c.proximal.rule} looks at no actions",
        ),
        (
            "proximal.own_batch",
            c.proximal.own_batch and c.proximal.rule in WITHOUT_BATCH,
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
