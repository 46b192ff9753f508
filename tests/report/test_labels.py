"""Names of series, for the built-in studies as they are run on MinAtar."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from proxrl.report.labels import labels
from proxrl.report.series import group
from proxrl.studies.definition import load
from proxrl.studies.expand import expand

NAMES = {
    "rules": {
        "dqn": "DQN",
        "dqn-pro-kappa-0.25": "DQN Pro (κ 0.25)",
        "dqn-pro-kappa-0.5": "DQN Pro (κ 0.5)",
        "dqn-pro-kappa-1": "DQN Pro (κ 1)",
        "dqn-scheduled": "DQN (scheduled)",
        "dqn-pro-adaptive": "DQN Pro adaptive",
        "dqn-pro-adaptive-layers": "DQN Pro adaptive (per layer)",
        "dqn-pro-accelerated": "DQN Pro (accelerated, κ 1)",
        "dqn-pro-metric": "DQN Pro (metric, κ 1)",
        "dqn-alpha-0.5": "DQN (α × 0.5)",
        "dqn-alpha-0.65": "DQN (α × 0.65)",
        "dqn-alpha-0.8": "DQN (α × 0.8)",
    },
    "value-space": {
        "dqn": "DQN",
        "dqn-values": "DQN (in value space, c 1)",
        "dqn-values-all-actions": "DQN (in value space, all actions, c 1)",
        "dqn-values-own-batch": "DQN (in value space, own batch, c 1)",
        "dqn-pro": "DQN Pro",
    },
    "anneal": {
        "dqn": "DQN",
        "dqn-anneal-tenth": "DQN (annealed to α × 0.1)",
        "dqn-anneal-hundredth": "DQN (annealed to α × 0.01)",
        "dqn-pro": "DQN Pro",
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_series_of_a_study_are_named_by_what_distinguishes_them(name: str) -> None:
    study = load(name)
    jobs = expand(study, study.scales["session"], Path("runs"))
    variants = {job.variant: job.config for job in jobs}
    runs = [SimpleNamespace(asked=job.config, variant=job.variant) for job in jobs]
    groups = group(runs, [variants[one] for one in study.headline])  # type: ignore[arg-type]
    named = {run.variant: series.name for series, own in groups.items() for run in own}  # type: ignore[attr-defined]
    assert named == NAMES[name]


def test_switches_options_and_agents_without_a_preset() -> None:
    preset = {"learner.double": False, "network.noisy": True, "proximal.rule": "parameters"}
    varied = ("learner.double", "network.noisy", "proximal.rule", "proximal.options")
    values = (True, False, "fading:Fading", ("half_life=20",))
    settings = dict(zip(varied, values, strict=True))
    assert labels(varied, settings, preset) == "double, no noisy, fading:Fading, half_life=20"
    assert labels(varied, preset, preset) == ""
    assert labels(["learner.learning_rate"], {"learner.learning_rate": 2.5e-4}, {}) == "α 0.00025"
