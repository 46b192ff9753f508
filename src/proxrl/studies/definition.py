"""The definition of a study: a TOML file, read strictly.

    title = "DQN with Polyak averaging against DQN Pro"
    figures = "5 right"                     # of the paper; optional
    written_for = "atari"                   # optional: carry settings over to other suites
    headline = ["dqn-polyak-tau-0.005"]     # optional: the variants that represent their agents

    [variants.dqn-polyak]                   # -> dqn-polyak-tau-0.05, dqn-polyak-tau-0.005
    preset = "dqn"
    target.rule = "polyak"                  # any setting of a run, by its dotted name
    grid.target.tau = [0.05, 0.005]         # one variant for each
    games = ["Breakout"]                    # optional: only these of the scale's games

    [scales.mine]                           # besides smoke, tune, session, laptop and paper
    env = "MinAtar/{game}-v1"
    games = ["Breakout"]
    seeds = [0, 1, 2]
    steps = 100_000
    replay.capacity = 50_000                # settings can be set here too

A planning study has a `plan` table, with the options of `proxrl plan`, instead of variants.
"""

import itertools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, get_type_hints

from proxrl.config.kinds import convert
from proxrl.errors import UserError
from proxrl.studies.settings import check_setting, dotted
from proxrl.studies.strict import is_a, merged, nearest, only_keys, take
from proxrl.suites import AGENTS, ANY, suite_named, suite_of

DATA = resources.files("proxrl.studies") / "data"
# fmt: off
BUILT_IN = (  # by figure
    "pmpi", "tune-c", "main", "distance", "period", "polyak", "anneal", "larger-c", "value-space",
    "control", "rules", "rainbow-kappa", "dopamine-check", "demo",
)
# fmt: on
STUDY_KEYS = ("title", "figures", "written_for", "headline", "variants", "scales", "plan")
VARIANT_KEYS = ("preset", "grid", "games")
SCALE_KEYS = ("env", "games", "seeds", "steps", "plan")
FOLLOWS_FROM = {  # settings of a run that other keys of a study determine
    "agent": "the variant's preset",
    "env": "the scale's env and games",
    "seed": "the scale's seeds",
    "steps": "the scale's steps",
}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
REPORT = "report"  # the folder of a study's report, next to its variants


@dataclass(frozen=True)
class Variant:
    """A preset and the settings in which it differs."""

    name: str
    preset: str
    settings: dict[str, Any]
    games: tuple[str, ...] = ()  # only these of the scale's games; empty: all


@dataclass(frozen=True)
class Scale:
    """The size of a study: environment, games, seeds and steps."""

    name: str
    env: str  # with {game}
    games: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int
    settings: dict[str, Any]
    plan: dict[str, Any]


@dataclass(frozen=True)
class Study:
    """The content of a study file."""

    name: str
    title: str
    figures: str
    written_for: str | None
    headline: tuple[str, ...]  # variants that represent their agents in a report
    variants: tuple[Variant, ...]
    scales: dict[str, Scale]
    plan: dict[str, Any] | None


