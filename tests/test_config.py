"""Configs: presets, validation, JSON round trips."""

import json
import math
from typing import Any

import pytest

from proxrl import presets
from proxrl.config import differences, flatten, from_json, to_json, validated
from proxrl.errors import UserError
from proxrl.suites import BUILT_IN

BASE = presets.make("dqn-pro", "CartPole-v1")
RAINBOWS = ("rainbow", "rainbow-authors")


@pytest.mark.parametrize(
    ("agent", "env"),
    [(agent, suite.base.env) for suite in BUILT_IN for agent in suite.agents],
)
def test_presets_are_valid_and_survive_json(agent: str, env: str) -> None:
    config = validated(presets.make(agent, env))
    assert from_json(json.loads(json.dumps(to_json(config), allow_nan=False))) == config


def test_table_1_of_the_paper() -> None:
    """Claims C06 to C23 and C26, with the units of docs/fidelity.md."""
    config = flatten(presets.make("dqn-pro", "ALE/Breakout-v5"))
    table = {
        "replay.capacity": 200_000,
        "target.period": 8_000,
        "protocol.max_episode_steps": 27_000,
        "evaluation.period_steps": 10_000,
        "replay.batch_size": 64,
        "learner.update_period_steps": 4,
        "protocol.frame_skip": 4,
        "evaluation.episodes": 2,
        "replay.n_step": 1,
        "exploration.final_epsilon": 0.01,
        "evaluation.epsilon": 0.001,
        "exploration.decay_steps": 250_000,
        "replay.warmup_steps": 20_000,
        "learner.learning_rate": 1e-4,
        "learner.discount": 0.99,
        "steps": 30_000_000,
        "network.kind": "nature-same",
        "network.hidden": (512,),
        "network.initial_weights": "xavier",
        "protocol.sticky_actions": 0.25,
        "protocol.clip_rewards": True,
        "protocol.life_loss_terminal": False,
        "protocol.time_limit_terminal": False,
        "learner.loss": "squared",
        "proximal.c": 0.2,
    }
    assert {name: config[name] for name in table} == table


def test_rainbow_is_dopamines_with_the_papers_batch() -> None:
    """Claims C24, C25 and C27."""
    config = flatten(presets.make("rainbow-pro", "ALE/Breakout-v5"))
    table = {
        "head.kind": "categorical",
        "head.atoms": 51,
        "head.v_min": -10.0,
        "head.v_max": 10.0,
        "replay.sampling": "prioritised",
        "replay.priority_exponent": 0.5,
        "replay.importance_exponent": 0.5,
        "replay.n_step": 3,
        "replay.capacity": 1_000_000,
        "replay.warmup_steps": 20_000,
        "replay.batch_size": 64,
        "learner.learning_rate": 6.25e-5,
        "learner.adam_epsilon": 1.5e-4,
        "learner.double": False,
        "network.dueling": False,
        "network.noisy": False,
        "network.kind": "nature-same",
        "network.initial_weights": "fan_in",
        "protocol.clip_rewards": True,
        "target.period": 8_000,
        "exploration.final_epsilon": 0.01,
        "proximal.c": 0.05,
    }
    assert {name: config[name] for name in table} == table


def test_the_authors_configuration_is_that_of_their_code() -> None:
    """rainbow_our_first_paper.gin, and what the code fixes for both agents (docs/fidelity.md)."""
    rainbow = differences(*(presets.make(agent, "ALE/Pong-v5") for agent in RAINBOWS))
    code = {
        "protocol.time_limit_terminal": True,
        "evaluation.period_steps": 250_000,
        "evaluation.episodes": 1,
        "evaluation.min_steps": 125_000,
    }
    protocol = {"protocol.sticky_actions": 0.0, "protocol.life_loss_terminal": True}
    assert {name: its for name, (_, its) in rainbow.items()} == {
        **code,
        **protocol,
        "agent": "rainbow-authors",
    }
    dqn = differences(*(presets.make(agent, "ALE/Pong-v5") for agent in ("dqn", "dqn-authors")))
    assert {name: its for name, (_, its) in dqn.items()} == {
        **code,
        "learner.loss": "huber",
        "agent": "dqn-authors",
    }
    assert presets.make("rainbow-authors", "ALE/Pong-v5").steps == 120 * 250_000


