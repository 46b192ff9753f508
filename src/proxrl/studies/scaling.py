"""Converts settings written for one suite to another, keeping their ratios to the preset.

The paper has only one suite. In another suite, a preset has its own target period and learning
rate; settings that a study varies are converted so that they mean the same *relative to the preset*
(suite `a` to suite `b`, U updates per sync, alpha the learning rate):

    target.period            x period_b / period_a, to whole updates   same share of the default
    target.tau               x U_a / U_b                               tau U is kept
    proximal.c               x (alpha_b U_b) / (alpha_a U_a)           kappa = (alpha/c) U is kept
    learner.learning_rate,
    learner.annealed_rate,
    learner.final_rate       x alpha_b / alpha_a                       same share of alpha

c is converted for the pull only: in value space it weights the loss and has no such ratio, and
inside the gradient Adam rescales it.
"""

from typing import Any

from proxrl.config.rules import PULLS
from proxrl.suites import presets, suite_named, suite_of


def carried_over(
    settings: dict[str, Any], agent: str, written_for: str, env: str
) -> dict[str, Any]:
    """`settings` of a preset, converted from the suite `written_for` to that of `env`."""
    if suite_of(env).name == written_for:
        return settings
    there = presets.make(agent, suite_named(written_for).base.env)
    here = presets.make(agent, env)
    updates = here.updates_per_sync / there.updates_per_sync
    rate = here.learner.learning_rate / there.learner.learning_rate
    factors = {
        "target.tau": 1 / updates,
        "learner.learning_rate": rate,
        "learner.annealed_rate": rate,
        "learner.final_rate": rate,
    }
    if settings.get("proximal.rule", here.proximal.rule) in PULLS:
        factors["proximal.c"] = rate * updates
    carried = {
        path: _plain(value * factors[path]) if path in factors else value
        for path, value in settings.items()
    }
    if "target.period" in settings:
        share = settings["target.period"] / there.target.period
        whole_updates = round(share * here.target.period / here.learner.update_period_steps)
        carried["target.period"] = whole_updates * here.learner.update_period_steps
    return carried


def _plain(number: float) -> float:
    """Remove rounding errors, so that 0.2 x 0.3125 is exactly 0.0625."""
    return float(f"{number:.12g}")
