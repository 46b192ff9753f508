"""Validation of settings: each field alone, then in combination."""

import math

from proxrl.config.kinds import convert, kind_of, shown
from proxrl.config.options import check_options
from proxrl.config.plain import flatten
from proxrl.config.rules import BUILT_IN, PULLS, SET_KAPPA, WITHOUT_BATCH, RuleOptions
from proxrl.config.settings import RunConfig
from proxrl.errors import UserError

LARGEST = 2**62  # integer
LEAST_EPSILON = 1e-15  # of Adam: far above the square roots of moments that it flushes
MOST_UNITS = 2**20  # of a layer
Rules = list[tuple[str, bool, str]]  # (setting, is it invalid, requirement)


def validated(config: RunConfig) -> RunConfig:
    """Return the config with values converted; raise `UserError` for the first invalid setting."""
    for path, value in flatten(config).items():
        converted = convert(path, value, kind_of(path))
        if type(converted) is not type(value):  # list to tuple, int to float
            config = config.override({path: converted})
        if isinstance(value, int) and abs(value) > LARGEST and path != "seed":
            raise UserError(f"invalid {path} {shown(value)[:20]}...: must be at most 2^62")
    for name, options in vars(config.proximal).items():
        if isinstance(options, RuleOptions):
            check_options(options, f"proximal.{name}.")
    for rules in (_field_errors, _combination_errors):  # in this order
        for path, invalid, requirement in rules(config):
            if invalid:
                raise UserError(f"invalid {path} {flatten(config)[path]!s:.40}: {requirement}")
    return config


def _field_errors(config: RunConfig) -> Rules:
    """Values that are invalid on their own."""
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
    annealed, schedule, norm = lr.annealed_rate, lr.rate_schedule_steps, lr.max_gradient_norm
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
        *((path, value < 1, "must be at least 1") for path, value in steps),
        *((path, not value > 0, "must be positive") for path, value in rates),
        *((path, not 0 <= value <= 1, "must be in [0, 1]") for path, value in shares),
        (
            "logging.tensorboard_updates",
            c.logging.tensorboard_updates < 0,
            "must be at least 0",
        ),
        ("learner.learning_rate", math.isinf(lr.learning_rate), "must be finite"),
        (
            "learner.adam_epsilon",
            not LEAST_EPSILON <= lr.adam_epsilon < math.inf,
            f"must be finite and at least {LEAST_EPSILON:g}",
        ),
        (
            "learner.annealed_rate",
            annealed is not None and not 0 <= annealed < math.inf,
            "must be finite and non-negative",
        ),
        (
            "learner.final_rate",
            not 0 <= lr.final_rate < math.inf,
            "must be finite and non-negative",
        ),
        (
            "learner.max_gradient_norm",
            norm is not None and not 0 < norm < math.inf,
            "must be finite and positive",
        ),
        (
            "learner.rate_schedule_steps",
            schedule is not None and schedule < 1,
            "must be at least 1",
        ),
        ("head.atoms", c.head.atoms < 2, "must be at least 2"),
        ("replay.n_step", r.n_step > 256, "must be at most 256"),
        ("head.v_min", not math.isfinite(c.head.v_min), "must be finite"),
        ("head.v_max", not math.isfinite(c.head.v_max), "must be finite"),
        (
            "network.noisy_sigma",
            not 0 <= c.network.noisy_sigma < math.inf,
            "must be finite and non-negative",
        ),
        ("seed", not 0 <= c.seed < 2**63, "must be in [0, 2^63)"),
        ("threads", not 0 <= c.threads <= 1024, "must be 0 (one per core) or up to 1024"),
        ("protocol.frame_size", not 8 <= c.protocol.frame_size <= 210, "must be in [8, 210]"),
        ("protocol.stack", c.protocol.stack > 128, "must be at most 128"),
        ("evaluation.environments", c.evaluation.environments > 1_000, "must be at most 1000"),
        ("protocol.max_episode_steps", limit is not None and limit < 1, "must be at least 1"),
        ("exploration.decay_steps", c.exploration.decay_steps < 0, "must be non-negative"),
        ("evaluation.min_steps", c.evaluation.min_steps < 0, "must be non-negative"),
        ("evaluation.video", c.evaluation.video < 0, "must be non-negative"),
        ("target.tau", not 0 < t.tau <= 1, "must be in (0, 1]"),
        (
            "proximal.pull_per_sync",
            kappa is not None and not 0 <= kappa < math.inf,
            "must be finite and non-negative",
        ),
        (
            "network.hidden",
            any(not 1 <= units <= MOST_UNITS for units in c.network.hidden),
            f"must be in [1, {MOST_UNITS:,}] each",
        ),
    ]


