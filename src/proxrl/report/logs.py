"""Logs of other libraries: Stable-Baselines3's monitor.csv and evaluations.npz, and a plain CSV.

- `*monitor.csv`: a line per training episode; all such files of a folder are one run.
- `evaluations.npz` of `EvalCallback`: steps, and the returns of each evaluation.
- A CSV file with the columns agent, environment, seed, step and return, in any order.

Agent, environment and seed of a Stable-Baselines3 log come from the names of its folders
(`LAYOUTS`, or a layout of the user); a monitor.csv names its environment itself. These logs do not
say how long training was meant to be, so runs in one environment are compared at the last step that
all of them have reached.
"""

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from proxrl.config import RunConfig
from proxrl.config.validity import LARGEST
from proxrl.errors import UserError, printable
from proxrl.files import plain, read_bytes
from proxrl.report.protocol import cut, place_of
from proxrl.report.series import NAMES
from proxrl.runs.record import CURVES, Run, problem_of
from proxrl.types import Array

TRAINING, EVALUATIONS, TABLE = "training episodes", "evaluations", "returns"  # what is logged
SOURCES = {
    TRAINING: "Stable-Baselines3 training",  # monitor.csv
    EVALUATIONS: "Stable-Baselines3 evaluations",  # evaluations.npz
    TABLE: "CSV file",
}
LAYOUTS = (
    "{agent}/{env}/{seed}",
    "{agent}_{env}_{seed}",
    "{agent}/{env}_{seed}",  # RL Baselines3 Zoo
    "{env}/{agent}/{seed}",
    "{env}/{agent}_{seed}",
    "{agent}/{seed}",  # if monitor.csv names the environment
    "{agent}_{seed}",
)
COLUMNS = {
    "agent": ("agent", "algo", "algorithm"),
    "env": ("environment", "env", "env_id"),
    "seed": ("seed",),
    "step": ("step", "steps", "timestep", "timesteps", "global_step"),
    "return": ("return", "score", "episode_return", "reward"),
}
MOST_POINTS = 100
LONGEST_REASON = 200  # characters


@dataclass(frozen=True, eq=False)
class Log:
    """One run of another library: a step and a return per episode, in the order of steps."""

    path: str
    returns_are: str  # TRAINING, EVALUATIONS or TABLE
    agent: str
    env: str
    seed: int
    steps: Array
    returns: Array
    settings: Mapping[str, Any]  # what else is known of its protocol


class _Damaged(Exception):
    """The log cannot be read."""


# --------------------------------------------------------------------------------------- reading


def read_logs(
    root: Path, label: Callable[[Path], str], layout: str | None = None
) -> tuple[list[Log], list[Run]]:
    """All logs of a CSV file or below a folder, and those that cannot be read."""
    logs: list[Log] = []
    unreadable: list[Run] = []
    found = [(root, _table)] if root.is_file() else list(_files(root))
    for path, read in found:
        try:
            logs += read(path, label(path), layout)
        except _Damaged as damage:
            unreadable.append(Run(label(path), "corrupt", str(damage)))
    return logs, unreadable


_Reader = Callable[[Path, str, str | None], list[Log]]


def _files(root: Path) -> Iterator[tuple[Path, _Reader]]:
    for folder, below, files in os.walk(root):
        below.sort()
        if any(name.endswith("monitor.csv") for name in files):
            yield Path(folder), _monitor
        if "evaluations.npz" in files:
            yield Path(folder) / "evaluations.npz", _evaluations


def _monitor(folder: Path, label: str, layout: str | None) -> list[Log]:
    """The episodes of all monitor.csv files of a folder (one per parallel environment), in the
    order of the clock; the step of an episode is the number of steps of all episodes until its end,
    as in Stable-Baselines3's own plots."""
    episodes: list[tuple[float, int, float]] = []
    env = ""
    for path in sorted(folder.glob("*monitor.csv")):
        its_env, its_episodes = _monitor_file(path)
        env = env or its_env
        episodes += its_episodes
    if not episodes:
        raise _Damaged("no episode in monitor.csv")
    if sum(length for _, length, _ in episodes) > LARGEST:  # the array below would wrap
        raise _Damaged("monitor.csv: more than 2^62 steps")
    episodes.sort(key=lambda one: one[0])
    steps = np.cumsum([length for _, length, _ in episodes], dtype=np.int64)
    agent, env, seed = _identity(folder, layout, env)
    returns = np.array([value for *_, value in episodes])
    return [_log(label, TRAINING, agent, env, seed, steps, returns)]


