"""Suites as data: which ids they match, their settings, and that loading them is cheap."""

import importlib
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from proxrl import presets, register_suite
from proxrl.config import differences, flatten, validated
from proxrl.errors import UserError
from proxrl.suites import ANY, BUILT_IN, Score, Suite, agents, registry, suite_named, suite_of
from proxrl.suites.any import COLUMNS, LARGE_IMAGE, SMALL_IMAGE, VECTOR
from proxrl.suites.atari import ATARI
from proxrl.suites.classic import CLASSIC
from proxrl.suites.minatar import MINATAR


@pytest.mark.parametrize(
    ("env", "suite", "game"),
    [
        ("ALE/Breakout-v5", ATARI, "Breakout"),
        ("ale_py:ALE/MsPacman-v5", ATARI, "MsPacman"),
        ("ALE/{game}-v5", ATARI, "{game}"),
        ("MinAtar/SpaceInvaders-v1", MINATAR, "SpaceInvaders"),
        ("CartPole-v1", CLASSIC, "CartPole-v1"),
        ("Acrobot-v1", CLASSIC, "Acrobot-v1"),
        ("MountainCar-v0", CLASSIC, "MountainCar-v0"),
        ("LunarLander-v3", CLASSIC, "LunarLander-v3"),
        ("LunarLanderContinuous-v3", ANY, "LunarLanderContinuous-v3"),
        ("my_lab:MyCartPole-v1", ANY, "MyCartPole-v1"),
        ("FrozenLake-v1", ANY, "FrozenLake-v1"),
    ],
)
def test_an_id_has_one_suite_and_a_game(env: str, suite: Suite, game: str) -> None:
    assert suite_of(env) is suite
    assert suite_of(env).game_of(env) == game


def test_suites_are_found_by_name_or_the_nearest_is_suggested() -> None:
    assert [suite_named(suite.name) for suite in (*BUILT_IN, ANY)] == [*BUILT_IN, ANY]
    with pytest.raises(UserError, match="unknown suite atary; did you mean atari"):
        suite_named("atary")


def test_suites_and_presets_import_no_environment_and_no_torch() -> None:
    code = "import sys, proxrl.suites.presets as p\n"
    code += "p.make('rainbow-pro', 'ALE/Pong-v5'), p.make('dqn', 'CartPole-v1')\n"
    heavy = ("torch", "gymnasium", "ale_py", "cv2", "minatar", "numpy")
    code += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


# Values of Atari's are in tests/test_config.py: the paper's Table 1.
PINNED: dict[str, dict[str, Any]] = {
    "MinAtar/Asterix-v1": {
        "steps": 1_000_000,
        "threads": 1,
        "protocol.stack": 1,
        "protocol.max_episode_steps": 5_000,
        "protocol.sticky_actions": 0.1,
        "protocol.clip_rewards": False,
        "network.kind": "minatar",
        "network.hidden": (128,),
        "replay.capacity": 100_000,
        "replay.warmup_steps": 1_000,
        "replay.batch_size": 32,
        "learner.discount": 0.99,
        "learner.loss": "huber",
        "learner.learning_rate": 2.5e-4,
        "learner.adam_epsilon": 3.125e-4,
        "learner.update_period_steps": 4,
        "target.period": 1_000,
        "exploration.final_epsilon": 0.01,
        "exploration.decay_steps": 100_000,
        "evaluation.period_steps": 10_000,
        "evaluation.episodes": 10,
        "checkpoint.period_steps": 10_000,
        "proximal.c": 0.25,
    },
    "CartPole-v1": {
        "steps": 60_000,
        "threads": 1,
        "protocol.max_episode_steps": None,
        "protocol.sticky_actions": 0.0,
        "network.kind": "auto",
        "network.hidden": (256, 256),
        "replay.capacity": 50_000,
        "replay.warmup_steps": 1_000,
        "replay.batch_size": 128,
        "learner.discount": 0.99,
        "learner.loss": "huber",
        "learner.learning_rate": 5e-4,
        "learner.adam_epsilon": 1e-8,
        "learner.update_period_steps": 2,
        "target.period": 256,
        "exploration.final_epsilon": 0.04,
        "exploration.decay_steps": 8_000,
        "evaluation.period_steps": 5_000,
        "evaluation.episodes": 10,
        "checkpoint.period_steps": 5_000,
        "proximal.c": 0.064,
    },
}
# agent -> env -> (learning rate, capacity, support, c)
RAINBOWS = {
    "ALE/Pong-v5": (6.25e-5, 1_000_000, (-10.0, 10.0), 0.05),
    "MinAtar/Asterix-v1": (2.5e-4, 100_000, (-20.0, 20.0), 0.25),
    "CartPole-v1": (5e-4, 50_000, (-100.0, 100.0), 0.0256),
}


