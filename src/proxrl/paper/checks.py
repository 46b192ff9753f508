"""The kinds of checks; training.py assigns one to each claim.

A claim about settings is *seen* if the runs use them; runs with other settings cannot test it. A
claim about performance is seen or contradicted only if everything it refers to was run (its games,
its grid, 120M frames, the paper's settings), a confidence interval from enough runs decides it, and
the pairs differ in nothing else. *Seen in part*: everything that run folders can show agrees; the
rest is named.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from proxrl.report import scores
from proxrl.report.findings import (
    FEW_RUNS,
    Comparison,
    Findings,
    compare,
    sync_ratio_estimate,
    sync_ratios,
    too_few,
)
from proxrl.report.series import agent_settings
from proxrl.report.statistics import Estimate
from proxrl.report.study import Block, StudyResults
from proxrl.suites import presets

Verdict = Literal["seen", "seen in part", "contradicted", "not testable"]
Answer = tuple[Verdict, str]
Check = Callable[[Findings], Answer]
PAPER_FRAMES = 120_000_000
ANNEALING_GAMES = ("Assault", "BattleZone", "NameThisGame", "Zaxxon")  # Figure 6
VALUE_SPACE_GAMES = (  # Figure 12
    *("Asterix", "BeamRider", "Boxing", "Breakout"),
    *("Gopher", "Gravitar", "SpaceInvaders", "WizardOfWor"),
)
MANY_GAMES = 12  # from here on, games are counted, not listed
LITTLE = 0.5  # "limited impact": less than this share of the pull's gain
OPPOSITE: dict[Verdict, Verdict] = {
    "seen": "contradicted",
    "seen in part": "contradicted",
    "contradicted": "seen",
    "not testable": "not testable",
}
WIDEST = 0.25  # largest interval, relative to the number, that can confirm it


# ------------------------------------------------------------------------------ kinds of checks


def elsewhere(where: str) -> Check:
    """A claim that run folders cannot test."""
    return lambda _: ("not testable", f"does not depend on runs: {where}")


def setting(agents: tuple[str, ...], unchecked: str = "", **wanted: Any) -> Check:
    """Whether all runs of these agents have the paper's values (`__` replaces the dot); `unchecked`
    is the part of the claim that settings do not express."""
    values = {name.replace("__", "."): value for name, value in wanted.items()}

    def check(findings: Findings) -> Answer:
        blocks = _atari(findings.study, agents)
        if not blocks:
            return "not testable", f"no Atari runs of {' or '.join(agents)}"
        found = {name: _values(findings.study, blocks, name) for name in values}
        other = [
            f"{name} = {', '.join(map(str, got))}"
            for name, got in found.items()
            if not all(_equal(value, values[name]) for value in got)
        ]
        if other:
            return "not testable", f"these runs have {'; '.join(other)}"
        text = "; ".join(f"{name} = {value}" for name, value in values.items())
        return (
            ("seen in part", f"{text}; not checked: {unchecked}") if unchecked else ("seen", text)
        )

    return check


def _atari(study: StudyResults, agents: Iterable[str]) -> list[Block]:
    return [b for b in study.blocks if study.family == "atari" and b.series.agent in agents]


def _values(study: StudyResults, blocks: list[Block], name: str) -> list[Any]:
    if name in study.protocol:
        return [study.protocol[name]]
    main = [block for block in blocks if block.series.main] or blocks
    return list(dict.fromkeys(block.series.settings.get(name) for block in main))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other)
    return bool(one == other)


def _comparison(findings: Findings, pro: str) -> Comparison | None:
    found = (one for one in findings.pulls if one.pro.series.agent == pro)
    return next(found, None)


def _decide(one: Comparison, estimate: Estimate, border: float, what: str) -> Answer:
    """Decide by the confidence interval, if there are enough runs."""
    return _decided(estimate, border, what, one.runs, one.fewest)


def _decided(estimate: Estimate, border: float, what: str, runs: int, fewest: int) -> Answer:
    if not estimate.has_interval:
        return "not testable", f"{what}: {estimate.value:.2f}, no interval from single runs"
    text = f"{what}: {_format(estimate)}"
    if too_few(runs, fewest):
        return "not testable", f"{_only(runs, fewest)}; {text}"
    if estimate.low > border:
        return "seen", text
    if estimate.high < border:
        return "contradicted", text
    return "not testable", f"undecided: {text}"


def _format(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]".replace("-", "−")


def _only(runs: int, fewest: int) -> str:
    return f"only {runs} runs" if runs < FEW_RUNS else f"only {fewest} runs in a game"


def _games_of(study: StudyResults, *blocks: Block) -> set[str]:
    """Games for which all of these series have finished runs."""
    done = np.all([~np.isnan(block.mean_final) for block in blocks], axis=0)
    return {game for game, there in zip(study.games, done, strict=True) if there}


def _lacks(
    study: StudyResults,
    games: set[str],
    needed: tuple[str, ...] | int,
    *blocks: Block,
    frames: bool = True,
    varied: tuple[str, ...] = (),
) -> str:
    """What the claim requires and these runs lack; empty if nothing. `blocks` must have the paper's
    settings, except those that the claim varies."""
    lacks = [other for block in blocks if (other := _other_settings(block, varied))]
    if isinstance(needed, int):
        if len(games) < needed or study.family != "atari":
            lacks.append(f"at least {needed} Atari games")
    elif study.family != "atari" or games != set(needed):
        named = ", ".join(needed) if len(needed) < MANY_GAMES else f"the paper's {len(needed)}"
        lacks.append(f"{named} and no other game")
    if frames and study.budget_steps * study.frame_skip != PAPER_FRAMES:
        lacks.append("120M frames")
    return " and ".join(lacks)


def _other_settings(block: Block, varied: tuple[str, ...]) -> str:
    """The paper's settings where this series has others; empty if it has none."""
    agent, settings = block.series.agent, block.series.settings
    paper = agent_settings(presets.make(agent, scores.PAPER.base.env))
    other = [
        f"{name} = {value} (not {settings.get(name)})"
        for name, value in paper.items()
        if name not in varied and not _equal(value, settings.get(name))
    ]
    return f"{agent} with {', '.join(other)}" if other else ""