def _monitor_file(path: Path) -> tuple[str, list[tuple[float, int, float]]]:
    """The environment, "" if it is not named, and (clock, length, return) of every episode."""
    try:
        with open(path, newline="", opener=plain) as file:
            first, *lines = file.read().splitlines(keepends=True)
        header = json.loads(first.removeprefix("#"))
        whole = [line for line in lines if line.endswith("\n")]  # a killed run's last may not be
        start = float(header.get("t_start", 0.0))
        found = [
            (start + float(row["t"]), int(row["l"]), float(row["r"]))
            for row in csv.DictReader(whole)
        ]
    except Exception as error:  # whatever the parsers raise
        raise _Damaged(f"{path.name}: {_reason(error)}") from None
    if not all(length >= 1 and math.isfinite(clock) for clock, length, _ in found):
        raise _Damaged(f"{path.name}: not a monitor.csv of Stable-Baselines3")
    return str(header.get("env_id") or ""), found


def _evaluations(path: Path, label: str, layout: str | None) -> list[Log]:
    try:
        with (
            np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as file,
            np.errstate(all="raise"),
        ):
            steps, results = file["timesteps"], file["results"]
            if not {steps.dtype.kind, results.dtype.kind} <= set("iuf"):
                raise ValueError(f"timesteps of {steps.dtype} and results of {results.dtype}")
            steps, results = steps.astype(np.int64), results.astype(np.float64)
    except Exception as error:  # whatever zipfile, zlib, tokenize and NumPy raise
        raise _Damaged(f"{path.name}: {_reason(error)}") from None
    if results.ndim != 2 or steps.shape != results.shape[:1] or not results.size:
        raise _Damaged(f"{path.name}: timesteps {steps.shape} and results {results.shape}")
    if (steps[1:] <= steps[:-1]).any() or steps[0] < 1:
        raise _Damaged(f"{path.name}: steps do not increase")
    env = ""
    for monitor in sorted(path.parent.glob("*monitor.csv")):
        env = env or _monitor_file(monitor)[0]
    agent, env, seed = _identity(path.parent, layout, env)
    episodes = results.shape[1]
    period = int(np.median(np.diff(steps, prepend=0)))
    settings = {"evaluation.episodes": episodes, "evaluation.period_steps": period}
    every = np.repeat(steps, episodes)
    return [_log(label, EVALUATIONS, agent, env, seed, every, results.reshape(-1), settings)]


def _table(path: Path, label: str, layout: str | None) -> list[Log]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {_reason(error)}") from None
    rows = _rows(path, text)
    heads = [head.strip().lower() for head in next(rows, (0, []))[1]]
    at = {}
    for name, names in COLUMNS.items():
        place = next((heads.index(one) for one in names if one in heads), None)
        if place is None:
            raise UserError(
                f"{path} has no column {names[0]}: a CSV file of returns has the columns agent, "
                "environment, seed, step and return"
            )
        at[name] = place
    runs: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for number, row in rows:
        if not row:
            continue
        try:
            agent, env = row[at["agent"]].strip(), row[at["env"]].strip()
            step, seed = float(row[at["step"]]), int(row[at["seed"]])
            if not step.is_integer() or not agent or not env:
                raise ValueError("an agent, an environment and a whole number of steps are needed")
            if not 0 <= step <= LARGEST or abs(seed) > LARGEST:
                raise ValueError("a step in [0, 2^62] and a seed of at most 2^62 are needed")
            episode = int(step), float(row[at["return"]])
            runs.setdefault((agent, env, seed), []).append(episode)
        except (ValueError, IndexError, OverflowError) as error:
            raise UserError(f"{path} line {number}: {_reason(error)}") from None
    if not runs:
        raise UserError(f"{path} has no rows")
    logs = []
    for (agent, env, seed), episodes in runs.items():
        episodes.sort(key=lambda one: one[0])
        steps, returns = (np.array(column) for column in zip(*episodes, strict=True))
        name = f"{label}: {agent}, {env}, seed {seed}"
        logs.append(_log(name, TABLE, agent, env, seed, steps, returns))
    return logs


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file with the number of their last line."""
    rows = csv.reader(io.StringIO(text))
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise UserError(f"{path} line {rows.line_num}: {_reason(error)}") from None
        if row is None:
            return
        yield rows.line_num, row


def _log(
    label: str,
    returns_are: str,
    agent: str,
    env: str,
    seed: int,
    steps: Array,
    returns: Array,
    settings: Mapping[str, Any] | None = None,
) -> Log:
    for what, text in (("agent", agent), ("environment", env)):
        if not text.isprintable():
            raise _Damaged(f"invalid {what} {text!r:.40}: not printable")
    if wrong := problem_of(returns.tolist()):
        raise _Damaged(wrong)
    if not 1 <= int(steps[-1]) <= LARGEST:
        raise _Damaged(f"invalid last step {steps[-1]}: must be at least 1 and at most 2^62")
    usual = agent.lower().replace("_", "-")  # DQN_Pro: the name and colours of dqn-pro
    name = usual if usual in NAMES else agent
    return Log(label, returns_are, name, env, seed, steps, returns, settings or {})


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"missing {error.args[0]}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return printable(" ".join(str(error).split())[:LONGEST_REASON]) or type(error).__name__


# ------------------------------------------------------------------------- agent, env and seed


def _identity(folder: Path, layout: str | None, known_env: str) -> tuple[str, str, int]:
    """Agent, environment and seed, from the folder's path."""
    path = folder.resolve().as_posix()
    for one in LAYOUTS if layout is None else (layout,):
        found = _pattern(one, versioned=layout is None).fullmatch(path)
        if found is None:
            continue
        parts = found.groupdict()
        env = parts.get("env", known_env)
        if known_env and env not in (known_env, known_env.replace("/", "-")):
            continue
        if env:
            return parts["agent"], known_env or env, int(parts.get("seed", 0))
    how = f"match {layout}" if layout else "look like AGENT/ENV/SEED or AGENT_ENV_seedN"
    where = "" if known_env else ", and no monitor.csv there names the environment"
    raise _Damaged(
        f"agent, environment and seed are unknown: the names of its folders do not {how}{where} "
        "(say where they are with --layout, e.g. --layout '{agent}/{env}/{seed}')"
    )


