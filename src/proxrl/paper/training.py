"""The paper's 66 claims checked on an Atari study, each with a verdict and a reason.

A claim about settings is *seen* if the runs use them; runs with other settings cannot test it. A
claim about performance is seen or contradicted only if everything it refers to was run (its games,
its grid, 120M frames, the paper's settings), a confidence interval from enough runs decides it, and
the pairs differ in nothing else. *Seen in part*: everything that run folders can show agrees; the
rest is named.
"""

import csv
from dataclasses import dataclass
from importlib import resources

from proxrl.paper import distances, performance, settings
from proxrl.paper.performance import median_is, most_games
from proxrl.paper.settings import setting
from proxrl.paper.variants import annealing, beats_every, value_space
from proxrl.paper.verdict import Check, Verdict, elsewhere
from proxrl.report.findings import Findings

DQN, RAINBOW = ("dqn", "dqn-pro"), ("rainbow", "rainbow-pro")
PERIODS, TAUS = (2000, 4000, 8000, 12000), (0.05, 0.005, 0.0005)


@dataclass(frozen=True)
class Claim:
    """One row of the table."""

    id: str
    place: str
    text: str
    number: str
    verdict: Verdict
    why: str


def claim_rows() -> list[dict[str, str]]:
    """The rows of data/paper_claims.csv: each claim, its place in the paper, how to test it."""
    with (resources.files("proxrl.paper") / "data" / "paper_claims.csv").open(
        encoding="utf-8"
    ) as file:
        return list(csv.DictReader(file))


def check_runs(findings: Findings) -> list[Claim]:
    """All 66 claims, in the paper's order; empty for other suites and logs of other libraries."""
    if findings.study.suite_name != "atari" or findings.study.from_other_libraries:
        return []
    return [
        Claim(row["id"], row["figure"], row["claim"], row["number"], *CHECKS[row["id"]](findings))
        for row in claim_rows()
    ]


PLAN = elsewhere("checked by `proxrl plan --theory`")
FIGURE_1 = elsewhere("drawn by `proxrl plan`")
PULL = elsewhere("checked by tests/proximal")
CHECKS: dict[str, Check] = {
    "C01": settings.the_games,
    "C02": settings.the_seeds,
    "C03": settings.sticky_actions,
    "C04": settings.evaluation_returns,
    "C05": settings.human_table,
    "C06": setting(DQN, replay__capacity=200_000),
    "C07": setting(DQN, target__period=8_000),
    "C08": setting((*DQN, *RAINBOW), protocol__max_episode_steps=27_000),
    "C09": setting((*DQN, *RAINBOW), evaluation__period_steps=10_000),
    "C10": setting(DQN, replay__batch_size=64),
    "C11": setting(DQN, learner__update_period_steps=4),
    "C12": setting((*DQN, *RAINBOW), protocol__frame_skip=4),
    "C13": setting((*DQN, *RAINBOW), evaluation__episodes=2),
    "C14": setting(DQN, replay__n_step=1),
    "C15": setting(DQN, exploration__final_epsilon=0.01),
    "C16": setting((*DQN, *RAINBOW), evaluation__epsilon=0.001),
    "C17": setting(DQN, exploration__decay_steps=250_000),
    "C18": setting(DQN, replay__warmup_steps=20_000),
    "C19": setting(DQN, learner__learning_rate=1e-4),
    "C20": setting(DQN, learner__discount=0.99),
    "C21": setting((*DQN, *RAINBOW), steps=30_000_000),
    "C22": elsewhere("every agent here uses Adam"),
    "C23": setting(DQN, network__kind="nature-same"),
    "C24": setting(RAINBOW, replay__batch_size=64),
    "C25": setting(
        RAINBOW,
        "200 iterations of 250,000 steps (the paper's runs have 120: C21)",
        head__kind="categorical",
        head__atoms=51,
        head__v_max=10.0,
        learner__discount=0.99,
        replay__n_step=3,
        replay__sampling="prioritised",
        replay__capacity=1_000_000,
        replay__warmup_steps=20_000,
        learner__update_period_steps=4,
        target__period=8_000,
        target__period_unit="steps",
        exploration__final_epsilon=0.01,
        exploration__decay_steps=250_000,
        evaluation__epsilon=0.001,
        evaluation__min_steps=125_000,
        learner__learning_rate=6.25e-5,
        learner__adam_epsilon=1.5e-4,
        protocol__max_episode_steps=27_000,
        protocol__sticky_actions=0.0,  # rainbow_aaai.gin, contrary to the paper's text (C03)
        protocol__life_loss_terminal=True,
    ),
    "C26": setting(("dqn-pro",), c=0.2),
    "C27": setting(("rainbow-pro",), c=0.05),
    "C28": settings.same_c,
    "C29": elsewhere("not needed to reproduce"),
    **dict.fromkeys(("C30", "C31", "C32", "C33"), PULL),
    "C34": elsewhere("measured by `python -m benchmarks.overhead`"),
    "C35": distances.lipschitz,
    **{f"C{number}": PLAN for number in range(36, 48)},
    "C46": elsewhere("for one step it holds only for a zero residual (docs/planning.md)"),
    "C47": elsewhere(
        "`proxrl plan --theory`: d_k and s_k are smallest at β = 1, the policy's error is in two "
        "thirds of the MDPs (docs/planning.md)"
    ),
    **{f"C{number}": FIGURE_1 for number in range(48, 53)},
    "C53": performance.best_c,
    "C54": settings.scale_formula,
    "C55": most_games("dqn-pro"),
    "C56": most_games("rainbow-pro"),
    "C57": settings.scale_formula,
    "C58": median_is("dqn-pro", 1.0),
    "C59": median_is("rainbow-pro", 2.2),
    "C60": performance.medians_ordered,
    "C61": distances.smaller_syncs,
    "C62": beats_every("target.period", PERIODS),
    "C63": beats_every("target.tau", TAUS),
    "C64": annealing,
    "C65": performance.larger_c_recovers,
    "C66": value_space,
}
