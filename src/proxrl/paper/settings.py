"""Claims about settings: seen if all runs have them; runs with others cannot test them."""

import math
from typing import Any

from proxrl.paper.scope import atari_blocks, equal
from proxrl.paper.verdict import Answer, Check
from proxrl.report import scores
from proxrl.report.findings import Findings
from proxrl.report.study import Block, StudyResults


def setting(agents: tuple[str, ...], unchecked: str = "", **wanted: Any) -> Check:
    """Whether all runs of these agents have the paper's values (`__` replaces the dot); `unchecked`
    is the part of the claim that settings do not express."""
    paper = {name.replace("__", "."): value for name, value in wanted.items()}

    def check(findings: Findings) -> Answer:
        blocks = atari_blocks(findings.study, agents)
        if not blocks:
            return "not testable", f"no Atari runs of {' or '.join(agents)}"
        found = {name: _values(findings.study, blocks, name) for name in paper}
        other = [
            f"{name} = {', '.join(map(str, got))}"
            for name, got in found.items()
            if not all(equal(value, paper[name]) for value in got)
        ]
        if other:
            return "not testable", f"these runs have {'; '.join(other)}"
        text = "; ".join(f"{name} = {value}" for name, value in paper.items())
        return (
            ("seen in part", f"{text}; not checked: {unchecked}") if unchecked else ("seen", text)
        )

    return check


def _values(study: StudyResults, blocks: list[Block], name: str) -> list[Any]:
    if name in study.protocol:
        return [study.protocol[name]]
    main = [block for block in blocks if block.series.main] or blocks
    return list(dict.fromkeys(block.series.settings.get(name) for block in main))


def the_games(findings: Findings) -> Answer:
    if findings.study.suite_name != "atari":
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
    if findings.study.suite_name != "atari":
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
