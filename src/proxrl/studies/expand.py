"""Expands a study at a scale into its runs, as data. Touches no files, and creates environments
only if their settings depend on the observation (suite `any`)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from proxrl.config import RunConfig, validated
from proxrl.errors import UserError
from proxrl.studies.definition import Scale, Study, Variant
from proxrl.studies.scaling import carried_over
from proxrl.studies.strict import nearest
from proxrl.suites import presets

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One run of a study."""

    variant: str
    game: str
    seed: int
    config: RunConfig
    folder: Path

    @property
    def name(self) -> str:
        """dqn-pro/Breakout/seed0, the path below the study's folder."""
        return _name(self.variant, self.game, self.seed)


def scale_of(study: Study, name: str) -> Scale:
    if name not in study.scales:
        raise UserError(f"unknown scale {name}{nearest(name, study.scales)}")
    return study.scales[name]


def expand(
    study: Study,
    scale: Scale,
    folder: Path,
    games: Sequence[str] = (),
    seeds: Sequence[int] = (),
    only: Sequence[str] = (),
) -> list[Job]:
    """All runs, ordered by seed, so that the first results cover all variants and games.

    `games`, `seeds` and `only` (variants) select some of them; empty selects all.
    """
    chosen = combinations(study, scale, games, seeds, only)
    return [_job(study, scale, variant, game, seed, folder) for variant, game, seed in chosen]


def combinations(
    study: Study,
    scale: Scale,
    games: Sequence[str] = (),
    seeds: Sequence[int] = (),
    only: Sequence[str] = (),
) -> list[tuple[Variant, str, int]]:
    """Variant, game and seed of every run, in the order of `expand`, without their configs."""
    where = f"{study.name} at scale {scale.name}"
    variants = {variant.name: variant for variant in study.variants}
    for variant in study.variants:
        if variant.games and not set(variant.games) & set(scale.games):
            raise UserError(f"{where}: none of {variant.name}'s games: {', '.join(variant.games)}")
    _require_distinct(scale.games)
    return [
        (variants[name], game, seed)
        for seed in _chosen(seeds, scale.seeds, f"seed of {where}")
        for game in _chosen(games, scale.games, f"game of {where}")
        for name in _chosen(only, tuple(variants), f"variant of {study.name}")
        if game in (variants[name].games or scale.games)
    ]


def _job(study: Study, scale: Scale, variant: Variant, game: str, seed: int, folder: Path) -> Job:
    env = scale.env.replace("{game}", game)
    settings = variant.settings
    if study.written_for is not None:
        settings = carried_over(settings, variant.preset, study.written_for, env)
    config = presets.make(
        variant.preset, env, {**scale.settings, **settings}, seed=seed, steps=scale.steps
    )
    try:
        config = validated(config)
    except UserError as error:
        carried = "" if settings == variant.settings else f" (converted from {study.written_for})"
        raise UserError(f"{study.name}, {variant.name} on {game}: {error}{carried}") from None
    return Job(variant.name, game, seed, config, folder / _name(variant.name, game, seed))


def _chosen(wanted: Sequence[T], there: tuple[T, ...], what: str) -> Sequence[T]:
    for one in wanted:
        if one not in there:
            raise UserError(f"{one} is not a {what}{nearest(str(one), map(str, there))}")
    return [one for one in there if one in wanted] if wanted else there


def _require_distinct(games: Sequence[str]) -> None:
    """Raise a `UserError` if two games have the same folder."""
    first: dict[str, str] = {}
    for game in games:
        other = first.setdefault(_tame(game), game)
        if other != game:
            raise UserError(f"{other} and {game} have the same folder name {_tame(game)}: keep one")


def _tame(game: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", game)


def _name(variant: str, game: str, seed: int) -> str:
    return f"{variant}/{_tame(game)}/seed{seed}"
