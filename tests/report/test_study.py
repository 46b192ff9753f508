"""Series, arrays and the sentences about them."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proxrl.errors import UserError
from proxrl.report.baselines import load
from proxrl.report.figures import all_figures
from proxrl.report.figures.curves import median_curve
from proxrl.report.figures.drawing import _short, gain_limits, gain_ticks, step_to
from proxrl.report.findings import examine
from proxrl.report.runs import read_runs
from proxrl.report.series import group
from proxrl.report.study import StudyResults, gather
from proxrl.report.words import coverage, lead, method, summary
from proxrl.runs.record import Run
from tests.report.synthetic import preset, write_run


def write(root: Path, agent: str, env: str, seed: int, level: float, until=None, **changes) -> None:
    settings = {
        "evaluation.period_steps": 1000,
        "evaluation.episodes": 2,
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    config = preset(agent, env, settings, seed=seed, steps=10_000)
    name = "_".join([agent, env.replace("/", "-"), str(seed), *map(str, changes.values())])
    write_run(root / name, config, lambda step: [level, level + 2], until)


def names(root: Path) -> list[str]:
    return [series.name for series in group(usable(root))]


def usable(root: Path) -> list[Run]:
    return [run for run in read_runs(root) if run.usable]


def study_of(root: Path, steps: int | None = None) -> StudyResults:
    return gather("study", read_runs(root), steps)


# ---------------------------------------------------------------------------------------- series


def test_seeds_and_games_make_no_series(tmp_path: Path) -> None:
    for agent in ("dqn-pro", "dqn"):
        for env in ("MinAtar/Breakout-v1", "MinAtar/Asterix-v1"):
            write(tmp_path, agent, env, 0, 1.0)
            write(tmp_path, agent, env, 1, 1.0)
    assert names(tmp_path) == ["DQN", "DQN Pro"]


def test_settings_that_vary_make_series(tmp_path: Path) -> None:
    for period in (500, 1000, 2000):
        write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 1.0, target__period=period)
    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 1.0, target__rule="polyak", target__tau=0.05)
    write(tmp_path, "dqn-pro", "MinAtar/Breakout-v1", 0, 1.0)
    groups = list(group(usable(tmp_path)))
    assert groups[0].main
    assert [series.name for series in groups] == [
        "DQN (period 1,000)",
        "DQN (period 500)",
        "DQN (period 2,000)",
        "DQN (Polyak)",
        "DQN Pro",
    ]
    assert len({series.colour for series in groups}) == 5


def test_one_period_among_several_taus(tmp_path: Path) -> None:
    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 1.0)
    for tau in (0.05, 0.005):
        changes = {"target__rule": "polyak", "target__tau": tau}
        write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 1.0, **changes)
    assert names(tmp_path) == ["DQN (periodic)", "DQN (Polyak, τ 0.005)", "DQN (Polyak, τ 0.05)"]


def test_a_grid_of_c_is_named_by_c_however_it_was_set(tmp_path: Path) -> None:
    env = "MinAtar/Breakout-v1"
    write(tmp_path, "dqn-pro", env, 0, 1.0)  # c = 0.25
    write(tmp_path, "dqn-pro", env, 1, 1.0, proximal__pull_per_sync=0.25)  # the same c
    write(tmp_path, "dqn-pro", env, 0, 1.0, proximal__c=0.0625)
    assert names(tmp_path) == ["DQN Pro (c 0.25)", "DQN Pro (c 0.0625)"]


def test_the_papers_colours() -> None:
    from proxrl.report.series import COLOURS

    def hue(agent: str) -> str:
        red, green, blue = (int(COLOURS[agent][0][at : at + 2], 16) for at in (1, 3, 5))
        if red > 180 and green > 130:
            return "yellow"
        return max(("red", red), ("green", green), ("blue", blue), key=lambda one: one[1])[0]

    agents = ("dqn", "dqn-pro", "rainbow", "rainbow-pro")
    assert [hue(agent) for agent in agents] == ["blue", "red", "green", "yellow"]


def test_shades_differ_from_each_other_and_from_the_paper() -> None:
    """Their relative luminance leaves a contrast of at least 1.5 with white (WCAG 2.1)."""
    from proxrl.report.series import COLOURS, _shade

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for on_paper, _ in COLOURS.values():
        for count in range(1, 7):
            shades = [_shade(on_paper, place, count) for place in range(count)]
            assert shades[0] == on_paper
            assert len(set(shades)) == count
            assert all(1.05 / (luminance(shade) + 0.05) >= 1.5 for shade in shades)


def test_an_agent_of_another_version_is_still_reported(tmp_path: Path) -> None:
    write(tmp_path, "dreamer", "CartPole-v1", 0, 1.0)
    assert names(tmp_path) == ["dreamer"]


# ---------------------------------------------------------------------------------------- arrays


def test_arrays_are_seeds_by_games_with_holes(tmp_path: Path) -> None:
    for seed in (0, 1):
        write(tmp_path, "dqn", "MinAtar/Breakout-v1", seed, 9.0 + seed)
        write(tmp_path, "dqn-pro", "MinAtar/Breakout-v1", seed, 14.0)
    write(tmp_path, "dqn", "MinAtar/Asterix-v1", 0, 3.0)
    write(tmp_path, "dqn-pro", "MinAtar/Asterix-v1", 0, 3.0, until=5000)
    study = study_of(tmp_path)
    assert study.games == ("Asterix", "Breakout")
    assert study.seeds == (0, 1)
    dqn, pro = study.blocks
    np.testing.assert_array_equal(dqn.final, [[4.0, 10.0], [np.nan, 11.0]])
    np.testing.assert_array_equal(pro.final, [[np.nan, 15.0], [np.nan, 15.0]])
    assert np.isfinite(pro.curves["eval_return"][0, 0, :5]).all()  # not finished, but drawn
    assert np.isnan(pro.curves["eval_return"][0, 0, 5:]).all()
    assert study.missing == (("DQN", "Asterix", 1), ("DQN Pro", "Asterix", 1))
    assert study.scale.high.tolist() == [4.0, 10.5]
    notes = " ".join(coverage(examine(study, 50)))
    assert "1 stopped" in notes
    assert "DQN on Asterix seed 1" in notes
    assert "DQN's mean final score" in notes


def test_main_series_miss_what_their_neighbours_have(tmp_path: Path) -> None:
    for game in ("Breakout", "Asterix"):
        for seed in (0, 1):
            write(tmp_path, "dqn", f"MinAtar/{game}-v1", seed, 9.0)
    write(tmp_path, "dqn-pro", "MinAtar/Asterix-v1", 0, 9.0)
    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 9.0, target__period=500)  # not a main one
    assert study_of(tmp_path).missing == (
        ("DQN Pro", "Asterix", 1),
        ("DQN Pro", "Breakout", 0),
        ("DQN Pro", "Breakout", 1),
    )


def test_a_run_that_cannot_be_read_is_not_missing_too(tmp_path: Path) -> None:
    for seed in (0, 1):
        write(tmp_path, "dqn", "MinAtar/Asterix-v1", seed, 9.0)
        write(tmp_path, "dqn-pro", "MinAtar/Asterix-v1", seed, 9.0)
    (tmp_path / "dqn-pro_MinAtar-Asterix-v1_1" / "metrics.jsonl").write_text("broken\n")
    study = study_of(tmp_path)
    assert [run.status for run in study.runs].count("corrupt") == 1
    assert study.missing == ()


def test_curves_keep_200_points_at_most(tmp_path: Path) -> None:
    settings = {"evaluation.period_steps": 10, "evaluation.episodes": 1}
    config = preset("dqn", "CartPole-v1", settings, steps=4105)
    write_run(tmp_path / "run", config, lambda step: [float(step)])
    study = study_of(tmp_path)
    assert study.evaluations_per_point == 3  # 411 evaluations
    assert len(study.points) == 137
    assert study.points[:2].tolist() == [30, 60]
    assert study.points[-1] == 4105
    curve = study.blocks[0].curves["eval_return"][0, 0]
    assert curve[0] == pytest.approx(20.0)  # mean of 10, 20, 30
    assert curve[-1] == pytest.approx((4090 + 4100 + 4105) / 3)


def test_two_versions_of_a_game_are_no_repetition(tmp_path: Path) -> None:
    write(tmp_path, "dqn", "MinAtar/Breakout-v0", 0, 1.0)
    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 1.0)
    with pytest.raises(UserError, match="keep one of them"):
        study_of(tmp_path)


# ----------------------------------------------------------------------------------------- words


def pair(root: Path, pro: tuple[float, ...], base: tuple[float, ...]) -> str:
    for agent, levels in (("dqn-pro", pro), ("dqn", base)):
        for seed, level in enumerate(levels):
            write(root, agent, "CartPole-v1", seed, level)
    return summary(examine(study_of(root), 500))[0]


def test_who_is_ahead(tmp_path: Path) -> None:
    text = pair(tmp_path, (200, 210, 220, 215) * 3, (100, 110, 105, 120) * 3)
    assert text.startswith("After 10,000 agent steps, DQN Pro is ahead of DQN. ")
    assert "probability 1.00 [0.74, 1.00]" in text  # 12 independent pairs
    assert "Interquartile mean of the return over 12 runs: " in text


def test_who_is_behind(tmp_path: Path) -> None:
    text = pair(tmp_path, (1, 2, 3, 2) * 3, (100, 110, 105, 120) * 3)
    assert "DQN is ahead of DQN Pro" in text


def test_few_runs_lead_but_decide_nothing(tmp_path: Path) -> None:
    text = pair(tmp_path, (200, 210, 220, 215, 205), (100, 110, 105, 120, 115))
    assert "DQN Pro scored higher in these few runs than DQN" in text
    assert "based on 5 runs per series; below 10, they decide nothing" in " ".join(
        coverage(examine(study_of(tmp_path), 50))
    )


def test_what_cannot_be_told(tmp_path: Path) -> None:
    text = pair(tmp_path, (90, 130, 100, 120), (100, 110, 105, 120))
    assert "cannot be told apart" in text


def test_one_seed_ranks_nothing(tmp_path: Path) -> None:
    text = pair(tmp_path, (200,), (100,))
    assert "too few runs for a ranking" in text
    assert "[" not in text


def test_one_extra_seed_in_one_game_ranks_nothing(tmp_path: Path) -> None:
    games = ("Alien", "Amidar", "Assault", "Asterix", "Boxing", "Breakout")
    for game, seed in [*((game, 0) for game in games), ("Breakout", 1)]:
        write(tmp_path, "dqn-pro", f"ALE/{game}-v5", seed, 5000.0)
        write(tmp_path, "dqn", f"ALE/{game}-v5", seed, 3000.0)
    found = examine(study_of(tmp_path), 100)
    assert not found.main_comparisons[0].difference.has_interval
    assert not found.aggregates[0].metrics["IQM"].has_interval
    assert "too few runs for a ranking" in summary(found)[0]
    notes = " ".join(coverage(found))
    assert "Only one finished run in 5 of 6 games of DQN and 5 of 6 games of DQN Pro" in notes


def test_two_runs_a_game_are_few_however_many_games(tmp_path: Path) -> None:
    for game in ("Alien", "Amidar", "Assault", "Asterix", "Boxing"):
        for seed in (0, 1):
            write(tmp_path, "dqn-pro", f"ALE/{game}-v5", seed, 5000.0 + seed)
            write(tmp_path, "dqn", f"ALE/{game}-v5", seed, 3000.0 + seed)
    found = examine(study_of(tmp_path), 100)
    assert (found.main_comparisons[0].runs, found.main_comparisons[0].fewest) == (10, 2)
    assert "scored higher in these few runs" in summary(found)[0]


def test_what_differs_besides_the_pull_is_named(tmp_path: Path) -> None:
    for seed in range(10):
        write(tmp_path, "dqn-pro", "CartPole-v1", seed, 200.0 + seed, learner__learning_rate=1e-4)
        write(tmp_path, "dqn", "CartPole-v1", seed, 100.0 + seed, learner__learning_rate=1e-2)
    found = examine(study_of(tmp_path), 100)
    assert found.main_comparisons[0].confounds == {"learner.learning_rate": (1e-4, 1e-2)}
    assert not found.pulls
    notes = " ".join(coverage(found))
    assert "differ in more than the pull: learner.learning_rate (0.0001 and 0.01)" in notes


def test_the_pull_alone_is_no_confound(tmp_path: Path) -> None:
    write(tmp_path, "dqn-pro", "CartPole-v1", 0, 2.0)
    write(tmp_path, "dqn", "CartPole-v1", 0, 1.0)
    found = examine(study_of(tmp_path), 10)
    assert found.pulls[0].confounds == {}
    assert "differ in more" not in " ".join(coverage(found))


def test_the_area_has_a_difference_of_its_own(tmp_path: Path) -> None:
    """DQN Pro ends 10 above DQN and is 20 below it before: (9 x -20 + 10) / 10 = -17."""
    for agent, early, late in (("dqn-pro", 80.0, 110.0), ("dqn", 100.0, 100.0)):
        for seed in range(6):
            config = preset(agent, "CartPole-v1", {"evaluation.period_steps": 1000}, seed=seed)
            config = config.override({"steps": 10_000})
            write_run(
                tmp_path / f"{agent}-{seed}",
                config,
                lambda step, early=early, late=late, seed=seed: [
                    (late if step == 10_000 else early) + seed
                ],
            )
    one = examine(study_of(tmp_path), 500).main_comparisons[0]
    assert (one.difference.value, one.area_difference.value) == pytest.approx((10.0, -17.0))
    assert one.difference.low > 0.0
    assert one.area_difference.high < 0.0


def test_of_a_large_family_the_main_series_and_dqn_are_compared_with_the_rest(
    tmp_path: Path,
) -> None:
    c = (0.1, 0.2, 0.3, 0.4)
    write(tmp_path, "dqn", "CartPole-v1", 0, 9.0)
    write(tmp_path, "dqn-pro", "CartPole-v1", 0, 9.0)
    write(tmp_path, "dqn", "CartPole-v1", 0, 9.0, learner__learning_rate=1e-4)
    write(tmp_path, "dqn", "CartPole-v1", 0, 9.0, learner__learning_rate=1e-5)
    for value in c[:2]:
        write(tmp_path, "dqn-pro", "CartPole-v1", 0, 9.0, proximal__c=value)
    compared = [{one.pro, one.base} for one in examine(study_of(tmp_path), 10).comparisons]
    assert len(compared) == 15  # of 6 series
    assert all(compared.count(pair) == 1 for pair in compared)
    for value in c[2:]:  # 8 series: DQN Pro and DQN against each other and the other 6
        write(tmp_path, "dqn-pro", "CartPole-v1", 0, 9.0, proximal__c=value)
    assert len(examine(study_of(tmp_path), 10).comparisons) == 13


def test_games_without_a_common_scale_are_ranked_run_by_run(tmp_path: Path) -> None:
    for env, level in (("CartPole-v1", 100.0), ("Acrobot-v1", -300.0)):
        for seed in range(6):
            write(tmp_path, "dqn-pro", env, seed, level + 20 + seed)
            write(tmp_path, "dqn", env, seed, level + seed)
    found = examine(study_of(tmp_path), 200)
    assert not found.aggregates  # nothing is averaged over games
    text = summary(found)[0]
    first = "After 10,000 agent steps, DQN Pro is ahead of DQN. In the same environment"
    assert text.startswith(first)
    assert "is higher in 2 of 2 environments" in text
    assert "nothing is averaged" in " ".join(coverage(found))


def test_a_series_without_a_partner_has_a_sentence_too(tmp_path: Path) -> None:
    for agent, level in (("dqn", 1.0), ("dqn-pro", 2.0), ("rainbow-pro", 3.0)):
        write(tmp_path, agent, "CartPole-v1", 0, level)
    sentences = summary(examine(study_of(tmp_path), 10))
    assert len(sentences) == 2
    assert sentences[1].startswith("Rainbow Pro: 4.00. Final return of one run.")
    assert "Nothing to compare it with" in sentences[1]


def test_the_budget_is_stated_once_and_the_games_are_counted(tmp_path: Path) -> None:
    for game in ("Alien", "AirRaid"):  # AirRaid has no human score
        for agent in ("dqn", "dqn-pro", "rainbow", "rainbow-pro"):
            for seed in (0, 1):
                write(tmp_path, agent, f"ALE/{game}-v5", seed, 500.0 + len(agent))
    sentences = summary(examine(study_of(tmp_path), 10))
    assert [text.startswith("After 40k frames") for text in sentences] == [True, False]
    assert "in 2 of 2 games (1 of them without a scale" in sentences[0]


def test_the_method_says_how_final_scores_were_made(tmp_path: Path) -> None:
    """Evaluations every 1,000 steps, a window of 500; then one of 2,000."""
    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 9.0)
    text = method(examine(study_of(tmp_path), 10))
    assert text.endswith("last 500 agent steps, or of its last evaluation if that was earlier.")
    assert "interval" not in text  # one run has none
    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 1, 10.0)
    text = method(examine(study_of(tmp_path), 10))
    assert text.startswith("In brackets: 95% intervals over runs")
    assert "The intervals treat DQN's mean, which scales the scores, as known" in text
    longer = replace(study_of(tmp_path), budget_steps=40_000)
    assert "in the last 2,000 agent steps. " in method(examine(longer, 10))


def test_the_median_curve_ends_where_its_first_game_does(tmp_path: Path) -> None:
    """Beyond, it would be the median of other games."""
    write(tmp_path, "dqn", "ALE/Alien-v5", 0, 1000.0)
    write(tmp_path, "dqn", "ALE/Amidar-v5", 0, 100.0, until=4000)
    plot = median_curve(study_of(tmp_path), ())
    assert plot is not None
    assert np.isfinite(plot.panels[0].lines[0].y).tolist() == [True] * 4 + [False] * 6


def test_a_published_game_without_numbers_leaves_the_others_median(tmp_path: Path) -> None:
    for game in ("Alien", "Amidar"):
        write(tmp_path, "dqn", f"ALE/{game}-v5", 0, 1000.0)
    study = study_of(tmp_path)
    published = load(study.games, "legacy", "dqn")
    alien = study.scale(published.mean.T)[:, 0]
    published.mean[1] = np.nan
    plot = median_curve(study, (published,))
    assert plot is not None
    assert plot.panels[0].lines[1].y == pytest.approx(alien)
    assert "Dopamine, number of games 1: " in plot.caption


def test_the_axis_of_gains_fits_the_gains() -> None:
    values = np.array([-0.4, 0.05, 1.2, np.nan])
    low, high = gain_limits(values)
    assert -0.7 < low < -0.4
    assert 1.2 < high < 2.0
    assert gain_ticks(values) == [-0.5, -0.1, 0.0, 0.1, 0.5]
    assert gain_ticks(np.array([0.01, 60.0])) == [0.0, 0.2, 1.0, 5.0, 20.0]
    assert gain_ticks(np.array([0.012, 0.02])) == [0.0, 0.005, 0.01, 0.02]


def test_ticks_lead_to_the_end_of_the_axis() -> None:
    assert step_to(500_000, 4) == 250_000
    assert step_to(1_000_000, 4) == 250_000
    assert step_to(500_000, 6) == 100_000
    assert step_to(120e6, 4) is None  # 30, 40 or 60 million
    assert step_to(999_936, 4) is None
    assert step_to(0, 4) is None


def test_nothing_finished_says_where_to_compare(tmp_path: Path) -> None:
    write(tmp_path, "dqn", "CartPole-v1", 0, 5.0, until=4000)
    write(tmp_path, "dqn-pro", "CartPole-v1", 0, 8.0, until=6000)
    found = examine(study_of(tmp_path), 50)
    assert not found.aggregates
    assert "`proxrl report study --steps 4000`" in summary(found)[0]
    assert examine(study_of(tmp_path, 4000), 50).comparisons[0].difference.value == 3.0


def test_the_lead_counts(tmp_path: Path) -> None:
    write(tmp_path, "dqn", "ALE/Pong-v5", 0, 5.0)
    text = lead(study_of(tmp_path))
    assert text == "Atari Pong · 1 series · 1 seed · 1 run · 40k frames (10,000 agent steps)"


def test_gains_use_means_over_seeds(tmp_path: Path) -> None:
    for seed, (pro, base) in enumerate([(700.0, 300.0), (900.0, 500.0)]):
        write(tmp_path, "dqn-pro", "ALE/Assault-v5", seed, pro - 1)
        write(tmp_path, "dqn", "ALE/Assault-v5", seed, base - 1)
        write(tmp_path, "dqn-pro", "ALE/AirRaid-v5", seed, pro)
        write(tmp_path, "dqn", "ALE/AirRaid-v5", seed, base)
    one = examine(study_of(tmp_path), 100).main_comparisons[0]
    assert math.isnan(one.final_gain[0])  # AirRaid has no human score
    assert one.final_gain[1] == pytest.approx((800 - 400) / (742.0 - 222.4))
    assert one.improvement_games == 2
    assert len(one.games) == 1


def test_sync_ratios_compare_only_what_both_have(tmp_path: Path) -> None:
    """A run that stopped halfway is compared with the other's first half."""
    from proxrl.report.comparisons import sync_ratios

    write(tmp_path, "dqn", "MinAtar/Breakout-v1", 0, 1.0)
    write(tmp_path, "dqn-pro", "MinAtar/Breakout-v1", 0, 1.0, until=5000)
    base, pro = study_of(tmp_path).blocks
    base.curves["sync_distance"][0, 0] = [4.0] * 5 + [100.0] * 5
    assert sync_ratios(pro, base) == pytest.approx([0.25])


