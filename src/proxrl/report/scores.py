"""Scores of a run: final score and area under the curve, raw and normalised.

    human-normalised score = (agent - random) / (human - random)                (Section 5.2.2)
    gain = (pro - base) / (max(base, human) - random)                           (Section 5.2.2)

Scores are undiscounted evaluation returns. The suite defines the scale and holds the human and
random scores. Where there is no human score, DQN's mean final score in the same study can replace
it (Rainbow's if DQN was not run); environments with neither keep raw returns.
"""

import csv
from dataclasses import dataclass
from importlib import resources

import numpy as np

from proxrl.report.series import NAMES
from proxrl.suites import Score, Suite, suite_named
from proxrl.types import Array

PAPER = suite_named("atari")  # the paper's suite
UNKNOWN = Score(np.nan)
REFERENCES = ("dqn", "rainbow")  # the first of these agents that was run has the score 1
FINAL_STEPS = 1_000_000  # of a run of the paper's length
FINAL_SHARE = 0.05  # of a shorter one


@dataclass(frozen=True, eq=False)
class ScoreScale:
    """The scores that map to 0 and 1 in each game; NaN where unknown."""

    kind: str  # human, raw, or the agent whose score is 1
    unit: str  # name of a scaled score
    low: Array  # [games]
    high: Array  # [games]

    @property
    def reference(self) -> str:
        """Name of the agent whose score is 1; empty if it is none."""
        return NAMES[self.kind] if self.kind in REFERENCES else ""

    @property
    def known(self) -> Array:
        """[games]: whether scores can be scaled."""
        return np.asarray(self.high > self.low)

    def __call__(self, scores: Array) -> Array:
        """Scale scores [..., games]; NaN where the scale is unknown."""
        span = np.where(self.known, self.high - self.low, np.nan)
        return np.asarray((scores - self.low) / span)


def final_window_steps(budget_steps: int) -> float:
    """The last million agent steps; for runs under 20 million, the last 5%."""
    return min(FINAL_STEPS, FINAL_SHARE * budget_steps)


def final_score(steps: Array, returns: Array, episodes: Array, budget_steps: int) -> float:
    """Mean return of all evaluation episodes in the window before `budget_steps`."""
    inside = (steps > budget_steps - final_window_steps(budget_steps)) & (steps <= budget_steps)
    if not inside.any():  # evaluations further apart than the window: the last one
        inside = steps == steps[steps <= budget_steps].max()
    return float(np.average(returns[inside], weights=episodes[inside]))


def area_score(steps: Array, returns: Array, budget_steps: int) -> float:
    """Area under the learning curve divided by its length: each evaluation is weighted by the steps
    since the previous one."""
    before = steps <= budget_steps
    lengths = np.diff(steps[before], prepend=0)
    return float(np.average(returns[before], weights=lengths))


def gain(pro: Array, base: Array, scale: ScoreScale) -> Array:
    """The paper's gain from mean scores [games]; NaN where no human (or DQN) score is known."""
    if scale.kind == "raw":
        return np.full(len(scale.low), np.nan)
    best = np.maximum(base, np.where(scale.known, scale.high, np.nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((pro - base) / (best - scale.low))


# ------------------------------------------------------------------------------------------ tables


def paper_games() -> tuple[str, ...]:
    """The 55 games of the paper."""
    return PAPER.games


def read_table(name: str) -> list[dict[str, str]]:
    """A CSV file of the package; its README gives the source."""
    with (resources.files("proxrl.report") / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def human_scale(games: tuple[str, ...], suite: Suite = PAPER) -> ScoreScale:
    """Random play is 0, a human tester is 1."""
    low, high = np.array([suite.scores.get(game, UNKNOWN) for game in games]).T
    return ScoreScale("human", "human-normalised score", low, high)


def reference_scale(
    games: tuple[str, ...], suite: Suite, agent: str, reference: Array
) -> ScoreScale:
    """Random play is 0; 1 is `reference` [games], the agent's mean final score in this study."""
    low = np.array([suite.scores.get(game, UNKNOWN).random for game in games])
    unit = f"{NAMES[agent]}-normalised score"
    return ScoreScale(agent, unit, low, np.asarray(reference, np.float64))


def raw_scale(games: tuple[str, ...]) -> ScoreScale:
    """Raw returns of a single game; several games have no common scale."""
    if len(games) == 1:
        return ScoreScale("raw", "return", np.zeros(1), np.ones(1))
    nothing = np.full(len(games), np.nan)
    return ScoreScale("raw", "return", nothing, nothing)
