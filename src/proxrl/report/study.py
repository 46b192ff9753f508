"""The runs of a report as arrays, one block per series: seeds x games (x points).

Learning curves have at most 200 points. Each point is the mean of the evaluations since the
previous one, computed per run, so that standard errors are over runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.report import scores
from proxrl.report.protocol import common_protocol, cut
from proxrl.report.series import Series, agent_settings, group
from proxrl.report.statistics import nanmean
from proxrl.runs.record import CURVES, Run
from proxrl.runs.study_file import About
from proxrl.suites import ANY, Suite, suite_named, suite_of
from proxrl.types import Array

MAX_POINTS = 200


@dataclass(frozen=True, eq=False)
class Block:
    """Scores and curves of one series; NaN where there is no (finished) run."""

    series: Series
    runs: tuple[Run, ...]
    final: Array  # [seeds, games]
    area: Array  # [seeds, games]
    curves: dict[str, Array]  # CURVES and rule/* -> [seeds, games, points]

    @property
    def name(self) -> str:
        return self.series.name

    @property
    def mean_final(self) -> Array:
        """[games]."""
        return nanmean(self.final)

    @property
    def mean_area(self) -> Array:
        """[games]."""
        return nanmean(self.area)


@dataclass(frozen=True, eq=False)
class StudyResults:
    """The data behind a report, before any statistics."""

    name: str  # of the folder
    about: About
    suite_name: str
    protocol: dict[str, Any]
    budget_steps: int
    games: tuple[str, ...]
    seeds: tuple[int, ...]
    points: Array  # agent steps, [points]
    evaluations_per_point: int
    scale: scores.ScoreScale
    blocks: tuple[Block, ...]
    runs: tuple[Run, ...]  # including unreadable ones
    missing: tuple[tuple[str, str, int], ...]  # series, game, seed
    source: str = ""  # arguments of `proxrl report` that select these runs; default: the name

    @property
    def frame_skip(self) -> int:
        return int(self.protocol["protocol.frame_skip"])

    @property
    def period_steps(self) -> int:
        """Agent steps between two evaluations; for logs of single episodes, between two points."""
        return _period(self.protocol)

    @property
    def from_other_libraries(self) -> bool:
        """Whether these are logs of other libraries, whose settings are unknown."""
        return "log" in self.protocol

    @property
    def episodes_are(self) -> str:
        """Whose returns are reported: evaluation episodes, or training episodes of some logs."""
        return {"training episodes": "training", "returns": "logged"}.get(
            self.protocol.get("returns", ""), "evaluation"
        )

    @property
    def suite(self) -> Suite:
        return suite_named(self.suite_name)

    @property
    def in_frames(self) -> bool:
        """Whether axes are in emulator frames, as in the paper, or in agent steps."""
        return self.suite.axis == "frames" and "protocol.frame_skip" in self.protocol

    @property
    def axis(self) -> Array:
        """The points in the unit of the x axis, [points]."""
        return self.points * (self.frame_skip if self.in_frames else 1)

    @property
    def axis_name(self) -> str:
        return "emulator frames" if self.in_frames else "agent steps"

    @property
    def place(self) -> str:
        """What a report calls an environment: game or environment."""
        return "game" if self.suite.noun.endswith("game") else "environment"

    @property
    def most_seeds(self) -> int:
        """The largest number of runs of one series in one game."""
        counts = (
            np.isfinite(block.curves["eval_return"]).any(axis=2).sum(axis=0).max(initial=0)
            for block in self.blocks
        )
        return int(max(counts, default=0))

    def block(self, series: Series) -> Block:
        return next(block for block in self.blocks if block.series is series)

    def main(self, agent: str) -> Block | None:
        """The block of an agent's main series."""
        found = (b for b in self.blocks if b.series.agent == agent and b.series.main)
        return next(found, None)


def gather(
    name: str,
    runs: Sequence[Run],
    steps: int | None = None,
    about: About | None = None,
    headline: Sequence[RunConfig] | None = None,
    source: str = "",
) -> StudyResults:
    """Combine all runs; raises `UserError` if their protocols differ.

    `headline`: configs of main series; default: those that `about` names by folder.
    """
    about = about or About()
    if headline is None:
        headline = about.headline_configs(runs)
    if steps is not None:
        runs = [cut(run, steps) for run in runs]
    usable = [run for run in runs if run.usable]
    if not usable:
        raise UserError(f"invalid --steps {steps}: no run has an evaluation by then")
    protocol = common_protocol(usable)
    budget = int(protocol["steps"])
    period = _period(protocol)
    games = tuple(sorted({game_of(run.asked.env) for run in usable}))
    seeds = tuple(sorted({run.asked.seed for run in usable}))
    evaluations = math.ceil(budget / period)
    together = math.ceil(evaluations / MAX_POINTS)
    count = math.ceil(evaluations / together)
    points = np.minimum(np.arange(1, count + 1) * together * period, budget)
    groups = group(usable, headline)
    _require_one_run_each(groups)
    measured = dict.fromkeys((*CURVES, *(name for run in usable for name in run.curves)))
    blocks = tuple(
        _block(series, members, games, seeds, budget, period * together, count, tuple(measured))
        for series, members in groups.items()
    )
    suite = _common_suite(usable)
    return StudyResults(
        name,
        about,
        suite.name,
        protocol,
        budget,
        games,
        seeds,
        points,
        together,
        _scale(suite, games, blocks),
        blocks,
        tuple(runs),
        _missing(blocks, [run for run in runs if not run.usable]),
        source,
    )