def test_three_runs_each_of_one_game_rank_nothing(tmp_path: Path) -> None:
    """However far apart: without a difference, one ranking in ten would look like this."""
    text = pair(tmp_path, (200, 210, 220), (100, 110, 105))
    assert "DQN Pro and DQN cannot be told apart" in text


def captions(root: Path) -> dict[str, str]:
    """The figures of a study, with their captions."""
    return {plot.id: plot.caption for plot in all_figures(examine(study_of(root), 50))}


def test_one_run_of_each_series_has_neither_bands_nor_intervals(tmp_path: Path) -> None:
    for agent in ("dqn", "dqn-pro"):
        write(tmp_path, agent, "ALE/Alien-v5", 0, 1000.0 + len(agent))
    found = captions(tmp_path)
    assert list(found) == ["learning_curves", "sync_distances"]
    assert not re.search("interval|band|seeds", " ".join(found.values()))


def test_one_game_repeats_no_figure(tmp_path: Path) -> None:
    for agent in ("dqn", "dqn-pro"):
        for seed in range(3):
            write(tmp_path, agent, "ALE/Alien-v5", seed, 1000.0 + seed + len(agent))
    found = captions(tmp_path)
    assert list(found) == [
        *("learning_curves", "aggregates", "differences", "improvement", "sync_distances"),
    ]
    (plot,) = (p for p in all_figures(examine(study_of(tmp_path), 50)) if p.id == "aggregates")
    assert [panel.title for panel in plot.panels] == ["IQM"]
    assert "bands: one standard error over seeds" in found["learning_curves"]
    assert "with 95% intervals over runs" in found["aggregates"]