def _within(lacks: str, answer: Answer, study: StudyResults) -> Answer:
    """The answer if nothing is lacking; otherwise the measurement, undecided."""
    if not lacks:
        return answer
    return "not testable", f"needs {lacks}, these are {_scope(study)}; {answer[1]}"


def _scope(study: StudyResults) -> str:
    of = {"atari": "Atari", "minatar": "MinAtar"}.get(study.family, "other")
    steps = f"{study.budget_steps:,} steps"
    return f"{len(study.games)} {of} game{'s' * (len(study.games) != 1)}, {steps}"


# ---------------------------------------------------------------------------------- single checks


def the_games(findings: Findings) -> Answer:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    missing = sorted(set(scores.paper_games()) - set(findings.study.games))
    extra = sorted(set(findings.study.games) - set(scores.paper_games()))
    if not missing and not extra:
        return "seen", "the same 55 games"
    have = 55 - len(missing)
    return "not testable", f"these runs have {have} of the 55" + (f" and {extra}" if extra else "")


def the_seeds(findings: Findings) -> Answer:
    study = findings.study
    complete = study.seeds == (0, 1, 2, 3, 4) and not study.missing
    seeds = ", ".join(map(str, study.seeds))
    text = f"seeds {seeds}" + (f", {len(study.missing)} runs missing" if study.missing else "")
    return ("seen" if complete else "not testable"), text


def sticky_actions(findings: Findings) -> Answer:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    sticky = findings.study.protocol["protocol.sticky_actions"]
    return ("seen" if sticky > 0 else "not testable"), f"protocol.sticky_actions = {sticky}"


def evaluation_returns(findings: Findings) -> Answer:
    text = str(findings.study.protocol.get("returns", "not recorded"))
    return ("seen" if text.startswith("evaluation, undiscounted") else "not testable"), text