def _combination_errors(config: RunConfig) -> Rules:
    """Values that are invalid in combination."""
    c, r, lr, t = config, config.replay, config.learner, config.target
    largest_rate = max(lr.learning_rate, lr.annealed_rate or 0.0)
    return [
        (
            "target.period",
            t.rule == "periodic" and not float(c.updates_per_sync).is_integer(),
            f"must be a multiple of learner.update_period_steps = {lr.update_period_steps}",
        ),
        (
            "replay.batch_size",
            r.batch_size > r.warmup_steps,
            f"must be at most replay.warmup_steps = {r.warmup_steps}",
        ),
        (
            "replay.warmup_steps",
            r.warmup_steps + r.n_step > r.capacity,
            f"plus replay.n_step must be at most replay.capacity = {r.capacity}",
        ),
        (
            "proximal.c" if c.proximal.pull_per_sync is None else "proximal.pull_per_sync",
            c.proximal.rule in PULLS and largest_rate / c.c > 1,
            f"lr/c must be at most 1, so c at least lr = {largest_rate:g}",
        ),
        (
            "proximal.c" if c.proximal.pull_per_sync is None else "proximal.pull_per_sync",
            c.proximal.rule in SET_KAPPA and c.c < math.inf,
            f"proximal.rule = {c.proximal.rule} sets kappa itself; leave c at inf, as in dqn",
        ),
        (
            "proximal.pull_per_sync",
            c.proximal.pull_per_sync is not None
            and c.proximal.rule in (*SET_KAPPA, "gradient", "values"),
            f"not supported by proximal.rule = {c.proximal.rule}; set proximal.c",
        ),
        (
            "proximal.options",
            bool(c.proximal.options) and c.proximal.rule in BUILT_IN,
            f"proximal.rule = {c.proximal.rule} is built in and has settings of its own",
        ),
        (
            "proximal.actions",
            c.proximal.actions == "all" and c.proximal.rule in WITHOUT_BATCH,
            f"not used by proximal.rule = {c.proximal.rule}",
        ),
        (
            "proximal.own_batch",
            c.proximal.own_batch and c.proximal.rule in WITHOUT_BATCH,
            f"not used by proximal.rule = {c.proximal.rule}",
        ),
        (
            "proximal.rule",
            c.proximal.rule == "accelerated" and t.rule == "polyak",
            "needs target.rule = periodic: the anchor is extrapolated at a sync",
        ),
        (
            "learner.annealed_rate",
            lr.annealed_rate is not None and t.rule == "polyak",
            "needs target.rule = periodic: the rate is annealed between syncs",
        ),
        (
            "learner.rate_schedule",
            lr.rate_schedule != "constant" and lr.annealed_rate is not None,
            "cannot be combined with learner.annealed_rate: choose one of them",
        ),
        (
            "learner.final_rate",
            lr.final_rate > 0 and lr.rate_schedule == "constant",
            "not used by learner.rate_schedule = constant; choose linear or cosine",
        ),
        (
            "learner.rate_schedule_steps",
            lr.rate_schedule_steps is not None and lr.rate_schedule == "constant",
            "not used by learner.rate_schedule = constant; choose linear or cosine",
        ),
        (
            "learner.final_rate",
            lr.final_rate > lr.learning_rate,
            f"must be at most learner.learning_rate = {lr.learning_rate:g}",
        ),
        (
            "head.v_min",
            c.head.v_min >= c.head.v_max,
            f"must be below head.v_max = {c.head.v_max:g}",
        ),
    ]
