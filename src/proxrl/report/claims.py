"""The paper's 66 checkable claims against a study: seen, contradicted, or not testable here.

A claim about settings is *seen* when the runs follow it; runs that do otherwise cannot test it. A
claim about performance is seen or contradicted only when a 95% interval decides it. Which games
and how long is part of every answer: the paper's are 55 Atari games and 120M frames.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from proxrl.report import scores
from proxrl.report.findings import Comparison, Findings
from proxrl.report.statistics import Estimate, nanmean
from proxrl.report.study import Block, Study
from proxrl.types import Array

Verdict = Literal["seen", "contradicted", "not testable"]
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


Check = Callable[[Findings], tuple[Verdict, str]]


def check_claims(findings: Findings) -> list[Claim]:
    """All 66, in the paper's order."""
    return [
        Claim(row["id"], row["figure"], row["claim"], row["number"], *CHECKS[row["id"]](findings))
        for row in scores.read_table("paper_claims.csv")
    ]


# ------------------------------------------------------------------------------ kinds of checks


def _elsewhere(where: str) -> Check:
    return lambda _: ("not testable", f"not a matter of runs: {where}")


PLAN = _elsewhere("`proxrl plan --theory` checks it")
FIGURE_1 = _elsewhere("`proxrl plan` draws it")


def _setting(agents: tuple[str, ...], **wanted: Any) -> Check:
    """Do all runs of these agents have the paper's values? `__` stands for the dot."""
    values = {name.replace("__", "."): value for name, value in wanted.items()}

    def check(findings: Findings) -> tuple[Verdict, str]:
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
        return "seen", "; ".join(f"{name} = {value}" for name, value in values.items())

    return check


DQN = ("dqn", "dqn-pro")
RAINBOW = ("rainbow", "rainbow-pro")


def _atari(study: Study, agents: Iterable[str]) -> list[Block]:
    return [b for b in study.blocks if study.family == "atari" and b.series.agent in agents]


def _values(study: Study, blocks: list[Block], name: str) -> list[Any]:
    if name in study.protocol:
        return [study.protocol[name]]
    main = [block for block in blocks if block.series.main] or blocks
    return list(dict.fromkeys(block.series.settings.get(name) for block in main))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other)
    return bool(one == other)


def _comparison(findings: Findings, pro: str) -> Comparison | None:
    found = (one for one in findings.main_comparisons if one.pro.series.agent == pro)
    return next(found, None)


def _decide(one: Comparison, estimate: Estimate, border: float, what: str) -> tuple[Verdict, str]:
    """By the estimate's interval, if there are runs enough to believe it."""
    if not estimate.has_interval:
        return "not testable", f"{what}: {estimate.value:.2f}, one run each and so no interval"
    said = f"{what}: {estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
    if one.few:
        return "not testable", f"only {one.runs} runs; {said}"
    if estimate.low > border:
        return "seen", said
    if estimate.high < border:
        return "contradicted", said
    return "not testable", f"undecided: {said}"


def _scope(study: Study) -> str:
    of = {"atari": "Atari", "minatar": "MinAtar"}.get(study.family, "other")
    steps = f"{study.budget_steps:,} steps"
    return f"{len(study.games)} {of} game{'s' * (len(study.games) != 1)}, {steps}"


# ---------------------------------------------------------------------------------- single checks