@pytest.mark.parametrize("env", ["MinAtar/Asterix-v1", "CartPole-v1"])
def test_the_authors_configuration_is_rejected_elsewhere(env: str) -> None:
    with pytest.raises(UserError, match="has no preset dqn-authors: choose from dqn, dqn-pro"):
        presets.make("dqn-authors", env)


@pytest.mark.parametrize(
    ("agent", "kappa", "env"),
    [
        (agent, kappa, env)
        for agent, kappa in (("dqn", 1.0), ("rainbow", 2.5), ("rainbow-full", 2.5))
        for env in ("ALE/Pong-v5", "MinAtar/Asterix-v1", "CartPole-v1")
    ]
    + [("dqn-authors", 1.0, "ALE/Pong-v5"), ("rainbow-authors", 2.5, "ALE/Pong-v5")],
)
def test_an_agent_and_its_pro_differ_in_one_value(agent: str, kappa: float, env: str) -> None:
    plain, pro = presets.make(agent, env), presets.make(f"{agent}-pro", env)
    assert set(differences(plain, pro)) == {"agent", "proximal.c"}
    assert plain.c == math.inf
    assert plain.pull_per_sync == 0.0
    if env.startswith("MinAtar/"):
        kappa = 0.25  # docs/fidelity.md, 10
    assert pro.pull_per_sync == pytest.approx(kappa)


