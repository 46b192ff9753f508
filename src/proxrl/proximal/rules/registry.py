"""Rules by name: built in, registered, or `module:Rule`."""

from collections.abc import Callable

from proxrl.config import RuleOptions, RunConfig
from proxrl.errors import UserError
from proxrl.plugins import imported, unknown
from proxrl.proximal.rules.accelerated import Accelerated
from proxrl.proximal.rules.adaptive import Adaptive
from proxrl.proximal.rules.adaptive_layers import AdaptiveLayers
from proxrl.proximal.rules.base import Rule
from proxrl.proximal.rules.gradient import Gradient
from proxrl.proximal.rules.metric import Metric
from proxrl.proximal.rules.parameters import Parameters
from proxrl.proximal.rules.scheduled import Scheduled
from proxrl.proximal.rules.values import Values

_rules: dict[str, Callable[[RunConfig], Rule]] = {
    "parameters": Parameters,
    "gradient": Gradient,
    "values": Values,
    "adaptive": Adaptive,
    "adaptive-layers": AdaptiveLayers,
    "scheduled": Scheduled,
    "accelerated": Accelerated,
    "metric": Metric,
}


def register_rule(name: str, rule: Callable[[RunConfig], Rule]) -> None:
    """Make `rule(config) -> Rule` known as `proximal.rule`."""
    _rules[name] = rule


def make_rule(config: RunConfig) -> Rule:
    """The configured rule."""
    name = config.proximal.rule
    if name in _rules:
        return _rules[name](config)
    if ":" in name:
        return rule_kind(name)(config)
    raise unknown("proximal.rule", name, _rules)


def rule_kind(name: str) -> type[Rule]:
    """The class that `module:Rule` names."""
    kind = imported(name, "proximal.rule")
    if not (isinstance(kind, type) and issubclass(kind, Rule)):
        raise UserError(f"proximal.rule {name} is not a subclass of proxrl.proximal.rules.Rule")
    if not issubclass(kind.Options, RuleOptions):
        raise UserError(f"{name}.Options is not a subclass of proxrl.config.RuleOptions")
    return kind
