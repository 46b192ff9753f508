"""Names of series: "DQN Pro (accelerated, κ 1)", "DQN (α × 0.5)", "DQN (Polyak, τ 0.05)"."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SHORT = {
    "c": "c",
    "kappa": "κ",
    "target.period": "period",
    "target.tau": "τ",
    "target.period_unit": "period in",
    "learner.rate_schedule_steps": "over steps",
    "replay.batch_size": "batch",
    "replay.n_step": "n",
    "learner.discount": "γ",
    "network.kind": "network",
    "head.kind": "head",
    "proximal.adaptive.kappa_min": "κ at least",
    "proximal.adaptive.kappa_max": "κ at most",
    "proximal.scheduled.first": "κ from",
    "proximal.scheduled.last": "κ to",
    "proximal.scheduled.steps": "κ over steps",
}
RATES = {
    "learner.learning_rate": "α",
    "learner.annealed_rate": "annealed to α",
    "learner.final_rate": "final α",
}
RULES = {
    "gradient": "in the gradient",
    "values": "in value space",
    "adaptive-layers": "per layer",
}
WORDS: dict[str, Callable[[Any], str]] = {
    "proximal.rule": lambda rule: RULES.get(rule, rule),
    "learner.rate_schedule": lambda schedule: f"{schedule} α",
    "proximal.actions": lambda actions: f"{actions} actions",
    "proximal.options": " ".join,
}


METRIC_LABELS = {
    "sync_distance": "size of the target updates",
    "value_distance": "|Q online − Q target|",
    "parameter_distance": "distance ‖w − θ‖",
    "rule/kappa": "κ, pull per sync",
    "rule/signal": "ρ, share of signal in the gradient",
    "rule/momentum": "momentum of the anchor",
    "rule/rejected": "share of extrapolations rejected",
    "rule/evenness": "evenness of the pull over the weights",
}


def metric_label(name: str) -> str:
    """What a curve shows; metrics of a user's own rule by their own names."""
    if name.startswith("rule/kappa/"):
        return f"κ of {name.removeprefix('rule/kappa/')}"
    return METRIC_LABELS.get(name) or f"{name.removeprefix('rule/').replace('_', ' ')} (rule)"


def labels(varied: Sequence[str], settings: Mapping[str, Any], preset: Mapping[str, Any]) -> str:
    """What distinguishes a series, in words; `preset`: the settings of its agent's preset."""
    found = (_label(name, settings, varied, preset) for name in varied)
    return ", ".join(label for label in found if label)


def _label(
    name: str, settings: Mapping[str, Any], varied: Sequence[str], preset: Mapping[str, Any]
) -> str:
    """Empty if it goes without saying: a switch, a rule or a rate of the preset; no pull."""
    value, usual = settings.get(name), preset.get(name)
    short = SHORT.get(name, name.rpartition(".")[2].replace("_", " "))
    if value is None or (name == "c" and value == math.inf):
        return ""
    if value == usual and (isinstance(value, bool) or name in RATES or name in WORDS):
        return ""
    if isinstance(value, bool):
        return short if value else f"no {short}"
    if name == "target.rule":
        implied = value != "polyak" and "target.period" in varied  # by the period
        return "" if implied else {"polyak": "Polyak"}.get(value, value)
    if name in WORDS:
        return WORDS[name](value)
    alpha = preset.get("learner.learning_rate")
    if name in RATES and alpha:
        return f"{RATES[name]} × {value / alpha:.4g}"
    return f"{RATES.get(name, short)} {shown(value)}"


def shown(value: Any) -> str:
    """A setting's value for display; empty if the series does not have it."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, tuple):
        return "×".join(map(str, value))
    if value == math.inf:
        return "∞"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