def human_table(findings: Findings) -> Answer:
    if findings.study.scale.kind != "human":
        return "not testable", "no Atari runs"
    return "seen", f"no-op table, {int(findings.study.scale.known.sum())} of these games"


def scale_formula(findings: Findings) -> Answer:
    if findings.study.scale.kind != "human":
        return "not testable", f"no human scores here; scale: {findings.study.scale.unit}"
    return "seen", "the formula of this report (tests/report/test_scores.py)"


def same_c(findings: Findings) -> Answer:
    pros = [b for b in findings.study.blocks if math.isfinite(b.series.c)]
    if not pros:
        return "not testable", "no runs with a pull"
    values = {
        agent: sorted({b.series.c for b in pros if b.series.agent == agent})
        for agent in dict.fromkeys(b.series.agent for b in pros)
    }
    text = "; ".join(
        f"{agent}: c = {', '.join(f'{c:g}' for c in cs)}" for agent, cs in values.items()
    )
    single = all(len(cs) == 1 for cs in values.values())
    games, _ = the_games(findings)
    if not single or games != "seen":
        return "not testable", f"{text}; needs one c on all 55 games"
    return "seen in part", f"one c for all games: {text}; not checked: how it was chosen"


def lipschitz(findings: Findings) -> Answer:
    ratios = []
    for block in findings.study.blocks:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = block.curves["value_distance"] / block.curves["parameter_distance"]
        ratios.append(ratio[np.isfinite(ratio)])
    every = np.concatenate(ratios)
    if not len(every):
        return "not testable", "no distances recorded"
    return (
        "not testable",
        f"no finite run can refute a bound; |ΔQ| / ‖Δw‖: median {np.median(every):.3g}, "
        f"largest {every.max():.3g}",
    )


def best_c(findings: Findings) -> Answer:
    answers = [_best_c(findings, "dqn-pro", 0.2), _best_c(findings, "rainbow-pro", 0.05)]
    return _all(answers, "")


def _best_c(findings: Findings, agent: str, claimed: float) -> Answer:
    """Whether the interval of the claimed c is above those of all others tried."""
    tried = {
        one.block.series.c: one
        for one in findings.aggregates
        if one.block.series.agent == agent and set(one.block.series.varied) <= {"c"}
    }
    if len(tried) < 3 or claimed not in tried:
        return (
            "not testable",
            f"needs {agent} with at least three values of c, including {claimed:g}",
        )
    if len({one.games for one in tried.values()}) > 1:
        return "not testable", f"{agent}: not every c has the same games"
    grid = {c: one.metrics["IQM"] for c, one in tried.items()}
    best = max(grid, key=lambda c: grid[c].value)
    text = f"{agent}: best c = {best:g} of {len(grid)}"
    weak = next((one for one in tried.values() if one.few), None)
    if weak is not None:
        return "not testable", f"{_only(weak.runs, weak.fewest)} for one c; {text}"
    games = set.intersection(*(_games_of(findings.study, one.block) for one in tried.values()))
    blocks = [one.block for one in tried.values()]
    if lacks := _lacks(findings.study, games, 6, *blocks, varied=("c",)):
        return _within(lacks, ("not testable", text), findings.study)
    others = [grid[c] for c in grid if c != claimed]
    if all(grid[claimed].low > other.high for other in others):
        return "seen", text
    if any(other.low > grid[claimed].high for other in others):
        return "contradicted", text
    return "not testable", f"undecided: {text}, intervals overlap"


def _all(answers: list[Any], otherwise: str) -> Answer:
    """Seen if all are; contradicted if one is."""
    if not answers:
        return "not testable", otherwise
    text = "; ".join(why for _, why in answers)
    for verdict in ("contradicted", "not testable", "seen in part"):
        if any(got == verdict for got, _ in answers):
            return verdict, text
    return "seen", text


