"""The 66 claims: each has a check, and each verdict follows from the runs."""

import math
from pathlib import Path

import pytest

from proxrl.report import scores
from proxrl.report.checks import is_number
from proxrl.report.claims import CHECKS, Claim, check_claims
from proxrl.report.findings import examine
from proxrl.report.runs import read_runs
from proxrl.report.statistics import Estimate
from proxrl.report.study import gather
from tests.report.synthetic import preset, write_run


def claims_of(root: Path) -> dict[str, Claim]:
    findings = examine(gather("study", read_runs(root)), 400)
    return {claim.id: claim for claim in check_claims(findings)}


def write(root: Path, agent: str, game: str, seed: int, level: float, sync: float = 1.0, **changes):
    settings = {name.replace("__", "."): value for name, value in changes.items()}
    config = preset(agent, f"ALE/{game}-v5", settings, seed=seed, steps=40_000)
    name = "_".join([agent, game, str(seed), *map(str, changes.values())])
    write_run(
        root / name,
        config,
        lambda step: [level * (1 + 0.01 * seed), level],
        sync_distance=sync,
    )


GAMES = (
    *("Alien", "Amidar", "Assault", "Asterix", "Atlantis"),
    *("BankHeist", "BeamRider", "Bowling", "Boxing", "Breakout"),
)


def pairs(
    root: Path,
    pro: float,
    base: float,
    sync: float = 0.7,
    games: tuple[str, ...] = GAMES,
    agents: tuple[str, ...] = ("dqn", "rainbow"),
    seeds: int = 3,
) -> dict[str, Claim]:
    for game in games:
        for seed in range(seeds):
            for agent in agents:
                write(root, f"{agent}-pro", game, seed, pro, sync * (1 + 0.01 * seed))
                write(root, agent, game, seed, base)
    return claims_of(root)


def test_every_claim_has_a_check() -> None:
    ids = [row["id"] for row in scores.read_table("paper_claims.csv")]
    assert len(ids) == 66
    assert sorted(CHECKS) == ids


def test_settings_and_directions_that_are_seen(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0)
    numbers = (3, 4, 5, 6, 7, 10, 14, 16, 19, 20, 23, 26, 27, 54, 55, 56, 57, 60, 61)
    seen = [f"C{n:02}" for n in numbers]
    assert {claim: found[claim].verdict for claim in seen} == dict.fromkeys(seen, "seen")
    for claim in ("C01", "C02", "C21", "C28", "C36", "C58", "C59", "C62", "C63", "C65", "C66"):
        assert found[claim].verdict == "not testable", claim
    assert "10 of the 55" in found["C01"].why
    assert "proxrl plan" in found["C36"].why
    assert "smaller in 10 of 10 games: 0.71 [0.7" in found["C61"].why


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


@pytest.mark.parametrize(
    ("levels", "verdict"), [((1.0, 2.0, 1.5), "seen"), ((1.0, 9.0, 1.5), "contradicted")]
)
def test_every_period_must_be_beaten(tmp_path: Path, levels, verdict: str) -> None:
    """Figure 5, left: DQN Pro at 5 against DQN at three periods."""
    for seed in range(10):
        for period, level in zip((2000, 8000, 12000), levels, strict=True):
            write(tmp_path, "dqn", "Breakout", seed, 100 * level, target__period=period)
        write(tmp_path, "dqn-pro", "Breakout", seed, 500.0)
    assert claims_of(tmp_path)["C62"].verdict == verdict


def test_few_games_are_not_most(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0, games=GAMES[:9], seeds=4)
    assert {found[claim].verdict for claim in ("C55", "C56", "C60")} == {"not testable"}
    assert (
        found["C55"].why == "needs at least 10 Atari games, these are 9 Atari games, 40,000 steps"
    )


def test_one_cartpole_is_not_most_of_55_games(tmp_path: Path) -> None:
    for seed in range(10):
        for agent, level in (("dqn-pro", 300.0), ("dqn", 100.0)):
            config = preset(agent, "CartPole-v1", seed=seed, steps=2000)
            returns = [level + seed]
            write_run(tmp_path / f"{agent}{seed}", config, lambda step, returns=returns: returns)
    found = claims_of(tmp_path)
    for claim in ("C28", "C53", "C55", "C60"):
        assert found[claim].verdict == "not testable", claim


def test_a_claim_about_two_pairs_needs_both(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0, agents=("dqn",))
    assert found["C55"].verdict == "seen"
    assert found["C60"].verdict == "not testable"
    assert "no finished rainbow-pro runs" in found["C60"].why


def test_one_c_for_all_55_games_is_half_of_a_claim(tmp_path: Path) -> None:
    for game in scores.paper_games():
        write(tmp_path, "dqn-pro", game, 0, 100.0)
    found = claims_of(tmp_path)
    assert found["C28"].verdict == "seen"
    assert found["C28"].why.startswith("only this half is checked")


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


def grid_of_c(root: Path, seeds: int, rainbow: tuple[float, ...]) -> Claim:
    grids = {"dqn-pro": (100.0, 300.0, 200.0), "rainbow-pro": rainbow}
    for agent, levels in grids.items():
        for seed in range(seeds):
            for c, level in zip((0.05, 0.2, 0.8), levels, strict=False):
                write(root, agent, "Breakout", seed, level, proximal__c=c)
    return claims_of(root)["C53"]


@pytest.mark.parametrize(
    ("seeds", "rainbow", "verdict", "why"),
    [
        (10, (300.0, 200.0, 100.0), "seen", "dqn-pro: best c = 0.2 of 3"),
        (10, (200.0, 300.0, 100.0), "contradicted", "rainbow-pro: best c = 0.2 of 3"),
        (10, (300.0, 299.9, 100.0), "not testable", "intervals overlap"),
        (10, (), "not testable", "needs rainbow-pro with at least three c, 0.05 among them"),
        (3, (300.0, 200.0, 100.0), "not testable", "only 3 runs of a c; "),
    ],
)
def test_the_best_c_is_best_by_intervals(
    tmp_path: Path, seeds: int, rainbow: tuple[float, ...], verdict: str, why: str
) -> None:
    found = grid_of_c(tmp_path, seeds, rainbow)
    assert found.verdict == verdict
    assert why in found.why


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 1.1, "seen"),
        (0.5, 1.5, "not testable"),  # wide: it would confirm anything
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
    assert "no interval" in found["C55"].why


def test_few_runs_of_a_game_decide_nothing(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 1000.0, seeds=2)
    assert {found[claim].verdict for claim in ("C55", "C60", "C61")} == {"not testable"}
    assert found["C55"].why.startswith("only 2 runs in a game; ")


def test_two_agents_with_the_pull_say_nothing_about_it(tmp_path: Path) -> None:
    """Rainbow Pro above DQN Pro is not Rainbow Pro above Rainbow."""
    for game in ("Alien", "Amidar", "Assault", "Asterix"):
        for seed in range(3):
            write(tmp_path, "rainbow-pro", game, seed, 5000.0, sync=0.1)
            write(tmp_path, "dqn-pro", game, seed, 1000.0)
    found = claims_of(tmp_path)
    assert {found[claim].verdict for claim in ("C56", "C60", "C61")} == {"not testable"}