@pytest.mark.parametrize("env", PINNED)
def test_values_that_results_were_measured_with(env: str) -> None:
    config = flatten(presets.make("dqn-pro", env))
    assert {name: config[name] for name in PINNED[env]} == PINNED[env]


@pytest.mark.parametrize("env", RAINBOWS)
@pytest.mark.parametrize("full", [False, True])
def test_rainbow_in_each_suite(env: str, full: bool) -> None:
    config = presets.make("rainbow-full-pro" if full else "rainbow-pro", env)
    support = config.head.v_min, config.head.v_max
    found = (config.learner.learning_rate, config.replay.capacity, support, config.proximal.c)
    assert found == RAINBOWS[env]
    assert (config.head.kind, config.replay.sampling) == ("categorical", "prioritised")
    assert config.replay.n_step == 3
    switches = (config.learner.double, config.network.dueling, config.network.noisy)
    assert switches == (full, full, full)
    assert (config.exploration.decay_steps == 0) is full


def test_games_and_their_scores() -> None:
    assert len(ATARI.games) == 55
    assert ATARI.scores["Alien"] == Score(227.8, 7127.7)
    assert set(MINATAR.scores) == set(MINATAR.games)
    assert len(MINATAR.games) == 5
    assert MINATAR.scores["Breakout"].random == 0.3930
    assert np.isnan(MINATAR.scores["Breakout"].human)


# ------------------------------------------------------------------------- any other environment


def observing(*shape: int, dtype: Any = np.uint8, high: float = 255) -> str:
    """The id of a new environment with this observation space."""

    class Observing(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(0, high, shape, dtype)
        action_space = spaces.Discrete(2)

    env = f"proxrl-tests/{'x'.join(map(str, shape))}-{np.dtype(dtype).name}-v0"
    if env not in gymnasium.registry:
        gymnasium.register(env, entry_point=Observing)
    return env


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (observing(8, dtype=np.float32, high=1.0), VECTOR),
        (observing(2, 9), VECTOR),
        (observing(3, 3), SMALL_IMAGE),
        (observing(35, 80, 3), SMALL_IMAGE),
        (observing(36, 36), LARGE_IMAGE),
        (observing(3, 96, 96), LARGE_IMAGE),  # channels first
        (observing(96, 96, 3, dtype=np.float32, high=1.0), LARGE_IMAGE),
        ("FrozenLake-v1", VECTOR),
    ],
)
def test_settings_follow_the_observation(env: str, settings: Suite) -> None:
    config = presets.make("dqn", env)
    assert config == settings.base.override({"env": env})
    assert presets.make_like(config) == config


def test_an_observation_that_cannot_be_flattened_is_one_line() -> None:
    """MiniGrid's environments observe a mission text in a custom space."""
    importlib.import_module("minigrid")
    with pytest.raises(UserError, match=r"DoorKey.* which cannot be flattened"):
        presets.make("dqn", "MiniGrid-DoorKey-5x5-v0")