def most_games(pro: str) -> Check:
    def check(findings: Findings) -> Answer:
        one = _comparison(findings, pro)
        if one is None:
            return "not testable", f"no finished {pro} runs with a counterpart without the pull"
        study = findings.study
        pair = one.pro, one.base
        lacks = _lacks(study, _games_of(study, *pair), scores.paper_games(), *pair)
        what = f"share of games in which {one.pro.name} is ahead"
        return _within(lacks, _decide(one, one.wins, 0.5, what), study)

    return check


def median_is(pro: str, number: float) -> Check:
    def check(findings: Findings) -> Answer:
        study = findings.study
        block = study.main(pro)
        found = next((one for one in findings.aggregates if one.block is block), None)
        frames = study.budget_steps * study.frame_skip
        if study.family != "atari" or found is None or found.games < 51 or frames != 120_000_000:
            return "not testable", f"needs {pro} on 51 games for 120M frames"
        if other := _other_settings(found.block, ()):
            return "not testable", f"needs {other}"
        median = found.metrics["median"]
        if median.has_interval and found.few:
            return "not testable", f"{_only(found.runs, found.fewest)}; median {_format(median)}"
        return is_number(median, number)

    return check


def is_number(median: Estimate, number: float) -> Answer:
    """Contradicted if the interval excludes the number, seen if a narrow one includes it."""
    if not median.has_interval:
        return "not testable", f"median {median.value:.2f}, no interval from single runs"
    text = f"median {_format(median)}"
    rounding = 0.05
    if not median.low - rounding <= number <= median.high + rounding:
        return "contradicted", text
    if median.high - median.low > WIDEST * number:
        return "not testable", f"undecided, the interval is wide: {text}"
    return "seen", text


def medians_ordered(findings: Findings) -> Answer:
    """Both pairs, on the human scale."""
    study = findings.study
    answers: list[Answer] = []
    for pro in ("dqn-pro", "rainbow-pro"):
        one = _comparison(findings, pro)
        if one is None:
            reason = f"no finished {pro} runs with a counterpart without the pull"
            answers.append(("not testable", reason))
            continue
        pair = one.pro, one.base
        lacks = _lacks(study, _games_of(study, *pair), scores.paper_games(), *pair)
        what = f"median of {one.pro.name} − {one.base.name}"
        answers.append(_within(lacks, _decide(one, one.median_difference, 0.0, what), study))
    return _all(answers, "")


def smaller_syncs(findings: Findings) -> Answer:
    """By the interval of the ratio; the paper claims a ratio below 1."""
    answers: list[Answer] = []
    for one in findings.pulls:
        ratios = sync_ratios(one.pro, one.base)
        ratios = ratios[np.isfinite(ratios)]
        ratio, runs, fewest = sync_ratio_estimate(one.pro, one.base)
        if not len(ratios) or not math.isfinite(ratio.value):
            continue
        what = (
            f"{one.pro.name} / {one.base.name}, smaller in {int((ratios < 1).sum())} of "
            f"{len(ratios)} games"
        )
        verdict, text = _decided(ratio, 1.0, what, runs, fewest)
        study = findings.study
        pair = one.pro, one.base
        lacks = _lacks(study, _games_of(study, *pair), 4, *pair, frames=False)
        answers.append(_within(lacks, (OPPOSITE[verdict], text), study))
    return _all(answers, "no pairs with and without the pull")


def beats_every(setting: str, claimed: tuple[float, ...]) -> Check:
    """DQN Pro against each DQN of the claimed grid, on four games (Figure 5)."""

    def check(findings: Findings) -> Answer:
        study = findings.study
        found: dict[float, Comparison] = {}
        for one in findings.comparisons:
            value = one.base.series.settings.get(setting)
            if one.pro.series.agent != "dqn-pro" or one.base.series.agent != "dqn":
                continue
            if value in claimed and _differ_only_in(one, setting):
                found.setdefault(value, one)
        if missing := [value for value in claimed if value not in found]:
            values = ", ".join(f"{value:g}" for value in missing)
            return "not testable", f"needs DQN with {setting} = {values} and DQN Pro"
        answers = [
            _decide(one, one.difference, 0.0, f"IQM difference to {one.base.name}")
            for one in found.values()
        ]
        games = [_games_of(study, one.pro, one.base) for one in found.values()]
        if any(one != games[0] for one in games):
            return "not testable", f"not every {setting} has the same games"
        pro = next(iter(found.values())).pro
        return _within(_lacks(study, games[0], 4, pro), _all(answers, ""), study)

    return check