def test_c_can_be_given_as_pull_per_sync() -> None:
    config = presets.make("dqn", "ALE/Pong-v5", {"proximal.pull_per_sync": 1.0})
    assert config.c == pytest.approx(0.2)
    updates = config.override({"target.period_unit": "updates"})
    assert updates.updates_per_sync == 8000
    assert updates.c == pytest.approx(0.8)


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"replay.batch_size": 2000}, "at most replay.warmup_steps = 1000"),
    ({"learner.learning_rate": 0.0}, "must be positive"),
    ({"learner.learning_rate": -1e-3}, "must be positive"),
    ({"learner.learning_rate": math.nan}, "must be positive"),
    ({"learner.learning_rate": math.inf}, "must be finite"),
    ({"proximal.c": 0.0}, "must be positive"),
    ({"proximal.c": 1e-9}, "lr/c must be at most 1"),
    ({"proximal.pull_per_sync": -1.0}, "non-negative"),
    ({"learner.discount": 1.01}, r"in \[0, 1\]"),
    ({"learner.discount": -0.1}, r"in \[0, 1\]"),
    ({"steps": 0}, "at least 1"),
    ({"replay.capacity": 500}, "must be at most replay.capacity"),
    ({"target.tau": 0.0}, r"in \(0, 1\]"),
    ({"target.period": 257}, "multiple of learner.update_period_steps"),
    ({"evaluation.epsilon": 1.5}, r"in \[0, 1\]"),
    ({"evaluation.training_period_steps": 0}, "at least 1"),
    ({"evaluation.min_steps": -1}, "non-negative"),
    ({"network.initial_weights": "zeros"}, "must be torch or xavier or fan_in"),
    ({"learner.update_period_steps": 0}, "at least 1"),
    ({"seed": -1}, r"in \[0, 2"),
    ({"protocol.max_episode_steps": 0}, "at least 1"),
    ({"target.tau": 1.5}, r"in \(0, 1\]"),
    ({"head.v_min": 10.0}, r"below head\.v_max = 10"),
    ({"head.v_min": -math.inf}, "must be finite"),
    ({"head.atoms": 1}, "at least 2"),
    ({"replay.n_step": 0}, "at least 1"),
    ({"replay.priority_exponent": -0.5}, r"in \[0, 1\]"),
    ({"learner.annealed_rate": -1e-5}, "non-negative"),
    ({"learner.rate_schedule": "step"}, "must be constant or linear or cosine"),
    (
        {"learner.rate_schedule": "linear", "learner.annealed_rate": 1e-5},
        "cannot be combined with learner.annealed_rate",
    ),
    ({"learner.final_rate": 1e-5}, "not used by learner.rate_schedule = constant"),
    ({"learner.rate_schedule_steps": 100}, "not used by learner.rate_schedule = constant"),
    ({"learner.rate_schedule_steps": 0, "learner.rate_schedule": "cosine"}, "at least 1"),
    ({"learner.final_rate": -1.0, "learner.rate_schedule": "linear"}, "non-negative"),
    (
        {"learner.final_rate": 1.0, "learner.rate_schedule": "linear"},
        "at most learner.learning_rate",
    ),
    ({"learner.max_gradient_norm": 0.0}, "finite and positive"),
    ({"learner.max_gradient_norm": math.inf}, "finite and positive"),
    ({"protocol.frame_size": 7}, r"in \[8, 210\]"),
    ({"protocol.frame_size": 211}, r"in \[8, 210\]"),
    ({"evaluation.video": -1}, "non-negative"),
    ({"replay.n_step": 257}, "at most 256"),
    ({"proximal.actions": "all"}, "not used by proximal.rule = parameters"),
    ({"learner.annealed_rate": 1e-5, "target.rule": "polyak"}, r"needs target\.rule = periodic"),
    ({"proximal.c": -1.0, "proximal.rule": "values"}, "must be positive"),
    ({"proximal.pull_per_sync": 1.0, "proximal.rule": "values"}, r"set proximal\.c"),
    ({"proximal.own_batch": True}, "not used by proximal.rule = parameters"),
    ({"network.noisy_sigma": -1.0}, "non-negative"),
    ({"learner.loss": "cubic"}, "must be squared or huber"),
    ({"device": "tpu"}, "must be auto or cpu"),
    ({"steps": "100"}, "must be an integer"),
    ({"steps": True}, "must be an integer"),
    ({"proximal.c": "0.5"}, "must be a number"),
    ({"network.hidden": 64}, "must be a list, each item an integer"),
    ({"head": "categorical"}, "must be a group of settings"),
    ({"proximal.c": 10**400}, "must be a number"),
    ({"learner.annealed_rate": -(10**400)}, "must be a number"),
    ({"proximal.c": 10**5000}, "with a huge integer: must be a number"),
    ({"steps": 10**5000}, "must be at most 2"),
]


@pytest.mark.parametrize(("changes", "message"), INVALID)
def test_an_invalid_setting_is_named_with_its_value_and_the_requirement(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        validated(BASE.override(changes))
    assert next(iter(changes)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_equivalent_values_are_converted_to_the_type_of_the_setting() -> None:
    config = validated(BASE.override({"network.hidden": [64, 32], "proximal.c": 1}))
    assert config.network.hidden == (64, 32)
    assert isinstance(config.proximal.c, float)


def test_an_altered_config_is_rejected() -> None:
    with pytest.raises(UserError, match=r"invalid learner\.loss 'cubic': must be"):
        from_json({**to_json(BASE), "learner": {"loss": "cubic"}})
    with pytest.raises(UserError, match="learner holds 3, not settings"):
        from_json({**to_json(BASE), "learner": 3})
    with pytest.raises(UserError, match=r"config\.json holds \[\], not settings"):
        from_json([])  # type: ignore[arg-type]


def test_unknown_settings_are_rejected() -> None:
    with pytest.raises(UserError, match=r"unknown setting proximal\.d"):
        BASE.override({"proximal.d": 1})
    with pytest.raises(UserError, match="unknown setting surprise"):
        from_json({**to_json(BASE), "surprise": 1})
    with pytest.raises(UserError, match="unknown preset 'a2c'"):
        presets.make("a2c", "CartPole-v1")