def test_curves_of_many_series_join_points(tmp_path: Path) -> None:
    """The figure has about 120 points per game, the CSV every one; the first is of fewer."""
    for agent in ("dqn", "dqn-pro", "rainbow", "rainbow-pro", "c51"):
        for seed in range(2):
            config = preset(agent, "ALE/Alien-v5", seed=seed, steps=1_020_000)
            config = config.override({"evaluation.period_steps": 10_000})
            write_run(tmp_path / agent / str(seed), config, lambda step, seed=seed: [step + seed])
    (plot,) = (
        plot
        for plot in all_figures(examine(study_of(tmp_path), 50))
        if plot.id == "learning_curves"
    )
    assert "learning_curves.png and .svg join 5 points to one, their mean." in plot.caption
    line = plot.panels[0].lines[0]
    assert list(line.x[[0, 1, -1]]) == [80_000, 280_000, 4_080_000]  # frames
    assert list(line.y[[0, 1, -1]]) == [15_000.5, 50_000.5, 1_000_000.5]
    assert list(line.low[:2]) == [15_000.0, 50_000.0]
    assert len(line.x) == 21
    assert len(plot.csv().splitlines()) == 1 + 5 * 102


def test_aggregates_that_are_equal_are_shown_once(tmp_path: Path) -> None:
    """With two games the median is the mean; with one run of each, so is the IQM."""
    for game, level in (("Alien", 1000.0), ("Amidar", 200.0)):
        write(tmp_path, "dqn", f"ALE/{game}-v5", 0, level)
    assert examine(study_of(tmp_path), 50).metric_names == ["median", "optimality gap"]
    for game, levels in (("Alien", (1900.0, 5000.0)), ("Amidar", (100.0, 210.0))):
        for seed, level in enumerate(levels, start=1):
            write(tmp_path, "dqn", f"ALE/{game}-v5", seed, level)
    assert examine(study_of(tmp_path), 50).metric_names == ["median", "IQM", "optimality gap"]


def test_ticks_keep_their_digits() -> None:
    assert [_short(value) for value in (1.025, 0.0, -0.3, 12_500, 1_250_000)] == [
        *("1.025", "0", "−0.3", "12.5k", "1.25M")
    ]