def _period(protocol: dict[str, Any]) -> int:
    found = protocol.get("evaluation.period_steps") or protocol["steps between points"]
    return int(found)


def game_of(env: str) -> str:
    """Breakout for ALE/Breakout-v5; the id itself if its suite has no names of games."""
    return suite_of(env).game_of(env)


def _common_suite(runs: Sequence[Run]) -> Suite:
    """The suite of all runs; `ANY` if there are several, none of which has a scale then."""
    suites = {suite_of(run.asked.env) for run in runs}
    return suites.pop() if len(suites) == 1 else ANY


def _block(
    series: Series,
    runs: Sequence[Run],
    games: tuple[str, ...],
    seeds: tuple[int, ...],
    budget: int,
    width: int,
    count: int,
    measured: tuple[str, ...],
) -> Block:
    shape = (len(seeds), len(games))
    final, area = np.full(shape, np.nan), np.full(shape, np.nan)
    curves = {name: np.full((*shape, count), np.nan) for name in measured}
    for run in runs:
        at = seeds.index(run.asked.seed), games.index(game_of(run.asked.env))
        returns = run.curves["eval_return"]
        if run.status == "finished":
            final[at] = scores.final_score(run.steps, returns, run.episodes, budget)
            area[at] = scores.area_score(run.steps, returns, budget)
        place = np.clip((run.steps - 1) // width, 0, count - 1)
        for name, values in run.curves.items():
            curves[name][at] = _binned(values, place, count)
    return Block(series, tuple(runs), final, area, curves)


def _binned(values: Array, place: Array, count: int) -> Array:
    """Mean of the values in each bin, [count]; NaN for empty bins."""
    there = np.isfinite(values)
    number = np.bincount(place[there], minlength=count)
    total = np.bincount(place[there], weights=values[there], minlength=count)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _scale(suite: Suite, games: tuple[str, ...], blocks: tuple[Block, ...]) -> scores.ScoreScale:
    if suite.scale == "human":
        scale = scores.human_scale(games, suite)
    elif suite.scale == "dqn":
        main = {block.series.agent: block for block in blocks if block.series.main}
        agent = next((name for name in scores.REFERENCES if name in main), None)
        if agent is None:
            return scores.raw_scale(games)
        scale = scores.reference_scale(games, suite, agent, main[agent].mean_final)
    else:
        return scores.raw_scale(games)
    return scale if scale.known.any() else scores.raw_scale(games)


def _missing(
    blocks: tuple[Block, ...], unusable: Sequence[Run]
) -> tuple[tuple[str, str, int], ...]:
    """Expected runs that do not exist.

    A main series should have every game and seed of any main series; any other series, all of its
    seeds in all of its games. Failed and unreadable runs are listed as such, not as missing.
    """
    places = [{_place(run) for run in block.runs} for block in blocks]
    pairs = list(zip(blocks, places, strict=True))
    of_main = set().union(*(there for block, there in pairs if block.series.main))
    holes = []
    for block, there in pairs:
        expected = of_main if block.series.main else there
        listed = there | {_place(run) for run in unusable if _belongs(run, block.series)}
        for game in sorted({game for game, _ in expected}):
            for seed in sorted({seed for _, seed in expected}):
                if (game, seed) not in listed:
                    holes.append((block.name, game, seed))
    return tuple(holes)


def _place(run: Run) -> tuple[str, int]:
    return game_of(run.asked.env), run.asked.seed


def _belongs(run: Run, series: Series) -> bool:
    """Whether an unusable run belongs to this series."""
    if run.config is None or run.config.agent != series.agent:
        return False
    return agent_settings(run.config) == series.settings


def _require_one_run_each(groups: dict[Series, list[Run]]) -> None:
    """Versions of an environment share a game's name but are not repetitions of each other."""
    for series, runs in groups.items():
        seen: dict[tuple[str, int], Run] = {}
        for run in runs:
            key = _place(run)
            other = seen.setdefault(key, run)
            if other is not run:
                raise UserError(
                    f"{other.path} and {run.path} are both {series.name} on {key[0]}, seed "
                    f"{key[1]} ({other.asked.env}, {run.asked.env}): keep one of them"
                )
