"""What a claim covers: its games, 120M frames, and the paper's settings.

The paper's settings have two readings: its text (`dqn`, `rainbow`), and the authors' published code
where that differs (`dqn-authors`, `rainbow-authors`; docs/fidelity.md, A). Both count.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from proxrl.config import flatten
from proxrl.paper.verdict import Answer, all_of, no_pair
from proxrl.report import scores
from proxrl.report.comparisons import Comparison
from proxrl.report.findings import Findings
from proxrl.report.series import agent_settings
from proxrl.report.study import Block, StudyResults
from proxrl.suites import presets

PAPER_FRAMES = 120_000_000
MANY_GAMES = 12  # from here on, games are counted, not listed


def paper_agent(agent: str) -> str:
    """The paper's agent: `dqn-pro` for `dqn-authors-pro`."""
    return agent.replace("-authors", "", 1)


def atari_blocks(study: StudyResults, agents: Iterable[str]) -> list[Block]:
    """The series of the paper's agents, in either reading."""
    if study.suite_name != "atari":
        return []
    return [block for block in study.blocks if paper_agent(block.series.agent) in agents]


def main_block(study: StudyResults, agent: str) -> Block | None:
    """The main series of a paper's agent, in either reading."""
    return next((one for one in atari_blocks(study, (agent,)) if one.series.main), None)


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other)
    return bool(one == other)


def comparison(findings: Findings, pro: str) -> Comparison | None:
    """A paper's agent with the pull against the same agent without."""
    found = (one for one in findings.pulls if paper_agent(one.pro.series.agent) == pro)
    return next(found, None)


def both_pairs(findings: Findings, check: Callable[[Comparison], Answer]) -> Answer:
    """A claim about DQN Pro and Rainbow Pro alike."""
    found = {pro: comparison(findings, pro) for pro in ("dqn-pro", "rainbow-pro")}
    return all_of([check(one) if one else no_pair(pro) for pro, one in found.items()])


def games_of(study: StudyResults, *blocks: Block) -> set[str]:
    """Games for which all of these series have finished runs."""
    done = np.all([~np.isnan(block.mean_final) for block in blocks], axis=0)
    return {game for game, there in zip(study.games, done, strict=True) if there}


def lacks(
    study: StudyResults,
    games: set[str],
    needed: tuple[str, ...] | int,
    *blocks: Block,
    frames: bool = True,
    varied: tuple[str, ...] = (),
) -> str:
    """What the claim requires and these runs lack; empty if nothing. `blocks` must have the paper's
    settings, except those that the claim varies."""
    missing = [other for block in blocks if (other := other_settings(study, block, varied))]
    if isinstance(needed, int):
        if len(games) < needed or study.suite_name != "atari":
            missing.append(f"at least {needed} Atari games")
    elif study.suite_name != "atari" or games != set(needed):
        named = ", ".join(needed) if len(needed) < MANY_GAMES else f"the paper's {len(needed)}"
        missing.append(f"{named} and no other game")
    if frames and study.budget_steps * study.frame_skip != PAPER_FRAMES:
        missing.append("120M frames")
    return " and ".join(missing)


def other_settings(study: StudyResults, block: Block, varied: tuple[str, ...] = ()) -> str:
    """The paper's settings and protocol where this series has others; empty if it has none."""
    agent = block.series.agent
    config = presets.make(agent, scores.PAPER.base.env)
    protocol = {
        name: value for name, value in flatten(config).items() if name.startswith("protocol.")
    }
    paper = {**agent_settings(config), **protocol}
    settings = {**study.protocol, **block.series.settings}
    other = [
        f"{name} = {value} (not {settings.get(name)})"
        for name, value in paper.items()
        if name not in varied and not equal(value, settings.get(name))
    ]
    return f"{agent} with {', '.join(other)}" if other else ""


def within(missing: str, answer: Answer, study: StudyResults) -> Answer:
    """The answer if nothing is missing; otherwise the measurement, undecided."""
    if not missing:
        return answer
    return "not testable", f"needs {missing}, these are {scope(study)}; {answer[1]}"


def scope(study: StudyResults) -> str:
    of = {"atari": "Atari", "minatar": "MinAtar"}.get(study.suite_name, "other")
    steps = f"{study.budget_steps:,} steps"
    return f"{len(study.games)} {of} game{'s' * (len(study.games) != 1)}, {steps}"
