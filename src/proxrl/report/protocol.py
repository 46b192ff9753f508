"""Scores are comparable only under one protocol: runs with different protocols are in different
sections of a report (sections.py), and a statistic over several of them raises an error.

The protocol is how the game is presented, how it is scored, and how long an agent trains. The
settings of the agent (network, replay, learner, target, pull, exploration) define series instead.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proxrl.config import RunConfig, flatten
from proxrl.errors import UserError
from proxrl.runs.record import Run
from proxrl.suites import suite_of

PREFIXES = ("protocol.", "evaluation.")
NO_SCORE = ("evaluation.training_period_steps", "evaluation.video")  # do not affect scores
# what a line of metrics.jsonl records -> the setting it is about
RECORDED = {
    "epsilon": "evaluation.epsilon",
    "episodes": "evaluation.episodes",
    "min_steps": "evaluation.min_steps",
    "sticky_actions": "protocol.sticky_actions",
    "frame_skip": "protocol.frame_skip",
    "stack": "protocol.stack",
    "frame_size": "protocol.frame_size",
    "grayscale": "protocol.grayscale",
    "max_episode_steps": "protocol.max_episode_steps",
    "trained_with_life_loss_terminal": "protocol.life_loss_terminal",
    "trained_with_time_limit_terminal": "protocol.time_limit_terminal",
    "returns": "returns",
}


def cut(run: Run, steps: int) -> Run:
    """The run as it was after `steps`: finished if it got that far."""
    if not run.usable:
        return run
    keep = run.steps <= steps
    reached = run.steps[-1] >= steps
    return replace(
        run,
        status="finished" if reached else "stopped" if run.status == "finished" else run.status,
        config=replace(run.asked, steps=steps),
        known=None if run.known is None else {**run.known, "steps": min(run.known["steps"], steps)},
        steps=run.steps[keep],
        episodes=run.episodes[keep],
        curves={name: values[keep] for name, values in run.curves.items()},
        protocols=tuple(item for item in run.protocols if item[0] <= steps),
        training=run.training[run.training[:, 0] <= steps],
    )


def common_protocol(runs: Sequence[Run]) -> dict[str, Any]:
    """The settings that all runs share; raises `UserError` naming those that differ."""
    seen: dict[str, dict[Any, str]] = {}  # setting -> value -> a run that has it
    for run in runs:
        for setting, value in _settings(run):
            seen.setdefault(setting, {}).setdefault(value, run.path)
    several = {setting: values for setting, values in seen.items() if len(values) > 1}
    if several:
        parts = [
            f"{setting} ({', '.join(f'{_format(v)} in {path}' for v, path in values.items())})"
            for setting, values in several.items()
        ]
        raise UserError(
            "runs with different protocols cannot be in one report: "
            + "; ".join(parts)
            + _advice(runs, several)
        )
    return {setting: next(iter(values)) for setting, values in seen.items()}


def protocol_of(run: Run) -> dict[str, Any]:
    """The protocol of one run; raises `UserError` if it changed while the run was trained."""
    return common_protocol([run])


def place_of(env: str) -> str:
    """What shares a section: the games of a suite with a scale, in one version (ALE/*-v5), or a
    single environment."""
    suite = suite_of(env)
    return env if suite.scale == "raw" else env.replace(suite.game_of(env), "*")


def _settings(run: Run) -> list[tuple[str, Any]]:
    if run.known is not None:
        return list(run.known.items())
    recorded = [
        (setting, line[name])
        for _, line in run.protocols
        for name, setting in RECORDED.items()
        if name in line
    ]
    return [*asked_of(run.asked), *recorded]


def asked_of(config: RunConfig) -> list[tuple[str, Any]]:
    """The part of the protocol that is in a config."""
    asked = [
        (name, value)
        for name, value in flatten(config).items()
        if name.startswith(PREFIXES) and name not in NO_SCORE
    ]
    return [("suite", _suite_name(config.env)), ("steps", config.steps), *asked]


def _suite_name(env: str) -> str:
    """The suite if it determines the scale or the axis; all others can be in one report."""
    suite = suite_of(env)
    return suite.name if suite.scale != "raw" or suite.axis != "steps" else "unscaled"


def _advice(runs: Sequence[Run], several: dict[str, dict[Any, str]]) -> str:
    if set(several) == {"steps"}:
        return f"; to compare them at a common budget, add --steps {min(several['steps'])}"
    return "; put them into separate folders"


def _format(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "∞" if value == math.inf else str(value)
