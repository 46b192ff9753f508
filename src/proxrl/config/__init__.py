"""The complete configuration of a run: settings, validation and serialization."""

from proxrl.config.plain import differences, flatten, from_json, to_json
from proxrl.config.rules import (
    AcceleratedOptions,
    AdaptiveOptions,
    MetricOptions,
    RuleOptions,
    ScheduledOptions,
)
from proxrl.config.settings import (
    CheckpointConfig,
    EvaluationConfig,
    ExplorationConfig,
    HeadConfig,
    LearnerConfig,
    LoggingConfig,
    NetworkConfig,
    ProtocolConfig,
    ProximalConfig,
    ReplayConfig,
    RunConfig,
    TargetConfig,
)
from proxrl.config.validity import validated

__all__ = [
    "AcceleratedOptions",
    "AdaptiveOptions",
    "CheckpointConfig",
    "EvaluationConfig",
    "ExplorationConfig",
    "HeadConfig",
    "LearnerConfig",
    "LoggingConfig",
    "MetricOptions",
    "NetworkConfig",
    "ProtocolConfig",
    "ProximalConfig",
    "ReplayConfig",
    "RuleOptions",
    "RunConfig",
    "ScheduledOptions",
    "TargetConfig",
    "differences",
    "flatten",
    "from_json",
    "to_json",
    "validated",
]