def load(name: str) -> Study:
    """A built-in study by name, or a user's file (ending in .toml)."""
    if name.endswith(".toml"):
        path = Path(name)
        try:
            return parse(path.stem, path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise UserError(f"cannot read {name}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UserError(f"cannot read {name}: not a text file") from None
    if name not in BUILT_IN:
        raise UserError(
            f"unknown study {name}{nearest(name, BUILT_IN)} (or a file that ends in .toml)"
        )
    return parse(name, (DATA / f"{name}.toml").read_text())


def parse(name: str, text: str) -> Study:
    """Parse the text of a study file; raises `UserError` naming what is invalid."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # or an integer of thousands of digits
        raise UserError(f"{name}.toml is not valid TOML: {error}") from None
    try:
        return _study(name, content)
    except UserError as error:
        raise UserError(f"{name}.toml: {error}") from None


# ---------------------------------------------------------------------------------------- its parts


def _study(name: str, content: dict[str, Any]) -> Study:
    only_keys(content, STUDY_KEYS, "")
    title = take(content, "title", str, "")
    figures = take(content, "figures", str, "", default="")
    written_for = take(content, "written_for", str, "", default="") or None
    if written_for is not None:
        _require_suite(written_for)
    plan = _plan(content["plan"], "plan") if "plan" in content else None
    tables = take(content, "variants", dict, "", default={})
    if bool(tables) == (plan is not None):
        raise UserError("a study must have either [variants.NAME] tables or a [plan] table")
    variants = [one for key, table in tables.items() for one in _variants(key, table)]
    twice = {one.name for one in variants if [v.name for v in variants].count(one.name) > 1}
    if twice:
        raise UserError(f"duplicate variant {min(twice)}")
    headline = _headline(content.get("headline", []), variants)
    usual = tomllib.loads((DATA / "scales.toml").read_text())
    own = take(content, "scales", dict, "", default={})
    for key, table in own.items():
        if not isinstance(table, dict):
            raise UserError(f"scales.{key} must be a table: [scales.{key}]")
        if "plan" in table and plan is None:
            raise UserError(
                f"scales.{key}.plan: only for studies with a [plan] table, not with variants"
            )
    scales = {
        key: _scale(key, merged(usual.get(key, {}), own.get(key, {})))
        for key in dict.fromkeys((*usual, *own))
    }
    return Study(name, title, figures, written_for, headline, tuple(variants), scales, plan)


def _require_suite(name: str) -> None:
    if suite_named(name) is ANY:
        raise UserError(f"invalid written_for = {name}: its settings depend on the observation")


def _variants(name: str, table: Any) -> list[Variant]:
    """One variant, or one per point of its grid."""
    where = f"variants.{name}"
    if not isinstance(table, dict):
        raise UserError(f"{where} must be a table: [{where}]")
    _require_name(name, where)
    preset = take(table, "preset", str, where)
    if preset not in AGENTS:
        raise UserError(f"{where}: unknown preset {preset}{nearest(preset, AGENTS)}")
    grid = dotted(take(table, "grid", dict, where, default={}))
    games = table.get("games", [])
    if not isinstance(games, list) or not all(isinstance(game, str) for game in games):
        raise UserError(f"{where}: games must be a list of names")
    table = {key: value for key, value in table.items() if key not in VARIANT_KEYS}
    settings = _settings(table, where, VARIANT_KEYS)
    axes = []
    for path, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"{where}: grid.{path} must be a list of values")
        axes.append([(path, _settings({path: value}, where, ())[path]) for value in values])
    return [
        Variant(
            "-".join([name, *(f"{path.rsplit('.', 1)[-1]}-{_short(value)}" for path, value in at)]),
            preset,
            {**settings, **dict(at)},
            tuple(games),
        )
        for at in itertools.product(*axes)
    ]


def _short(value: Any) -> str:
    """A value in a variant's name, which is also its folder's name: 0.05, 64x64."""
    if isinstance(value, tuple):
        return "x".join(map(_short, value))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(value).removesuffix(".0"))


def _require_name(name: str, where: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"{where} is not a valid folder name: use letters, digits, - and _")
    if name == REPORT:
        raise UserError(f"invalid name {where}: reserved for the report's folder")


def _headline(names: Any, variants: list[Variant]) -> tuple[str, ...]:
    """Names of variants, at most one per preset."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError('headline must be a list of variants: ["dqn-pro"]')
    if names and not variants:
        raise UserError("headline is only for studies with variants")
    presets_of = {variant.name: variant.preset for variant in variants}
    taken: dict[str, str] = {}
    for name in names:
        if name not in presets_of:
            raise UserError(f"headline: unknown variant {name}{nearest(name, presets_of)}")
        preset = presets_of[name]
        if preset in taken:
            raise UserError(f"headline: {taken[preset]} and {name} are both {preset}: keep one")
        taken[preset] = name
    return tuple(names)


def _scale(name: str, table: dict[str, Any]) -> Scale:
    where = f"scales.{name}"
    _require_name(name, where)
    env = take(table, "env", str, where)
    if "{game}" not in env:
        raise UserError(f'{where}: env = "{env}" must contain {{game}}: "ALE/{{game}}-v5"')
    known = suite_of(env).games
    games = table.get("games")
    if games == "all" and known:
        games = list(known)
    if not isinstance(games, list) or not games or not all(isinstance(g, str) for g in games):
        of_all = ' or "all"' if known else ""
        raise UserError(f"{where}: games must be a list of names{of_all}")
    for game in games:
        if known and game not in known and not _is_known(env.replace("{game}", game)):
            raise UserError(f"{where}: unknown game {game}{nearest(game, known)}")
    seeds = table.get("seeds")
    if not isinstance(seeds, list) or not seeds or not all(is_a(seed, int) for seed in seeds):
        raise UserError(f"{where}: seeds must be a list of integers")
    if len(set(games)) < len(games) or len(set(seeds)) < len(seeds):
        raise UserError(f"{where}: duplicate game or seed")
    steps = take(table, "steps", int, where)
    rest = {key: value for key, value in table.items() if key not in SCALE_KEYS}
    settings = _settings(rest, where, SCALE_KEYS)
    plan = _plan(table.get("plan", {}), f"{where}.plan")
    return Scale(name, env, tuple(games), tuple(seeds), steps, settings, plan)


def _is_known(env: str) -> bool:
    """Whether the environment exists: a suite's list may be incomplete (Atari: the paper's 55)."""
    from proxrl.envs.make import is_known

    return is_known(env)


def _settings(table: dict[str, Any], where: str, beside: tuple[str, ...]) -> dict[str, Any]:
    """Dotted settings, with names and types checked."""
    settings = dotted(table)
    for path in settings:
        if path in FOLLOWS_FROM:
            raise UserError(
                f"{where}: {path} cannot be set here: it is given by {FOLLOWS_FROM[path]}"
            )
    try:
        return {path: check_setting(path, value, beside) for path, value in settings.items()}
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _plan(table: Any, where: str) -> dict[str, Any]:
    from proxrl.planning.command import PlanOptions

    if not isinstance(table, dict):
        raise UserError(f"{where} must be a table: [{where}]")
    hints = get_type_hints(PlanOptions)
    known = [name for name in hints if name not in ("out", "theory", "mdps")]
    only_keys(table, known, where)
    return {key: convert(f"{where}.{key}", value, hints[key]) for key, value in table.items()}
