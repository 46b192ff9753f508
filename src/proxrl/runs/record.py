"""A run as read from its folder: config, status, curves and errors.

Only config.json, metrics.jsonl, failure.txt and the lock are read. An incomplete last line is
ignored; any other damage makes the run `corrupt`, with a note that names the line. That includes
returns from which no score can be computed, because they or their squares are not finite, and
steps, seeds and periods of training that no run can have.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from proxrl.config import RunConfig, flatten, from_json
from proxrl.config.validity import LARGEST
from proxrl.errors import printable
from proxrl.files import read_bytes
from proxrl.runs.folder import CONFIG, METRICS, RunFolder
from proxrl.runs.status import Status, status_of
from proxrl.types import Array

LARGEST_VALUE = 1e50  # rewards are at most 3.4e38; fourth powers and their sums stay finite
CURVES = ("eval_return", "sync_distance", "value_distance", "parameter_distance")
RULE = "rule/"  # what the names of a proximal rule's own metrics begin with
MOST_RULE_METRICS = 64  # in a file; the rest is ignored


_Step = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _Line(msgspec.Struct, gc=False):
    """The fields that are read from a line of metrics.jsonl; the rest must be valid JSON."""

    step: _Step
    eval_return: float = msgspec.field(name="eval/mean_return")
    returns: Annotated[list[float], msgspec.Meta(min_length=1)] = msgspec.field(name="eval/returns")
    protocol: msgspec.Raw
    sync_distance: float | None = msgspec.field(name="train/sync_distance", default=None)
    value_distance: float | None = msgspec.field(name="train/value_distance", default=None)
    parameter_distance: float | None = msgspec.field(name="train/parameter_distance", default=None)
    periods: list[tuple[_Step, float | None, _Count]] = msgspec.field(
        name="train/period_returns", default=[]
    )


_LINES = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, eq=False)
class Run:
    """One run as recorded in its folder. Arrays have one value per evaluation interval; NaN: not
    measured."""

    path: str  # relative to the folder that was read
    status: Status
    note: str = ""  # why it failed or cannot be read
    config: RunConfig | None = None
    steps: Array = field(default_factory=lambda: np.empty(0, np.int64))
    episodes: Array = field(default_factory=lambda: np.empty(0, np.int64))  # per evaluation
    curves: dict[str, Array] = field(default_factory=dict)  # CURVES and rule/* -> [evaluations]
    protocols: tuple[tuple[int, dict[str, Any]], ...] = ()  # first step of each recorded one
    training: Array = field(default_factory=lambda: np.empty((0, 2)))  # last step, mean return
    known: dict[str, Any] | None = (
        None  # a log of another library: all that is known of its protocol
    )

    @property
    def last_return(self) -> float | None:
        """Mean return of the last evaluation."""
        return float(self.curves["eval_return"][-1]) if len(self.steps) else None

    @property
    def usable(self) -> bool:
        return self.status not in ("corrupt", "duplicate", "mixed") and len(self.steps) > 0

    @property
    def asked(self) -> RunConfig:
        """The config of a run that could be read."""
        assert self.config is not None
        return self.config


class Corrupt(Exception):
    """The run cannot be read."""


def read_run(path: Path, root: Path) -> Run:
    """Read one run folder; damage is a status, not an exception."""
    name = printable(str(path.relative_to(root)) if path != root else path.resolve().name)
    config: RunConfig | None = None
    place = RunFolder(path)
    try:
        config = _config(path)
        lines, of_the_rule = _lines(path / METRICS)
        _check_lines(lines, config)
        protocols = _protocols(lines)
        status = status_of(place, config, lines[-1].step if lines else 0)
    except (Corrupt, OSError) as damage:
        return Run(name, "corrupt", printable(str(damage)), config)
    note = _first_line(place.failure) if status == "failed" else ""
    if not lines:
        note = note or "no evaluation yet"
    return Run(
        name,
        status,
        note,
        config,
        np.array([line.step for line in lines], np.int64),
        np.array([len(line.returns) for line in lines], np.int64),
        {curve: _column(lines, curve) for curve in CURVES} | of_the_rule,
        protocols,
        _training(lines),
    )


def run_folders(root: Path) -> Iterator[Path]:
    """Run folders below `root`, sorted; folders inside a run are not searched."""
    for folder, below, files in os.walk(root):
        below.sort()
        path = Path(folder)
        if CONFIG in files and (METRICS in files or _says_agent(path / CONFIG)):
            below.clear()
            yield path


# ----------------------------------------------------------------------------------------- details


def _says_agent(path: Path) -> bool:
    """Whether this config.json belongs to a run, not to another program."""
    try:
        content = json.loads(read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and {"agent", "env"} <= content.keys()


def _config(path: Path) -> RunConfig:
    try:
        content = json.loads(read_bytes(path / CONFIG))
        if not isinstance(content, dict):
            raise Corrupt(f"{CONFIG} is not an object")
        return _checked(from_json(content))
    except OSError as error:
        raise Corrupt(f"{CONFIG}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Corrupt(f"{CONFIG} cannot be read: {error}") from None


def _checked(config: RunConfig) -> RunConfig:
    """The config, if its counts are valid divisors and its numbers can be drawn."""
    counts = {
        "steps": config.steps,
        "evaluation.period_steps": config.evaluation.period_steps,
        "protocol.frame_skip": config.protocol.frame_skip,
    }
    for name, count in counts.items():
        if not 1 <= count <= LARGEST:
            raise Corrupt(f"{CONFIG}: invalid {name} = {count!s:.40}: must be in [1, 2^62]")
    if config.steps * config.protocol.frame_skip > LARGEST:
        raise Corrupt(f"{CONFIG}: invalid steps {config.steps}: more than 2^62 frames")
    for name, value in flatten(config).items():
        if isinstance(value, int) and abs(value) > LARGEST and name != "seed":
            raise Corrupt(f"{CONFIG}: invalid {name}: must be at most 2^62")
    if not 0 <= config.seed < 2**63:
        raise Corrupt(f"{CONFIG}: invalid seed: must be in [0, 2^63)")
    if math.isnan(config.pull_per_sync):  # also raises if it cannot be computed
        raise Corrupt(f"{CONFIG}: the pull per sync is not a number")
    return config


def _lines(path: Path) -> tuple[list[_Line], dict[str, Array]]:
    """The lines of metrics.jsonl, and the metrics of the proximal rule by name."""
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return [], {}
    except OSError as error:
        raise Corrupt(f"{METRICS}: {error.strerror}") from None
    whole = content[: content.rfind(b"\n") + 1]
    try:
        lines = _LINES.decode_lines(whole)
    except (msgspec.DecodeError, RecursionError):
        texts = enumerate(whole.splitlines(), start=1)
        lines = [_one_line(text, at) for at, text in texts if text.strip()]
    return lines, _rule_metrics(whole)


def _check_lines(lines: list[_Line], config: RunConfig) -> None:
    """Raise `Corrupt` for the first line that no run writes."""
    before = period = 0
    for at, line in enumerate(lines, start=1):
        if line.step <= before:
            raise Corrupt(f"{METRICS} line {at}: steps do not increase")
        if not before and line.step > config.steps:
            raise Corrupt(
                f"{METRICS} line {at}: step {line.step:,} of a run of {config.steps:,} steps"
            )
        means = (mean for _, mean, _ in line.periods if mean is not None)
        if wrong := problem_of((line.eval_return, *line.returns, *means)):
            raise Corrupt(f"{METRICS} line {at}: {wrong}")
        for end, _, _ in line.periods:
            if not period <= end <= line.step:  # earlier versions may have recorded one twice
                raise Corrupt(f"{METRICS} line {at}: a period of training that ends at step {end}")
            period = end
        before = line.step


def problem_of(returns: Iterable[float]) -> str:
    """What is wrong with a return from which no score can be computed; "" if there is none."""
    wrong = [one for one in returns if not -LARGEST_VALUE <= one <= LARGEST_VALUE]
    if not wrong:
        return ""
    if not all(map(math.isfinite, wrong)):
        return "a return that is not finite"
    return f"a return of {wrong[0]:.2g}: must be in [-{LARGEST_VALUE:g}, {LARGEST_VALUE:g}]"


def _one_line(text: bytes, at: int) -> _Line:
    """The slow path, for NaN (which msgspec rejects) and for error messages."""
    try:
        content = json.loads(text)
        return msgspec.convert(
            {**content, "protocol": msgspec.Raw(msgspec.json.encode(content["protocol"]))}, _Line
        )
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        what = "not valid JSON"
        if isinstance(error, KeyError):
            what = f"missing field {error.args[0]}"
        elif isinstance(error, msgspec.ValidationError):
            what = str(error)
        raise Corrupt(f"{METRICS} line {at}: {what}") from None


def _rule_metrics(content: bytes) -> dict[str, Array]:
    """rule/* of each line, [lines]; NaN where a line does not have it."""
    if b'"rule/' not in content:
        return {}
    texts = [text for text in content.split(b"\n") if text.strip()]
    found: dict[str, Array] = {}
    for at, text in enumerate(texts):
        try:
            of_the_rule = {k: v for k, v in json.loads(text).items() if k.startswith(RULE)}
            for name, value in of_the_rule.items():
                if name not in found and len(found) < MOST_RULE_METRICS:
                    found[name] = np.full(len(texts), np.nan)
                if name in found and value is not None:
                    found[name][at] = _measured(float(value))
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise Corrupt(f"{METRICS} line {at + 1}: a rule's metric is not a number") from None
    return found


def _column(lines: list[_Line], name: str) -> Array:
    return np.array([_measured(getattr(line, name)) for line in lines], np.float64)


def _measured(value: float | None) -> float:
    """NaN for what was not measured, or has no finite mean over runs."""
    return math.nan if value is None or abs(value) > LARGEST_VALUE else value


def _training(lines: list[_Line]) -> Array:
    """Last step and mean return of each period of training, [periods, 2]."""
    periods = [
        (step, math.nan if mean is None else mean)
        for line in lines
        for step, mean, _ in line.periods
    ]
    return np.array(periods, np.float64).reshape(-1, 2)


def _protocols(lines: list[_Line]) -> tuple[tuple[int, dict[str, Any]], ...]:
    """Each recorded protocol, with its first step."""
    first: dict[bytes, tuple[int, int]] = {}
    for at, line in enumerate(lines, start=1):
        first.setdefault(bytes(line.protocol), (at, line.step))
    return tuple((step, _protocol(text, at)) for text, (at, step) in first.items())


def _protocol(text: bytes, at: int) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Corrupt(f"{METRICS} line {at}: protocol: not valid JSON") from None
    if not isinstance(found, dict) or any(isinstance(v, dict | list) for v in found.values()):
        raise Corrupt(f"{METRICS} line {at}: protocol is not an object of plain values")
    return found


def _first_line(path: Path) -> str:
    try:
        return printable((read_bytes(path).decode(errors="replace").splitlines() or [""])[0])
    except OSError as error:
        return f"{path.name}: {error.strerror}"
