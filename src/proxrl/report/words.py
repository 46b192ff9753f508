"""The sentences at the top of a report: the verdicts with their numbers, and what is left out."""

import math
import re
from collections.abc import Sequence

import numpy as np

from proxrl.report.comparisons import FEW_RUNS, FEW_RUNS_OF_A_GAME, Comparison, sync_ratio_estimate
from proxrl.report.findings import Findings
from proxrl.report.intervals import Estimate
from proxrl.report.labels import shown
from proxrl.report.scores import final_window_steps
from proxrl.report.study import StudyResults


def title(study: StudyResults) -> str:
    """The study's own, or its folder's name."""
    return study.about.title or study.name


def figures(study: StudyResults) -> str:
    """Figure 5 left, or Figures 3, 4 left, 7-10; empty if the study names none."""
    named = study.about.figures
    several = len(re.findall(r"\d+", named)) > 1
    return f"Figure{'s' if several else ''} {named}" if named else ""


def lead(study: StudyResults) -> str:
    """55 Atari games · 4 series · 5 seeds · 1,100 runs · 120M frames (30,000,000 agent steps)."""
    kind, _, _ = study.suite.noun.rpartition(" ")  # Atari of "Atari game"
    several = len(study.games) > 1
    parts = [
        _count(len(study.games), study.suite.noun)
        if several
        else f"{kind} {study.games[0]}".strip(),
        f"{len(study.blocks)} series",
        _count(len(study.seeds), "seed"),
        _count(len(study.runs), "run"),
        budget(study).removeprefix("After "),
    ]
    return " · ".join(parts)


def summary(findings: Findings) -> list[str]:
    """The verdicts, a paragraph each."""
    return [f"{head}. {numbers}".strip() for head, numbers in verdicts(findings)]


def verdicts(findings: Findings) -> list[tuple[str, str]]:
    """(who is ahead, without a full stop; sentences with the numbers) of each comparison."""
    study = findings.study
    if not findings.aggregates and not findings.comparisons:
        return [_no_numbers(study)]
    compared = findings.main_comparisons
    found = [(_verdict(one), _numbers(study, one)) for one in compared]
    if found:
        found[0] = f"{budget(study)}, {found[0][0]}", found[0][1]
    told = {block for one in compared for block in (one.pro, one.base)}
    found += [
        (
            f"{one.block.name}: {_format(one.metrics['IQM'])}",
            f"{_measure(study, one.games, one.runs, 'of one run')}."
            + (" Nothing to compare it with." if compared else ""),
        )
        for one in findings.aggregates
        if one.block not in told and (one.block.series.main or not compared)
    ]
    return found


def method(findings: Findings) -> str:
    """How the numbers of the summary were obtained."""
    study = findings.study
    window = final_window_steps(study.budget_steps)
    text = ""
    if findings.has_intervals:
        text = (
            "In brackets: 95% intervals over runs (Student's t with the standard error of a "
            "stratified bootstrap; a permutation test decides whether a difference contains 0; "
            "runs are not paired by seed). "
        )
    text += (
        f"A run's final score is the mean of its {study.episodes_are} episodes in the last "
        f"{window:,.0f} agent steps"
    )
    if study.period_steps > window:
        text += ", or of its last evaluation if that was earlier"
    text += "."
    if (agent := study.scale.reference) and findings.has_intervals:
        text += f" The intervals treat {agent}'s mean, which scales the scores, as known."
    return text


def budget(study: StudyResults) -> str:
    """After 120M frames (30,000,000 agent steps)."""
    steps = f"{study.budget_steps:,} agent steps"
    if not study.in_frames:
        return f"After {steps}"
    return f"After {_short(study.budget_steps * study.frame_skip)} frames ({steps})"


def _verdict(one: Comparison) -> str:
    pro, base = one.pro.name, one.base.name
    if not one.improvement.has_interval:
        return f"{pro} and {base} have too few runs for a ranking"
    if one.ahead == 0:
        return f"{pro} and {base} cannot be told apart"
    first, second = (pro, base) if one.ahead > 0 else (base, pro)
    is_ahead = "scored higher in these few runs than" if one.few else "is ahead of"
    return f"{first} {is_ahead} {second}"


def _numbers(study: StudyResults, one: Comparison) -> str:
    pro, base = one.pro.name, one.base.name
    text = ""
    if one.games:
        scaled = [
            (~np.isnan(block.final[:, list(one.games)])).sum() for block in (one.pro, one.base)
        ]
        measure = _measure(study, len(one.games), int(min(scaled)), "of one run each")
        text = (
            f"{measure}: {_format(one.pro_iqm)} for {pro}, {_format(one.base_iqm)} for {base}, "
            f"a difference of {_format(one.difference, sign=True)}. "
        )
    if one.improvement.has_interval:
        chance = f"beats a {base} run with probability {_format(one.improvement)}"
        if one.improvement_games == 1:
            text += f"A {pro} run {chance}. "
        else:
            won = round(one.wins.value * one.improvement_games)
            text += (
                f"In the same {study.place} a {pro} run {chance}; {pro}'s mean final score is "
                f"higher in {won} of {_all_games(study, one)}. "
            )
    if one.is_the_pull:
        ratio = sync_ratio_estimate(one.pro, one.base)[0]
        if math.isfinite(ratio.value):
            text += f"{pro}'s target updates are {_format(ratio)} times the size of {base}'s."
    return text.strip()


def _measure(study: StudyResults, games: int, runs: int, single: str) -> str:
    """What the numbers of a verdict are; `runs`: of each series."""
    if games == runs == 1:
        return f"Final {study.scale.unit} {single}"
    over = _count(games, study.place) if games > 1 else _count(runs, "run")
    return f"Interquartile mean of the {study.scale.unit} over {over}"