def _games(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    missing = sorted(set(scores.paper_games()) - set(findings.study.games))
    extra = sorted(set(findings.study.games) - set(scores.paper_games()))
    if not missing and not extra:
        return "seen", "the same 55 games"
    have = 55 - len(missing)
    return "not testable", f"these runs have {have} of the 55" + (f" and {extra}" if extra else "")


def _seeds(findings: Findings) -> tuple[Verdict, str]:
    study = findings.study
    complete = study.seeds == (0, 1, 2, 3, 4) and not study.missing
    seeds = ", ".join(map(str, study.seeds))
    said = f"seeds {seeds}" + (f", {len(study.missing)} runs missing" if study.missing else "")
    return ("seen" if complete else "not testable"), said


def _sticky(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.family != "atari":
        return "not testable", "no Atari runs"
    sticky = findings.study.protocol["protocol.sticky_actions"]
    return ("seen" if sticky > 0 else "not testable"), f"protocol.sticky_actions = {sticky}"


def _returns(findings: Findings) -> tuple[Verdict, str]:
    said = str(findings.study.protocol.get("returns", "not recorded"))
    return ("seen" if said.startswith("evaluation, undiscounted") else "not testable"), said


def _human_table(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.scale.kind != "human":
        return "not testable", "no Atari runs"
    return "seen", f"no-op table, {int(findings.study.scale.known.sum())} of these games"


def _formula(findings: Findings) -> tuple[Verdict, str]:
    if findings.study.scale.kind != "human":
        return "not testable", f"no human scores here; scale: {findings.study.scale.unit}"
    return "seen", "the formula this report uses (tests/report/test_scores.py)"


def _same_c(findings: Findings) -> tuple[Verdict, str]:
    pros = [b for b in findings.study.blocks if math.isfinite(b.series.c)]
    if not pros:
        return "not testable", "no runs with a pull"
    values = {
        agent: sorted({b.series.c for b in pros if b.series.agent == agent})
        for agent in dict.fromkeys(b.series.agent for b in pros)
    }
    said = "; ".join(
        f"{agent}: c = {', '.join(f'{c:g}' for c in cs)}" for agent, cs in values.items()
    )
    single = all(len(cs) == 1 for cs in values.values())
    return ("seen" if single else "not testable"), said


def _lipschitz(findings: Findings) -> tuple[Verdict, str]:
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


def _best_c(findings: Findings) -> tuple[Verdict, str]:
    answers = []
    for agent, claimed in (("dqn-pro", 0.2), ("rainbow-pro", 0.05)):
        grid = {
            one.block.series.c: one.metrics["IQM"]
            for one in findings.aggregates
            if one.block.series.agent == agent
        }
        if len(grid) < 3 or claimed not in grid:
            continue
        best = max(grid, key=lambda c: grid[c].value)
        said = f"{agent}: best c = {best:g} of {len(grid)} ({_scope(findings.study)})"
        if best == claimed:
            answers.append(("seen", said))
        elif grid[best].low > grid[claimed].high:
            answers.append(("contradicted", said))
        else:
            answers.append(("not testable", f"undecided: {said}, intervals overlap"))
    return _all(answers, "needs runs of a pro agent with at least three c, the paper's among them")


def _all(answers: list[Any], otherwise: str) -> tuple[Verdict, str]:
    """Seen if all are; contradicted if one is."""
    if not answers:
        return "not testable", otherwise
    said = "; ".join(why for _, why in answers)
    for verdict in ("contradicted", "not testable"):
        if any(got == verdict for got, _ in answers):
            return verdict, said
    return "seen", said


def _most_games(pro: str) -> Check:
    def check(findings: Findings) -> tuple[Verdict, str]:
        one = _comparison(findings, pro)
        if one is None:
            return "not testable", f"no finished {pro} runs beside those without the pull"
        what = f"share of games in which {one.pro.name} is ahead ({_scope(findings.study)})"
        return _decide(one, one.wins, 0.5, what)

    return check


def _median_is(pro: str, number: float) -> Check:
    def check(findings: Findings) -> tuple[Verdict, str]:
        study = findings.study
        block = study.main(pro)
        found = next((one for one in findings.aggregates if one.block is block), None)
        frames = study.budget_steps * study.frame_skip
        if study.family != "atari" or found is None or found.games < 51 or frames != 120_000_000:
            return "not testable", f"needs {pro} on 51 games for 120M frames"
        median = found.metrics["median"]
        said = f"median {median.value:.2f} [{median.low:.2f}, {median.high:.2f}]"
        if not median.has_interval:
            return "not testable", said
        rounding = 0.05
        inside = median.low - rounding <= number <= median.high + rounding
        return ("seen" if inside else "contradicted"), said

    return check


def _medians(findings: Findings) -> tuple[Verdict, str]:
    answers = []
    for pro in ("dqn-pro", "rainbow-pro"):
        one = _comparison(findings, pro)
        if one is not None and one.games:
            what = f"median of {one.pro.name} − {one.base.name} ({_scope(findings.study)})"
            answers.append(_decide(one, one.median_difference, 0.0, what))
    return _all(answers, "no finished pairs with and without the pull")


def sync_ratios(pro: Block, base: Block) -> Array:
    """Mean size of pro's target updates over base's, [games]; NaN where one has none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sizes = [nanmean(nanmean(b.curves["sync_distance"]).T) for b in (pro, base)]
        return np.asarray(sizes[0] / sizes[1])


def _sync(findings: Findings) -> tuple[Verdict, str]:
    answers: list[tuple[Verdict, str]] = []
    for one in findings.main_comparisons:
        ratios = sync_ratios(one.pro, one.base)
        ratios = ratios[np.isfinite(ratios)]
        if not len(ratios):
            continue
        smaller = int((ratios < 1).sum())
        said = (
            f"{one.pro.name} / {one.base.name}: {np.exp(np.log(ratios).mean()):.2f}, smaller in "
            f"{smaller} of {len(ratios)} games"
        )
        if smaller == len(ratios):
            answers.append(("seen", said))
        else:
            verdict: Verdict = "contradicted" if 2 * smaller < len(ratios) else "not testable"
            answers.append((verdict, said))
    return _all(answers, "no pairs with and without the pull")


def _beats_every(setting: str, claimed: tuple[float, ...]) -> Check:
    """DQN Pro against each DQN of a grid (Figure 5)."""

    def check(findings: Findings) -> tuple[Verdict, str]:
        answers = []
        have = []
        for one in findings.comparisons:
            settings = one.base.series.settings
            if one.pro.series.agent != "dqn-pro" or one.base.series.agent != "dqn":
                continue
            if settings.get(setting) is None:
                continue
            have.append(settings[setting])
            answers.append(_decide(one, one.difference, 0.0, f"IQM difference to {one.base.name}"))
        if len(have) < 2:
            return "not testable", f"needs DQN Pro and DQN with {setting} in {claimed}"
        verdict, said = _all(answers, "")
        return verdict, f"{said} ({_scope(findings.study)})"

    return check


def _recovers(findings: Findings) -> tuple[Verdict, str]:
    study = findings.study
    by_c = {b.series.c: b for b in study.blocks if b.series.agent == "rainbow-pro"}
    base = study.main("rainbow")
    if base is None or not {0.05, 0.1} <= by_c.keys():
        return "not testable", "needs rainbow, and rainbow-pro with c = 0.05 and 0.1"
    small, large = (
        scores.gain(by_c[c].mean_final, base.mean_final, study.scale) for c in (0.05, 0.1)
    )
    both = np.flatnonzero(np.isfinite(small) & np.isfinite(large))
    if len(both) < 8:
        return "not testable", f"needs 8 games with both, these runs have {len(both)}"
    order = both[np.argsort(small[both])]
    worst, best = order[:4], order[-4:]
    recovered = float(np.mean(large[worst]) - np.mean(small[worst]))
    kept = float(np.mean(large[best]))
    said = f"worst four {recovered:+.2f} in gain, best four keep {kept:+.2f}; no interval"
    return ("seen" if recovered > 0 and kept > 0 else "contradicted"), said


def _variant(findings: Findings, is_one: Callable[[str, Any], bool], needs: str) -> Any:
    """DQN-like blocks whose settings say that they are the variant asked for."""
    blocks = [
        one.base
        for one in findings.comparisons
        if any(is_one(name, value) for name, value in one.base.series.settings.items())
    ]
    return blocks or f"needs runs with {needs}"


def _annealed(findings: Findings) -> tuple[Verdict, str]:
    off = (None, False, 0, "none", "constant")
    found = _variant(
        findings, lambda name, value: "anneal" in name and value not in off, "annealed step sizes"
    )
    if isinstance(found, str):
        return "not testable", found
    answers = [
        _decide(one, one.difference, 0.0, f"IQM of {one.pro.name} − {one.base.name}")
        for one in findings.comparisons
        if one.base in found
    ]
    return _all(answers, "")


def _value_space(findings: Findings) -> tuple[Verdict, str]:
    found = _variant(
        findings,
        lambda name, value: name == "proximal.rule" and str(value).startswith("value"),
        "the proximal term in value space",
    )
    if isinstance(found, str):
        return "not testable", found
    answers = [
        _decide(one, one.difference, 0.0, f"IQM of {one.pro.name} − {one.base.name}")
        for one in findings.comparisons
        if one.base in found
    ]
    return _all(answers, "")


PULL = _elsewhere("tests/proximal checks it")
CHECKS: dict[str, Check] = {
    "C01": _games,
    "C02": _seeds,
    "C03": _sticky,
    "C04": _returns,
    "C05": _human_table,
    "C06": _setting(DQN, replay__capacity=200_000),
    "C07": _setting(DQN, target__period=8_000),
    "C08": _setting((*DQN, *RAINBOW), protocol__max_episode_steps=27_000),
    "C09": _setting((*DQN, *RAINBOW), evaluation__period_steps=10_000),
    "C10": _setting(DQN, replay__batch_size=64),
    "C11": _setting(DQN, learner__update_period_steps=4),
    "C12": _setting((*DQN, *RAINBOW), protocol__frame_skip=4),
    "C13": _setting((*DQN, *RAINBOW), evaluation__episodes=2),
    "C14": _setting(DQN, replay__n_step=1),
    "C15": _setting(DQN, exploration__final_epsilon=0.01),
    "C16": _setting((*DQN, *RAINBOW), evaluation__epsilon=0.001),
    "C17": _setting(DQN, exploration__decay_steps=250_000),
    "C18": _setting(DQN, replay__warmup_steps=20_000),
    "C19": _setting(DQN, learner__learning_rate=1e-4),
    "C20": _setting(DQN, learner__discount=0.99),
    "C21": _setting((*DQN, *RAINBOW), steps=30_000_000),
    "C22": _elsewhere("every agent here uses Adam"),
    "C23": _setting(DQN, network__kind="nature"),
    "C24": _setting(RAINBOW, replay__batch_size=64),
    "C25": _setting(
        RAINBOW,
        replay__n_step=3,
        replay__warmup_steps=20_000,
        learner__learning_rate=6.25e-5,
        learner__adam_epsilon=1.5e-4,
        target__period=8_000,
    ),
    "C26": _setting(("dqn-pro",), c=0.2),
    "C27": _setting(("rainbow-pro",), c=0.05),
    "C28": _same_c,
    "C29": _elsewhere("not needed to reproduce"),
    **dict.fromkeys(("C30", "C31", "C32", "C33"), PULL),
    "C34": _elsewhere("`python -m benchmarks.overhead` measures it"),
    "C35": _lipschitz,
    **{f"C{number}": PLAN for number in range(36, 48)},
    **{f"C{number}": FIGURE_1 for number in range(48, 53)},
    "C53": _best_c,
    "C54": _formula,
    "C55": _most_games("dqn-pro"),
    "C56": _most_games("rainbow-pro"),
    "C57": _formula,
    "C58": _median_is("dqn-pro", 1.0),
    "C59": _median_is("rainbow-pro", 2.2),
    "C60": _medians,
    "C61": _sync,
    "C62": _beats_every("target.period", PERIODS),
    "C63": _beats_every("target.tau", TAUS),
    "C64": _annealed,
    "C65": _recovers,
    "C66": _value_space,
}
