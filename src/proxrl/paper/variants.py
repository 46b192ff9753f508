"""Claims that compare DQN Pro with other variants of DQN: Figures 5, 6 and 12."""

from collections.abc import Callable
from typing import Any

from proxrl.paper.scope import comparison, games_of, lacks, main_block, paper_agent, within
from proxrl.paper.verdict import OPPOSITE, Answer, Check, all_of, decide
from proxrl.report.comparisons import Comparison, compare
from proxrl.report.findings import Findings

ANNEALING_GAMES = ("Assault", "BattleZone", "NameThisGame", "Zaxxon")  # Figure 6
VALUE_SPACE_GAMES = (  # Figure 12
    *("Asterix", "BeamRider", "Boxing", "Breakout"),
    *("Gopher", "Gravitar", "SpaceInvaders", "WizardOfWor"),
)
LITTLE = 0.5  # "limited impact": less than this share of the pull's gain


def beats_every(setting: str, claimed: tuple[float, ...]) -> Check:
    """DQN Pro against each DQN of the claimed grid, on four games (Figure 5)."""

    def check(findings: Findings) -> Answer:
        study = findings.study
        found: dict[float, Comparison] = {}
        for one in findings.comparisons:
            value = one.base.series.settings.get(setting)
            if _is_dqn_pro_against_dqn(one) and value in claimed and _differ_only_in(one, setting):
                found.setdefault(value, one)
        if missing := [value for value in claimed if value not in found]:
            values = ", ".join(f"{value:g}" for value in missing)
            return "not testable", f"needs DQN with {setting} = {values} and DQN Pro"
        answers = [
            decide(one, one.difference, 0.0, f"IQM difference to {one.base.name}")
            for one in found.values()
        ]
        games = [games_of(study, one.pro, one.base) for one in found.values()]
        if any(one != games[0] for one in games):
            return "not testable", f"not every {setting} has the same games"
        pro = next(iter(found.values())).pro
        return within(lacks(study, games[0], 4, pro), all_of(answers), study)

    return check


def _is_dqn_pro_against_dqn(one: Comparison) -> bool:
    """In either reading of the paper."""
    agents = (paper_agent(side.series.agent) for side in (one.pro, one.base))
    return tuple(agents) == ("dqn-pro", "dqn")


def _differ_only_in(one: Comparison, setting: str) -> bool:
    """Whether they differ only in the setting, or in the settings of the other target rule."""
    replaced = {"target.period", "target.period_unit", "target.rule", "target.tau"}
    return set(one.confounds) <= ({setting} if setting == "target.period" else replaced)


def _is_annealed(name: str, value: Any) -> bool:
    return "anneal" in name and value not in (None, False, 0, "none", "constant")


def _is_in_value_space(name: str, value: Any) -> bool:
    return name == "proximal.rule" and str(value).startswith("value")


def _variants(findings: Findings, is_one: Callable[[str, Any], bool]) -> list[Comparison]:
    """DQN Pro against every DQN that differs only by being the variant."""
    return [
        one
        for one in findings.comparisons
        if _is_dqn_pro_against_dqn(one)
        and any(is_one(name, value) for name, value in one.base.series.settings.items())
        and all(is_one(name, value) for name, (_, value) in one.confounds.items())
    ]


def annealing(findings: Findings) -> Answer:
    """Figure 6: some annealed DQN beats DQN (the paper tuned alpha'), DQN Pro beats all."""
    study, base = findings.study, main_block(findings.study, "dqn")
    variants = _variants(findings, _is_annealed)
    if not variants or base is None:
        return "not testable", "needs DQN, DQN Pro and DQN with annealed step sizes"
    below = [
        decide(one, one.difference, 0.0, f"IQM of {one.pro.name} − {one.base.name}")
        for one in variants
    ]
    gains = [
        decide(one, one.difference, 0.0, f"IQM of {one.pro.name} − {one.base.name}")
        for variant in variants
        if (one := compare(study, variant.base, base, findings.resamples)) is not None
    ]
    improves = next((gain for gain in gains if gain[0] == "seen"), None)
    if improves is None:
        improves = all_of(gains, "no common games with DQN")
        if any(gain[0] != "contradicted" for gain in gains):
            improves = "not testable", improves[1]
    games = games_of(study, base, *(one.base for one in variants), variants[0].pro)
    missing = lacks(study, games, ANNEALING_GAMES, base, variants[0].pro)
    return within(missing, all_of([improves, *below]), study)


def value_space(findings: Findings) -> Answer:
    """Figure 12: DQN Pro beats every variant, and variants gain little over DQN."""
    study, base = findings.study, main_block(findings.study, "dqn")
    variants = _variants(findings, _is_in_value_space)
    pull = comparison(findings, "dqn-pro")
    if not variants or base is None or pull is None:
        return "not testable", "needs DQN, DQN Pro and DQN with the proximal term in value space"
    answers: list[Answer] = []
    for one in variants:
        what = f"IQM of {one.pro.name} − {one.base.name}"
        answers.append(decide(one, one.difference, 0.0, what))
        gain = compare(study, one.base, base, findings.resamples)
        if gain is not None:
            border = LITTLE * pull.difference.value
            what = f"gain of {one.base.name} over {base.name}, half of the pull's is {border:.2f}"
            verdict, text = decide(gain, gain.difference, border, what)
            answers.append((OPPOSITE[verdict], text))
    games = games_of(study, base, *(one.base for one in variants), variants[0].pro)
    missing = lacks(study, games, VALUE_SPACE_GAMES, base, variants[0].pro)
    return within(missing, all_of(answers), study)