def test_an_invalid_environment_is_a_one_line_error() -> None:
    for env, message in [
        ("CartPol-v1", "did you mean CartPole-v1"),
        ("Pendulum-v1", "discrete actions"),
        ("nowhere:Thing-v0", "cannot import nowhere"),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            presets.make("dqn", env)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suite", COLUMNS, ids=lambda suite: str(suite.title))
@pytest.mark.parametrize(("agent", "kappa"), [("dqn", 1.0), ("rainbow", 2.5)])
def test_the_pull_per_sync_is_the_papers(suite: Suite, agent: str, kappa: float) -> None:
    config = validated(presets.of_suite(suite, f"{agent}-pro", "FrozenLake-v1"))
    if suite is SMALL_IMAGE:
        kappa = 0.25  # as on MinAtar: docs/fidelity.md, 10
    assert config.pull_per_sync == pytest.approx(kappa)


def test_one_line_names_the_preset_and_the_changed_settings() -> None:
    plain = presets.make("dqn-pro", "CartPole-v1", seed=3, threads=2)
    assert presets.describe(plain) == "settings: dqn-pro for suite classic"
    assert presets.describe(plain.override({"agent": "mine"})) == ""
    env = observing(12, 12)
    changed = presets.make("dqn", env, {"replay.batch_size": 8}, steps=100)
    assert presets.describe(changed) == (
        f"settings: dqn for small images (observation 12 x 12; no suite matches {env}); "
        "changed: steps, replay.batch_size"
    )


# ---------------------------------------------------------------------------------- suites to add


def suite(**changes: Any) -> Suite:
    usual = {
        "name": "mine",
        "title": "Mine",
        "ids": "Mine-.*",
        "shown_ids": "Mine-*",
        "base": CLASSIC.base,
        "agents": {"dqn": {}},
    }
    return Suite(**{**usual, **changes})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "atari"}, "the name is taken by a built-in suite"),
        ({"name": "any"}, "the name is taken by a built-in suite"),
        ({"ids": "Mine-("}, "suite mine: invalid ids 'Mine-\\('"),
        ({"axis": "hours"}, "invalid axis 'hours': choose steps or frames"),
        ({"scale": "dog"}, "invalid scale 'dog'"),
        ({"agents": {}}, "no settings for the agent dqn"),
        ({"agents": {"dqn": {}, "ppo": {}}}, "unknown agent ppo"),
        ({"agents": {"dqn": {"replay.capcity": 1}}}, "dqn: unknown setting replay.capcity"),
        ({"agents": agents({}, dqn_c=0.0, rainbow_c=1.0)}, "dqn-pro: invalid proximal.c 0.0"),
    ],
)
def test_an_invalid_suite_is_rejected(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        register_suite(suite(**wrong))
    assert suite_of("Mine-v0") is ANY


def test_a_registered_suite_is_found_with_its_presets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    mine = suite(agents={"dqn": {"steps": 7}})
    register_suite(mine)
    assert suite_of("my_lab:Mine-v0") is mine
    assert suite_named("mine") is mine
    assert presets.make("dqn", "Mine-v0").steps == 7
    with pytest.raises(UserError, match="suite mine has no preset rainbow: choose from dqn"):
        presets.make("rainbow", "Mine-v0")
    assert suite_of("ALE/Pong-v5") is ATARI, "built-in suites come first"


@pytest.mark.parametrize("agent", ["dqn", "rainbow"])
@pytest.mark.parametrize("suite", BUILT_IN, ids=lambda suite: suite.name)
def test_the_adaptive_preset_differs_from_the_plain_one_in_its_rule_alone(
    suite: Suite, agent: str
) -> None:
    twin = f"{agent}-pro-adaptive"
    plain, adaptive = (
        validated(presets.of_suite(suite, name, suite.base.env)) for name in (agent, twin)
    )
    assert differences(plain, adaptive) == {
        "agent": (agent, twin),
        "proximal.rule": ("parameters", "adaptive"),
    }
