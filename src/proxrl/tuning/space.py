"""What a search varies: settings with a range or a list of values, parsed from `--search`.

    kappa                                     the pull per sync, 0.03..10 on a log scale
    learner.learning_rate=1e-5..1e-3:log      a range on a log scale
    target.period=200..2000/200               a range in steps of 200
    network.dueling=true,false                a list of values

kappa = (alpha/c) x updates per sync is the one number of the method that transfers between
environments; c follows from it.
"""

import itertools
import math
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxrl.config import RunConfig, flatten
from proxrl.config.kinds import convert, kind_of
from proxrl.errors import UserError, did_you_mean

if TYPE_CHECKING:
    import optuna

KAPPA = "proximal.pull_per_sync"
ALIASES = {"kappa": KAPPA, "c": "proximal.c"}
DEFAULT_RANGES = {KAPPA: "0.03..10:log"}
FIXED = ("agent", "env", "seed", "steps")  # a trial is compared with others at equal steps
DIGITS = 4  # significant ones of a number: what is printed is what was run
SYNTAX = "NAME=LOW..HIGH, LOW..HIGH:log, LOW..HIGH/STEP or NAME=A,B,C"


@dataclass(frozen=True)
class Parameter:
    """One setting that is searched: a range, or values to choose from."""

    path: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    whole: bool = False  # integers only
    choices: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """kappa, or the last part of the setting's name: learning_rate."""
        return "kappa" if self.path == KAPPA else self.path.rpartition(".")[2]

    @property
    def text(self) -> str:
        """As it is written on the command line."""
        if self.choices:
            return f"{self.path}={','.join(map(_word, self.choices))}"
        step = "" if self.step is None else f"/{self.step:g}"
        return f"{self.path}={self.low:.12g}..{self.high:.12g}{step}{':log' * self.log}"

    @property
    def ends(self) -> tuple[Any, ...]:
        """The extreme values, or all choices."""
        if self.choices:
            return self.choices
        return tuple(map(int, (self.low, self.high))) if self.whole else (self.low, self.high)

    def used(self, stored: Any) -> Any:
        """A value that Optuna has stored, as the run uses it."""
        if stored is None:
            return None
        if self.choices:
            return self.choices[stored]
        return int(stored) if self.whole else self.rounded(stored)

    def suggested(self, trial: "optuna.Trial") -> Any:
        """The value that Optuna suggests, as the run uses it."""
        stored: Any
        if self.choices:
            stored = trial.suggest_categorical(self.path, range(len(self.choices)))
        elif self.whole:
            step = 1 if self.step is None else int(self.step)
            ends = int(self.low), int(self.high)
            stored = trial.suggest_int(self.path, *ends, log=self.log, step=step)
        else:
            low, high = self.low, self.high
            stored = trial.suggest_float(self.path, low, high, log=self.log, step=self.step)
        return self.used(stored)

    def rounded(self, value: float) -> float:
        """A few significant digits, inside the range."""
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def usual(self, value: Any) -> Any:
        """The inverse of `used`; None if the value is outside the range."""
        if self.choices:
            return self.choices.index(value) if value in self.choices else None
        return value if value is not None and self.low <= value <= self.high else None


def parsed(texts: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of `--search`; raises `UserError`."""
    if not texts:
        raise UserError(f"missing value of --search: kappa, or {SYNTAX}")
    found = tuple(_parameter(text) for text in texts)
    paths = [one.path for one in found]
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"invalid --search: {path} appears twice")
    if {KAPPA, "proximal.c"} <= set(paths):
        raise UserError("invalid --search: kappa determines c; search one of them")
    return found


def corners(space: Sequence[Parameter], base: RunConfig) -> Iterator[RunConfig]:
    """The configs at the ends of all ranges."""
    for values in itertools.product(*(one.ends for one in space)):
        yield applied(base, {one.path: value for one, value in zip(space, values, strict=True)})


def applied(base: RunConfig, values: dict[str, Any]) -> RunConfig:
    """The config of a trial. c replaces a pull per sync, which would override it."""
    if "proximal.c" in values:
        values = {KAPPA: None, **values}
    return base.override(values)


def effective(config: RunConfig, path: str) -> Any:
    """The value of a setting; kappa is derived from c, or c from kappa."""
    if path in (KAPPA, "proximal.c"):
        return config.pull_per_sync if path == KAPPA else config.c
    return flatten(config)[path]


# ----------------------------------------------------------------------------------------- details


def _parameter(text: str) -> Parameter:
    name, equals, values = text.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    path = ALIASES.get(name, name)
    kind = kind_of(path)
    if kind is None or path in FIXED:
        known = [one for one in flatten(RunConfig(agent="", env="")) if one not in FIXED]
        meant = did_you_mean(path, [*known, "kappa"])
        wrong = "unknown setting" if kind is None else "cannot search"
        raise UserError(f"invalid --search {text}: {wrong} {path}{meant}")
    if not equals:
        if path not in DEFAULT_RANGES:
            raise UserError(f"invalid --search {text}: needs a range or values, {SYNTAX}")
        values = DEFAULT_RANGES[path]
    kinds = {one for one in (typing.get_args(kind) or (kind,)) if one is not type(None)}
    try:
        if ".." in values:
            return _range(path, values, whole=int in kinds)
        return Parameter(path, choices=_choices(path, values, kind, kinds))
    except ValueError as error:
        raise UserError(f"invalid --search {text}: {error}") from None


def _range(path: str, text: str, whole: bool) -> Parameter:
    text, _, scale = text.partition(":")
    text, _, step_text = text.partition("/")
    log = scale == "log"
    if scale and not log:
        raise ValueError(f":{scale} is unknown; :log is a log scale")
    try:
        low, high = (float(part) for part in text.split(".."))
        step = float(step_text) if step_text else None
    except ValueError:
        raise ValueError(f"{SYNTAX}, with numbers") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("LOW must be below HIGH")
    if log and low <= 0:
        raise ValueError("a log scale needs LOW above 0")
    if log and step is not None:
        raise ValueError("a log scale has no steps")
    if step is not None and not 0 < step <= high - low:
        raise ValueError("STEP must be positive and at most HIGH - LOW")
    if whole and any(not one.is_integer() for one in (low, high, step or 1.0)):
        raise ValueError(f"{path} is an integer")
    return Parameter(path, low, high, log, step, whole)


def _choices(path: str, text: str, kind: Any, kinds: set[Any]) -> tuple[Any, ...]:
    words = [word.strip() for word in text.split(",")]
    values = tuple(convert(path, _value(word, kinds), kind) for word in words)
    if len(set(values)) < 2:
        raise ValueError("needs at least two different values")
    return values


def _value(word: str, kinds: set[Any]) -> Any:
    """true, 3 and 0.5 as values, unless the setting is text."""
    if bool in kinds and word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        if number in kinds:
            try:
                return number(word)
            except ValueError:
                continue
    return word


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