def _differ_only_in(one: Comparison, setting: str) -> bool:
    """Whether they differ only in the setting, or in the settings of the other target rule."""
    replaced = {"target.period", "target.period_unit", "target.rule", "target.tau"}
    return set(one.confounds) <= ({setting} if setting == "target.period" else replaced)


def larger_c_recovers(_: Findings) -> Answer:
    return (
        "not testable",
        "games selected as worst on the same runs improve by chance (regression to the mean)",
    )


def _is_annealed(name: str, value: Any) -> bool:
    return "anneal" in name and value not in (None, False, 0, "none", "constant")


def _is_in_value_space(name: str, value: Any) -> bool:
    return name == "proximal.rule" and str(value).startswith("value")


def _variants(findings: Findings, is_one: Callable[[str, Any], bool]) -> list[Comparison]:
    """DQN Pro against every DQN that differs only by being the variant."""
    return [
        one
        for one in findings.comparisons
        if (one.pro.series.agent, one.base.series.agent) == ("dqn-pro", "dqn")
        and any(is_one(name, value) for name, value in one.base.series.settings.items())
        and all(is_one(name, value) for name, (_, value) in one.confounds.items())
    ]


def annealing(findings: Findings) -> Answer:
    """Figure 6: some annealed DQN beats DQN (the paper tuned alpha'), DQN Pro beats all."""
    study, base = findings.study, findings.study.main("dqn")
    variants = _variants(findings, _is_annealed)
    if not variants or base is None:
        return "not testable", "needs DQN, DQN Pro and DQN with annealed step sizes"
    below = [
        _decide(one, one.difference, 0.0, f"IQM of {one.pro.name} − {one.base.name}")
        for one in variants
    ]
    gains = [
        _decide(one, one.difference, 0.0, f"IQM of {one.pro.name} − {one.base.name}")
        for variant in variants
        if (one := compare(study, variant.base, base, findings.resamples)) is not None
    ]
    improves = next((gain for gain in gains if gain[0] == "seen"), None)
    if improves is None:
        improves = _all(gains, "no common games with DQN")
        if any(gain[0] != "contradicted" for gain in gains):
            improves = "not testable", improves[1]
    games = _games_of(study, base, *(one.base for one in variants), variants[0].pro)
    lacks = _lacks(study, games, ANNEALING_GAMES, base, variants[0].pro)
    return _within(lacks, _all([improves, *below], ""), study)


def value_space(findings: Findings) -> Answer:
    """Figure 12: DQN Pro beats every variant, and variants gain little over DQN."""
    study, base = findings.study, findings.study.main("dqn")
    variants = _variants(findings, _is_in_value_space)
    pull = _comparison(findings, "dqn-pro")
    if not variants or base is None or pull is None:
        return "not testable", "needs DQN, DQN Pro and DQN with the proximal term in value space"
    answers: list[Answer] = []
    for one in variants:
        what = f"IQM of {one.pro.name} − {one.base.name}"
        answers.append(_decide(one, one.difference, 0.0, what))
        gain = compare(study, one.base, base, findings.resamples)
        if gain is not None:
            border = LITTLE * pull.difference.value
            what = f"gain of {one.base.name} over {base.name}, half of the pull's is {border:.2f}"
            verdict, text = _decide(gain, gain.difference, border, what)
            answers.append((OPPOSITE[verdict], text))
    games = _games_of(study, base, *(one.base for one in variants), variants[0].pro)
    lacks = _lacks(study, games, VALUE_SPACE_GAMES, base, variants[0].pro)
    return _within(lacks, _all(answers, ""), study)
