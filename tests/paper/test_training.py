"""The 66 claims: each has a check, and its verdict follows from the runs."""

import math
from pathlib import Path

import pytest

from proxrl.paper.performance import is_number
from proxrl.paper.training import CHECKS, Claim, check_runs, claim_rows
from proxrl.paper.variants import ANNEALING_GAMES, VALUE_SPACE_GAMES
from proxrl.report import scores
from proxrl.report.findings import examine
from proxrl.report.intervals import Estimate
from proxrl.report.runs import read_runs
from proxrl.report.study import gather
from tests.report.synthetic import preset, write_run


def claims_of(root: Path) -> dict[str, Claim]:
    findings = examine(gather("study", read_runs(root)), 400)
    return {claim.id: claim for claim in check_runs(findings)}


STEPS = 30_000_000  # x 4 = 120M frames


def write(
    root: Path,
    agent: str,
    game: str,
    seed: int,
    level: float,
    sync: float = 1.0,
    steps: int = STEPS,
    **changes,
):
    settings = {name.replace("__", "."): value for name, value in changes.items()}
    settings["evaluation.period_steps"] = steps // 2
    config = preset(agent, f"ALE/{game}-v5", settings, seed=seed, steps=steps)
    name = "_".join([agent, game, str(seed), *map(str, changes.values())])
    write_run(
        root / name,
        config,
        lambda step: [level * (1 + 0.01 * seed), level],
        sync_distance=sync,
    )


GAMES = scores.paper_games()
FOUR = ("Asterix", "Breakout", "Seaquest", "SpaceInvaders")


def pairs(
    root: Path,
    pro: float,
    base: float,
    sync: float = 0.7,
    games: tuple[str, ...] = GAMES,
    agents: tuple[str, ...] = ("dqn", "rainbow"),
    seeds: int = 3,
    steps: int = STEPS,
) -> dict[str, Claim]:
    for game in games:
        for seed in range(seeds):
            for agent in agents:
                write(root, f"{agent}-pro", game, seed, pro, sync * (1 + 0.01 * seed), steps)
                write(root, agent, game, seed, base, 1.0, steps)
    return claims_of(root)


def test_every_claim_has_a_check() -> None:
    ids = [row["id"] for row in claim_rows()]
    assert len(ids) == 66
    assert sorted(CHECKS) == ids


def test_settings_and_directions_that_are_seen(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0)
    numbers = (1, 3, 4, 5, 6, 7, 10, 14, 16, 19, 20, 21, 23, 26, 27, 54, 55, 56, 57, 60, 61)
    seen = [f"C{n:02}" for n in numbers]
    assert {claim: found[claim].verdict for claim in seen} == dict.fromkeys(seen, "seen")
    for claim in ("C02", "C25", "C36", "C62", "C63", "C64", "C65", "C66"):
        assert found[claim].verdict == "not testable", claim
    assert found["C28"].verdict == "seen in part"
    assert "proxrl plan" in found["C36"].why
    assert "smaller in 55 of 55 games: 0.71 [0.7" in found["C61"].why


def test_directions_that_are_contradicted(tmp_path: Path) -> None:
    found = pairs(tmp_path, 2000.0, 3000.0, sync=1.3)
    assert {found[claim].verdict for claim in ("C55", "C60", "C61")} == {"contradicted"}


def test_other_settings_cannot_test_the_papers(tmp_path: Path) -> None:
    write(tmp_path, "dqn-pro", "Alien", 0, 1.0, replay__batch_size=32, proximal__c=0.5)
    found = claims_of(tmp_path)
    assert found["C10"].verdict == "not testable"
    assert "replay.batch_size = 32" in found["C10"].why
    assert "c = 0.5" in found["C26"].why
    assert found["C55"].verdict == "not testable"


PERIODS = {2000: 1.0, 4000: 2.0, 8000: 1.5, 12000: 1.2}


def periods(root: Path, levels: dict[int, float], games=FOUR, steps: int = STEPS) -> Claim:
    """Figure 5, left: DQN Pro at 5 against DQN at several periods."""
    for game in games:
        for seed in range(3):
            for period, level in levels.items():
                write(root, "dqn", game, seed, 3e3 * level, steps=steps, target__period=period)
            write(root, "dqn-pro", game, seed, 15e3, steps=steps)
    return claims_of(root)["C62"]