def _all_games(study: StudyResults, one: Comparison) -> str:
    """55 games, including those without a scale, which the gain chart leaves out."""
    unscaled = one.improvement_games - len(one.games)
    text = _count(one.improvement_games, study.place)
    if one.games and unscaled:
        text += f" ({unscaled} of them without a scale and in no other number here)"
    return text


def _no_numbers(study: StudyResults) -> tuple[str, str]:
    """The verdict if there is neither an aggregate nor a comparison."""
    if any(run.status == "finished" for block in study.blocks for run in block.runs):
        return (
            "There is nothing to compare",
            f"These {study.place}s have no common scale, and no two agents share one; final "
            f"returns are in the table of {study.place}s.",
        )
    reached = min(int(run.steps[-1]) for block in study.blocks for run in block.runs)
    return (
        f"No run has reached {study.budget_steps:,} agent steps yet",
        f"There are curves but no final scores. All runs have reached {reached:,}: `proxrl report "
        f"{study.source or study.name} --steps {reached}` compares them there.",
    )


def _format(one: Estimate, sign: bool = False) -> str:
    form = "+.2f" if sign else ".2f"
    text = f"{one.value:{form}}".replace("-", "−")
    if one.has_interval:
        text += f" [{one.low:{form}}, {one.high:{form}}]".replace("-", "−")
    return text


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _short(number: float) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def coverage(findings: Findings) -> list[str]:
    """What the numbers leave out, in sentences; empty when nothing is missing."""
    study = findings.study
    notes: list[str] = []
    unknown = [
        game for game, known in zip(study.games, study.scale.known, strict=True) if not known
    ]
    if study.scale.kind == "human" and unknown:
        notes.append(
            f"{_listed(unknown)} {'has' if len(unknown) == 1 else 'have'} no published human "
            f"score: aggregates are over the other {len(study.games) - len(unknown)} games."
        )
    elif agent := study.scale.reference:
        notes.append(
            f"{study.suite.title} has no human score: 0 is random play, 1 is {agent}'s mean final "
            f"score in this study (so {agent}'s own average is 1 by construction)."
        )
        if unknown:
            notes.append(
                f"{_listed(unknown)}: no {agent} score above random to scale by; left out."
            )
    elif study.scale.kind == "raw":
        notes.append(
            "Returns are raw: there is no human score for these environments"
            + (", so nothing is averaged over environments." if len(study.games) > 1 else ".")
        )
    by_status: dict[str, int] = {}
    for run in study.runs:
        by_status[run.status] = by_status.get(run.status, 0) + 1
    unfinished = [
        f"{by_status[status]} {status}"
        for status in ("running", "stopped", "failed", "corrupt", "duplicate", "mixed")
        if status in by_status
    ]
    if unfinished:
        notes.append(
            f"Of {_count(len(study.runs), 'run')}, {_listed(unfinished)}: not in any final score; "
            "listed under Runs."
        )
    if study.missing:
        shown = [f"{name} on {game} seed {seed}" for name, game, seed in study.missing]
        notes.append(f"{_count(len(shown), 'run')} missing: {_listed(shown, 6)}.")
    notes += _single_runs(study) + _few_runs(findings) + _confounds(findings)
    counts = {one.games for one in findings.aggregates}
    if len(counts) > 1:
        notes.append(
            "Series cover different games: compare aggregates only between series with the same "
            "number of games; pairs are always compared on common games."
        )
    return notes


def _single_runs(study: StudyResults) -> list[str]:
    """Series that have no interval because a game has one finished run."""
    finished = [(~np.isnan(block.final)).sum(axis=0) for block in study.blocks]
    if all((runs == 1).all() for runs in finished):
        each = "each series" if len(study.games) == 1 else f"each series per {study.place}"
        return [f"One finished run of {each}: no intervals."]
    parts = []
    for block, runs in zip(study.blocks, finished, strict=True):
        if (runs == 1).any():
            parts.append(f"{(runs == 1).sum()} of {_count(int((runs > 0).sum()), study.place)}")
            parts[-1] += f" of {block.name}"
    if not parts:
        return []
    return [f"Only one finished run in {_listed(parts)}: no intervals there."]


def _few_runs(findings: Findings) -> list[str]:
    few = [one for one in findings.main_comparisons if one.few and one.improvement.has_interval]
    if not few:
        return []
    runs, fewest = min(one.runs for one in few), min(one.fewest for one in few)
    study = findings.study
    if len(study.games) == 1:
        found = f"{_count(runs, 'run')} per series; below {FEW_RUNS}"
    else:
        found = (
            f"{_count(runs, 'run')} per series, {fewest} in the {study.place} with the fewest; "
            f"below {FEW_RUNS} per series or {FEW_RUNS_OF_A_GAME} per {study.place}"
        )
    return [f"Intervals are based on {found}, they decide nothing."]


def _confounds(findings: Findings) -> list[str]:
    """Pairs with and without the pull in which other settings differ too."""
    notes = []
    for one in findings.main_comparisons:
        pro, base = one.pro.series, one.base.series
        if pro.agent == f"{base.agent}-pro" and one.confounds:
            differing = [
                f"{name} ({shown(left) or 'none'} and {shown(right) or 'none'})"
                for name, (left, right) in one.confounds.items()
            ]
            notes.append(
                f"{pro.name} and {base.name} differ in more than the pull: {_listed(differing)}. "
                "Differences in score are not due to the pull alone and decide no claim."
            )
    return notes


def _listed(items: Sequence[str], most: int = 12) -> str:
    shown = list(items[:most])
    if len(items) > most:
        shown.append(f"{len(items) - most} more")
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
