"""Presets: named configurations of the learner.

A preset is an agent in a suite (atari, minatar, classic, ...; docs/suites.md). Within a suite an
agent and its `-pro` version differ only in `proximal.c`, its `-pro-adaptive` version in
`proximal.rule`.
"""

from dataclasses import replace
from typing import Any

from proxrl.config import RunConfig, differences
from proxrl.errors import UserError, did_you_mean
from proxrl.plugins import imported
from proxrl.suites import any as other
from proxrl.suites.registry import ANY, suite_of
from proxrl.suites.suite import AGENTS, Suite

__all__ = ["AGENTS", "describe", "make", "make_like", "of_suite"]

_AGENTS = ", ".join(AGENTS)
MOST_NAMED = 4  # changed settings named in `describe`


def make(
    agent: str,
    env: Any,
    overrides: dict[str, Any] | None = None,
    *,
    env_kwargs: dict[str, Any] | None = None,
    **top: Any,
) -> RunConfig:
    """The preset of this agent for this environment.

    `env`: a Gymnasium id (`env_kwargs` are its keyword arguments), a function that makes the
    environment, or a `gymnasium.Env`. A run on a function of a notebook or on an object can be
    resumed only after the same call; see `proxrl.envs.given`. An environment without a suite is
    made once, to choose settings by its observation.

        make("dqn-pro", "CartPole-v1", {"proximal.c": 0.5}, seed=3)
    """
    require_agent(agent)
    if not isinstance(env, str) or env_kwargs:
        env = imported("proxrl.envs.given:name_of", "environment")(env, env_kwargs)
        other.observation_of.cache_clear()  # the same name may stand for something else now
    return of_suite(_settings_for(env), agent, env).override({**top, **(overrides or {})})


def make_like(config: RunConfig) -> RunConfig:
    """The preset that a config is based on, without making its environment: settings that depend
    on the observation are inferred from the network."""
    require_agent(config.agent)
    suite = suite_of(config.env)
    if suite is ANY:
        kinds = {one.base.network.kind: one for one in other.COLUMNS}
        suite = kinds.get(config.network.kind, suite)
    return of_suite(suite, config.agent, config.env)


def describe(config: RunConfig) -> str:
    """One line: the preset and the changed settings; empty if there is no preset."""
    suite = _settings_for(config.env)
    if config.agent not in suite.agents:
        return ""
    where = f"suite {suite.name}"
    if suite.name == ANY.name:
        shape = " x ".join(map(str, other.observation_of(config.env).shape))
        where = f"{suite.title} (observation {shape}; no suite matches {config.env})"
    preset = replace(of_suite(suite, config.agent, config.env), seed=config.seed)
    changed = [path for path in differences(preset, config) if path != "threads"]
    shown = ", ".join(changed) if len(changed) <= MOST_NAMED else f"{len(changed)} settings"
    return f"settings: {config.agent} for {where}" + (f"; changed: {shown}" if changed else "")


def require_agent(agent: str) -> None:
    """Raise a `UserError` if there is no such preset."""
    if agent not in AGENTS:
        meant = did_you_mean(str(agent).lower(), AGENTS)
        raise UserError(f"unknown preset {agent!r}{meant or f': choose from {_AGENTS}'}")


def _settings_for(env: str) -> Suite:
    suite = suite_of(env)
    return other.for_observation(other.observation_of(env)) if suite is ANY else suite


def of_suite(suite: Suite, agent: str, env: str) -> RunConfig:
    """The preset of an agent in a suite."""
    if agent not in suite.agents:
        raise UserError(
            f"suite {suite.name} has no preset {agent}: choose from {', '.join(suite.agents)}"
        )
    return replace(suite.base, agent=agent, env=env).override(dict(suite.agents[agent]))