@pytest.mark.parametrize(
    ("levels", "games", "steps", "verdict", "why"),
    [
        (PERIODS, FOUR, STEPS, "seen", "IQM difference to DQN (period 2,000)"),
        ({**PERIODS, 4000: 9.0}, FOUR, STEPS, "contradicted", "IQM difference"),
        ({2000: 1.0, 8000: 1.5}, FOUR, STEPS, "not testable", "target.period = 4000, 12000"),
        (PERIODS, FOUR[:3], STEPS, "not testable", "needs at least 4 Atari games, these are 3"),
        (PERIODS, FOUR, 40_000, "not testable", "needs 120M frames, these are 4"),
    ],
)
def test_every_period_must_be_run_and_beaten(
    tmp_path: Path, levels, games, steps: int, verdict: str, why: str
) -> None:
    found = periods(tmp_path, levels, games, steps)
    assert found.verdict == verdict
    assert why in found.why


@pytest.mark.parametrize(
    ("taus", "verdict"), [((0.05, 0.005, 0.0005), "seen"), ((0.05, 0.005), "not testable")]
)
def test_every_tau_must_be_run_and_beaten(tmp_path: Path, taus, verdict: str) -> None:
    for game in FOUR:
        for seed in range(3):
            write(tmp_path, "dqn", game, seed, 3e3)
            write(tmp_path, "dqn-pro", game, seed, 15e3)
            for tau in taus:
                polyak = {"target__rule": "polyak", "target__tau": tau}
                write(tmp_path, "dqn", game, seed, 4e3, **polyak)
    assert claims_of(tmp_path)["C63"].verdict == verdict


@pytest.mark.parametrize(
    ("annealed", "games", "verdict"),
    [
        ((8e4, 5e4), ANNEALING_GAMES, "seen"),  # one of two rates improves DQN
        ((3e4, 2e4), ANNEALING_GAMES, "contradicted"),  # neither does
        ((8e4, 2e5), ANNEALING_GAMES, "contradicted"),  # one is above DQN Pro
        ((8e4, 5e4), ("Alien", *ANNEALING_GAMES[1:]), "not testable"),
        ((), ANNEALING_GAMES, "not testable"),
    ],
)
def test_annealing_lies_between_dqn_and_dqn_pro_on_its_games(
    tmp_path: Path, annealed, games, verdict: str
) -> None:
    for game in games:
        for seed in range(3):
            write(tmp_path, "dqn", game, seed, 6e4)
            write(tmp_path, "dqn-pro", game, seed, 1e5)
            for rate, level in zip((1e-5, 1e-6), annealed, strict=False):
                write(tmp_path, "dqn", game, seed, level, learner__annealed_rate=rate)
    found = claims_of(tmp_path)["C64"]
    assert found.verdict == verdict, found.why


@pytest.mark.parametrize(
    ("level", "games", "verdict"),
    [
        (6.1e4, VALUE_SPACE_GAMES, "seen"),
        (9e4, VALUE_SPACE_GAMES, "contradicted"),  # more than half of the pull's gain
        (6.1e4, VALUE_SPACE_GAMES[:7], "not testable"),
    ],
)
def test_the_value_space_gains_little_on_its_games(
    tmp_path: Path, level: float, games, verdict: str
) -> None:
    values = {"proximal__rule": "values", "proximal__c": 1.0}
    for game in games:
        for seed in range(3):
            write(tmp_path, "dqn", game, seed, 6e4)
            write(tmp_path, "dqn-pro", game, seed, 1e5)
            write(tmp_path, "dqn", game, seed, level, **values)
    found = claims_of(tmp_path)["C66"]
    assert found.verdict == verdict, found.why


@pytest.mark.parametrize(
    ("agent", "changes", "verdict", "why"),
    [
        ("rainbow", {}, "not testable", "protocol.sticky_actions = 0.25"),
        ("rainbow", {"protocol__sticky_actions": 0.0}, "not testable", "terminal = False"),
        ("rainbow-authors", {}, "seen in part", "not checked: 200 iterations of 250,000 steps"),
    ],
)
def test_the_cited_rainbow_file_has_no_sticky_actions(
    tmp_path: Path, agent: str, changes, verdict: str, why: str
) -> None:
    write(tmp_path, agent, "Alien", 0, 1.0, **changes)
    found = claims_of(tmp_path)["C25"]
    assert found.verdict == verdict
    assert why in found.why


