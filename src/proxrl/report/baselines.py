"""Dopamine's published learning curves (google/dopamine, baselines/atari/data).

They are *training* returns, averaged over the episodes of an iteration of 250,000 agent steps (1M
frames), batch 32, up to 200M frames: not evaluation returns, and labelled accordingly.
"""

import csv
import gzip
from dataclasses import dataclass
from importlib import resources

import numpy as np

from proxrl.errors import UserError
from proxrl.report.study import StudyResults
from proxrl.suites import BUILT_IN
from proxrl.types import Array

ITERATION_STEPS = 250_000
NOTE = "training returns, batch 32, up to 200M frames"
SPREAD = "bands: one standard deviation over its 5 seeds"
# (suite, label there) -> agent, name, colour on paper, colour on a dark screen, dash. The nearest
# to the paper's DQN is dqn_adam_mse: Adam and the squared error, as in the paper, but batch 32, a
# replay of a million and a learning rate of 6.25e-5.
PUBLISHED = {
    ("legacy", "dqn"): ("dqn", "Dopamine DQN (legacy)", "#1a365d", "#a9bfdc", "dot"),
    ("legacy", "dqn_adam_mse"): (
        *("dqn", "Dopamine DQN (Adam, squared error)"),
        *("#76558f", "#c3a9d8", "dashdot"),
    ),
    ("jax_cnn", "dqn"): ("dqn", "Dopamine DQN (JAX, Adam)", "#5a7fb5", "#7f9fd0", "dash"),
    ("legacy", "rainbow"): ("rainbow", "Dopamine Rainbow (legacy)", "#1c4532", "#a5d6bd", "dot"),
    ("jax_cnn", "rainbow"): ("rainbow", "Dopamine Rainbow (JAX)", "#6a9f83", "#7dbf9c", "dash"),
}


@dataclass(frozen=True, eq=False)
class Baseline:
    """One published agent on the given games."""

    name: str
    agent: str
    suite: str
    colour: str
    dark: str
    dash: str
    mean: Array  # [games, iterations], NaN where nothing is published
    standard_deviation: Array  # over seeds (n - 1), [games, iterations]
    seeds: Array  # [games, iterations]

    @property
    def steps(self) -> Array:
        """Agent steps at the end of each iteration."""
        return np.arange(1, self.mean.shape[1] + 1) * ITERATION_STEPS

    def at(self, budget_steps: int) -> Array:
        """Mean training return in the last iteration within a budget, [games]."""
        last = min(budget_steps // ITERATION_STEPS, self.mean.shape[1]) - 1
        return self.mean[:, last] if last >= 0 else np.full(len(self.mean), np.nan)


def load(games: tuple[str, ...], suite: str, label: str) -> Baseline:
    """A published agent's curves on `games`."""
    agent, name, colour, dark, dash = PUBLISHED[suite, label]
    iterations = 199 if suite == "legacy" else 200
    mean = np.full((len(games), iterations), np.nan)
    deviation, seeds = mean.copy(), mean.copy()
    place = {game: number for number, game in enumerate(games)}
    file = resources.files("proxrl.report") / "data" / "dopamine_curves.csv.gz"
    with file.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as text:
        for row in csv.reader(text):
            if row[0] == suite and row[1] == label and row[2] in place:
                at = place[row[2]], int(row[3])
                mean[at] = float(row[4])
                deviation[at], seeds[at] = float(row[5]), float(row[6])
    return Baseline(name, agent, suite, colour, dark, dash, mean, deviation, seeds)


def beside(study: StudyResults) -> tuple[Baseline, ...]:
    """The published counterparts of a study's agents."""
    if "dopamine" not in study.suite.baselines:
        those = " and ".join(one.title for one in BUILT_IN if "dopamine" in one.baselines)
        raise UserError(
            f"invalid --baselines dopamine: only for {those}; there are no published curves of "
            f"{', '.join(study.games[:3])}"
        )
    agents = {published_agent(block.series.agent) for block in study.blocks}
    return tuple(
        load(study.games, *key) for key, (agent, *_) in PUBLISHED.items() if agent in agents
    )


def published_agent(agent: str) -> str:
    """The published agent to compare with: `rainbow` for `rainbow-authors-pro`."""
    return agent.removesuffix("-adaptive").removesuffix("-pro").removesuffix("-authors")
