"""What keeps the online weights w near the target's theta: the paper's pull and its alternatives.

| rule            | what an update does                                  | place in the paper      |
|-----------------|------------------------------------------------------|-------------------------|
| parameters      | w <- w + (alpha/c)(theta - w), apart from Adam       | Algorithm 1, line 11    |
| gradient        | grad h + (w - theta)/c, rescaled by Adam             | equation 6 as a loss    |
| values          | h + (1/c) mean (Q(s, a; w) - Q(s, a; theta))^2       | appendix, "value space" |
| adaptive        | the pull, kappa from the gradient's signal and noise | future work (Figure 11) |
| adaptive-layers | the same for each parameter tensor                   | not in the paper        |
| scheduled       | the pull, kappa linear in time                       | not in the paper        |
| accelerated     | the pull towards an extrapolated anchor              | future work, conclusion |
| metric          | w <- w + (alpha/c) D (theta - w), D from Adam's v    | Section 3, Mahalanobis  |

A rule is a class that acts where it needs to: on the loss, on the gradient, on the weights, at a
sync. It has options, metrics, state and a generator of its own (docs/rules.md). To add one,
register it or pass `--proximal.rule module:Rule`.
"""

from proxrl.proximal.rules.accelerated import Accelerated
from proxrl.proximal.rules.adaptive import Adaptive
from proxrl.proximal.rules.adaptive_layers import AdaptiveLayers
from proxrl.proximal.rules.base import Moments, Rule
from proxrl.proximal.rules.gradient import Gradient
from proxrl.proximal.rules.metric import Metric
from proxrl.proximal.rules.parameters import Parameters
from proxrl.proximal.rules.registry import make_rule, register_rule, rule_kind
from proxrl.proximal.rules.scheduled import Scheduled
from proxrl.proximal.rules.values import Values

__all__ = [
    "Accelerated",
    "Adaptive",
    "AdaptiveLayers",
    "Gradient",
    "Metric",
    "Moments",
    "Parameters",
    "Rule",
    "Scheduled",
    "Values",
    "make_rule",
    "register_rule",
    "rule_kind",
]