def test_few_games_are_not_most_of_55(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0, games=GAMES[:54], agents=("dqn",))
    assert {found[claim].verdict for claim in ("C55", "C60")} == {"not testable"}
    assert found["C55"].why.startswith("needs the paper's 55 and no other game, these are 54 Atari")
    assert "is ahead: 1.00" in found["C55"].why


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"proximal__rule": "gradient", "proximal__c": 77.0}, "proximal.rule = parameters (not g"),
        ({"proximal__c": 0.3}, "dqn-pro with c = 0.2 (not 0.3)"),
        ({}, ""),
    ],
)
def test_another_pull_than_the_papers_decides_no_claim(tmp_path: Path, changes, why: str) -> None:
    """Four games, three seeds, smaller target updates."""
    for game in GAMES[:4]:
        for seed in range(3):
            for agent in ("dqn", "rainbow"):
                other = changes if agent == "dqn" else {}
                write(tmp_path, agent, game, seed, 1.0, sync=2.0 + 0.01 * seed)
                write(tmp_path, f"{agent}-pro", game, seed, 1.0, sync=1.0 + 0.01 * seed, **other)
    found = claims_of(tmp_path)["C61"]
    assert found.verdict == ("not testable" if changes else "seen")
    assert why in found.why


def test_a_short_study_decides_no_final_performance(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0, agents=("dqn",), steps=40_000)
    assert found["C55"].verdict == "not testable"
    assert found["C55"].why.startswith("needs 120M frames, these are 55 Atari games, 40,000 steps")


def test_claims_are_only_for_atari(tmp_path: Path) -> None:
    for seed in range(10):
        for agent, level in (("dqn-pro", 300.0), ("dqn", 100.0)):
            config = preset(agent, "CartPole-v1", seed=seed, steps=2000)
            returns = [level + seed]
            write_run(tmp_path / f"{agent}{seed}", config, lambda step, returns=returns: returns)
    assert claims_of(tmp_path) == {}


def test_a_claim_about_two_pairs_needs_both(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0, agents=("dqn",))
    assert found["C55"].verdict == "seen"
    for claim in ("C60", "C61"):
        assert found[claim].verdict == "not testable"
        assert "no finished rainbow-pro runs" in found[claim].why
    assert "smaller in 55 of 55 games: 0.71 [0.7" in found["C61"].why


def test_one_c_for_all_55_games_is_only_part_of_a_claim(tmp_path: Path) -> None:
    for game in scores.paper_games():
        write(tmp_path, "dqn-pro", game, 0, 100.0)
    found = claims_of(tmp_path)
    assert found["C28"].verdict == "seen in part"
    assert found["C28"].why.endswith("not checked: how it was chosen")


def test_a_pair_that_differs_in_more_than_the_pull_decides_nothing(tmp_path: Path) -> None:
    for game in GAMES:
        for seed in range(3):
            write(tmp_path, "dqn-pro", game, seed, 5000.0, sync=0.5)
            write(tmp_path, "dqn", game, seed, 3000.0, learner__learning_rate=1e-2)
    found = claims_of(tmp_path)
    assert {found[claim].verdict for claim in ("C55", "C60", "C61")} == {"not testable"}


def test_single_runs_do_not_tell_the_size_of_updates(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0, sync=0.5, seeds=1)
    assert found["C61"].verdict == "not testable"
    assert "no interval" in found["C61"].why


def grid_of_c(root: Path, seeds: int, rainbow: tuple[float, ...], games: int = 6) -> Claim:
    grids = {"dqn-pro": (100.0, 300.0, 200.0), "rainbow-pro": rainbow}
    for agent, levels in grids.items():
        for game in ("Breakout", "Pong", "Qbert", "Alien", "Amidar", "Boxing")[:games]:
            for seed in range(seeds):
                for c, level in zip((0.05, 0.2, 0.8), levels, strict=False):
                    write(root, agent, game, seed, level, proximal__c=c)
    return claims_of(root)["C53"]