def _pattern(layout: str, versioned: bool) -> re.Pattern[str]:
    """`{agent}/{env}_{seed}` as a regular expression for the end of a path."""
    env = r"[^/_]*-v\d+" if versioned else "[^/]+?"
    parts = {
        "{agent}": "(?P<agent>[^/]+?)",
        "{env}": f"(?P<env>{env})",
        "{seed}": r"(?:seed[-_]?)?(?P<seed>\d{1,18})",
        "*": "[^/]*?",
    }
    pieces = re.split(r"(\{\w*\}|\*)", layout.strip("/"))
    text = "".join(parts.get(one) or re.escape(one) for one in pieces)
    return re.compile(f"(?:.*/)?{text}")


def check_layout(layout: str) -> None:
    """Raise `UserError` if this is not a layout."""
    names = re.findall(r"\{(\w*)\}", layout)
    if (
        "agent" not in names
        or len(set(names)) < len(names)
        or set(names) - {"agent", "env", "seed"}
    ):
        raise UserError(
            f"invalid --layout {layout}: write {{agent}} and, where they are in the path, {{env}} "
            "and {seed}, each once, e.g. {agent}/{env}/{seed}"
        )


# ----------------------------------------------------------------------------- logs become runs


def as_runs(
    logs: Sequence[Log], steps: int | None = None, say: Callable[[str], None] = lambda line: None
) -> list[Run]:
    """Runs, those of one environment (or suite with a common scale) at one number of steps: the
    last that all have reached, at most `steps`."""
    groups: dict[tuple[Any, ...], list[Log]] = {}
    for log in logs:
        key = log.returns_are, place_of(log.env), *log.settings.items()
        groups.setdefault(key, []).append(log)
    runs = {}
    for members in groups.values():
        ends = [int(log.steps[-1]) for log in members]
        shortest = members[int(np.argmin(ends))]
        if min(ends) < 0.5 * max(ends) and (steps is None or min(ends) < steps):
            say(
                f"{shortest.path} ends at step {min(ends):,}, so the {shortest.returns_are} of "
                f"{shortest.env} are compared there (the longest log has {max(ends):,} steps)"
            )
        budget = min(min(ends), steps or LARGEST)
        points = (
            {} if "evaluation.period_steps" in members[0].settings else _points(members, budget)
        )
        for log in members:
            runs[id(log)] = _as_run(log, budget, {**log.settings, **points})
    return [runs[id(log)] for log in logs]


def _points(logs: Sequence[Log], budget: int) -> dict[str, int]:
    """Points of the learning curves: as many as possible, so that every run has returns at each."""
    inside = [log.steps[log.steps <= budget] for log in logs]
    for count in range(min(MOST_POINTS, *map(len, inside)), 1, -1):
        width = -(-budget // count)
        places = [np.unique(np.maximum(steps - 1, 0) // width) for steps in inside]
        if all(len(place) == -(-budget // width) for place in places):
            return {"steps between points": width}
    return {"steps between points": budget}


def _as_run(log: Log, budget: int, settings: Mapping[str, Any]) -> Run:
    steps, first, episodes = np.unique(log.steps, return_index=True, return_counts=True)
    means = np.add.reduceat(log.returns, first) / episodes
    nothing = np.full(len(steps), np.nan)
    config = RunConfig(agent=log.agent, env=log.env, seed=log.seed, steps=int(steps[-1]))
    known = {
        "log": SOURCES[log.returns_are],
        "returns": log.returns_are,
        "suite": place_of(log.env),
        "steps": budget,
        **settings,
    }
    curves = dict.fromkeys(CURVES, nothing) | {"eval_return": means}
    run = Run(
        log.path,
        "finished",
        config=config,
        steps=steps.astype(np.int64),
        episodes=episodes,
        curves=curves,
        known=known,
    )
    return replace(cut(run, budget), config=replace(config, steps=budget))