@pytest.mark.parametrize(
    ("seeds", "rainbow", "verdict", "why"),
    [
        (3, (300.0, 200.0, 100.0), "seen", "dqn-pro: best c = 0.2 of 3"),
        (3, (200.0, 300.0, 100.0), "contradicted", "rainbow-pro: best c = 0.2 of 3"),
        (3, (300.0, 299.9, 100.0), "not testable", "intervals overlap"),
        (
            3,
            (),
            "not testable",
            "needs rainbow-pro with at least three values of c, including 0.05",
        ),
        (2, (300.0, 200.0, 100.0), "not testable", "only 2 runs in a game for one c; "),
    ],
)
def test_the_best_c_is_best_by_intervals(
    tmp_path: Path, seeds: int, rainbow: tuple[float, ...], verdict: str, why: str
) -> None:
    found = grid_of_c(tmp_path, seeds, rainbow)
    assert found.verdict == verdict
    assert why in found.why


def test_the_best_c_is_a_matter_of_six_games(tmp_path: Path) -> None:
    found = grid_of_c(tmp_path, 3, (300.0, 200.0, 100.0), games=5)
    assert found.verdict == "not testable"
    assert "needs at least 6 Atari games, these are 5 Atari games" in found.why


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 1.1, "seen"),
        (0.5, 1.5, "not testable"),  # too wide to confirm anything
        (1.2, 2.9, "contradicted"),
        (math.nan, math.nan, "not testable"),
    ],
)
def test_a_number_is_confirmed_by_narrow_intervals_only(
    low: float, high: float, verdict: str
) -> None:
    assert is_number(Estimate(1.0, low, high), 1.0)[0] == verdict


def test_one_run_decides_nothing(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 1000.0, seeds=1)
    assert found["C55"].verdict == "not testable"
    assert found["C55"].why.startswith("only 1 runs in a game; ")
    assert "no interval" in found["C60"].why


def test_few_runs_of_a_game_decide_nothing(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 1000.0, seeds=2)
    assert {found[claim].verdict for claim in ("C55", "C60", "C61")} == {"not testable"}
    assert found["C55"].why.startswith("only 2 runs in a game; ")


def test_two_agents_with_the_pull_do_not_test_it(tmp_path: Path) -> None:
    """Rainbow Pro above DQN Pro is not Rainbow Pro above Rainbow."""
    for game in ("Alien", "Amidar", "Assault", "Asterix"):
        for seed in range(3):
            write(tmp_path, "rainbow-pro", game, seed, 5000.0, sync=0.1)
            write(tmp_path, "dqn-pro", game, seed, 1000.0)
    found = claims_of(tmp_path)
    assert {found[claim].verdict for claim in ("C56", "C60", "C61")} == {"not testable"}


def test_the_authors_reading_counts_as_the_papers(tmp_path: Path) -> None:
    """The presets `-authors`: settings that they share with Table 1, and performance."""
    found = pairs(tmp_path, 5000.0, 3000.0, agents=("dqn-authors",))
    seen = ("C06", "C07", "C10", "C19", "C23", "C26", "C55")
    assert {claim: found[claim].verdict for claim in seen} == dict.fromkeys(seen, "seen")
    assert "DQN Pro (authors' code) is ahead: 1.00" in found["C55"].why
    assert found["C13"].verdict == "not testable", "their evaluations are longer than Table 1's"
    assert found["C60"].verdict == "not testable", "no Rainbow"


@pytest.mark.parametrize("agent", ["dqn", "rainbow-authors"])
def test_another_protocol_decides_no_performance(tmp_path: Path, agent: str) -> None:
    """Neither reading of the paper has sticky actions at 0.1."""
    for game in GAMES:
        for seed in range(3):
            for name, level in ((f"{agent}-pro", 5000.0), (agent, 3000.0)):
                write(tmp_path, name, game, seed, level, protocol__sticky_actions=0.1)
    found = claims_of(tmp_path)["C55" if agent == "dqn" else "C56"]
    assert found.verdict == "not testable"
    assert "(not 0.1)" in found.why
