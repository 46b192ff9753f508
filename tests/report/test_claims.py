"""The 66 claims: each has a check, and each verdict follows from the runs."""

from pathlib import Path

import pytest

from proxrl.report import scores
from proxrl.report.claims import CHECKS, Claim, check_claims
from proxrl.report.findings import examine
from proxrl.report.runs import read_runs
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


def pairs(root: Path, pro: float, base: float, sync: float = 0.7) -> dict[str, Claim]:
    for game in ("Alien", "Amidar", "Assault", "Asterix"):
        for seed in range(3):
            write(root, "dqn-pro", game, seed, pro, sync)
            write(root, "dqn", game, seed, base)
    return claims_of(root)


def test_every_claim_has_a_check() -> None:
    ids = [row["id"] for row in scores.read_table("paper_claims.csv")]
    assert len(ids) == 66
    assert sorted(CHECKS) == ids


def test_settings_and_directions_that_are_seen(tmp_path: Path) -> None:
    found = pairs(tmp_path, 5000.0, 3000.0)
    seen = [f"C{n:02}" for n in (3, 4, 5, 6, 7, 10, 14, 16, 19, 20, 23, 26, 28, 54, 55, 57, 60, 61)]
    assert {claim: found[claim].verdict for claim in seen} == dict.fromkeys(seen, "seen")
    for claim in ("C01", "C02", "C21", "C27", "C36", "C56", "C58", "C59", "C62", "C63", "C66"):
        assert found[claim].verdict == "not testable", claim
    assert "4 of the 55" in found["C01"].why
    assert "proxrl plan" in found["C36"].why
    assert "0.70" in found["C61"].why


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


def test_the_best_c(tmp_path: Path) -> None:
    for seed in range(3):
        for c, level in ((0.05, 100.0), (0.2, 300.0), (0.8, 200.0)):
            write(tmp_path, "dqn-pro", "Breakout", seed, level, proximal__c=c)
    found = claims_of(tmp_path)
    assert found["C53"].verdict == "seen"
    assert "best c = 0.2 of 3" in found["C53"].why
    assert found["C28"].verdict == "not testable"


def test_one_run_decides_nothing(tmp_path: Path) -> None:
    write(tmp_path, "dqn-pro", "Alien", 0, 5000.0)
    write(tmp_path, "dqn", "Alien", 0, 1000.0)
    found = claims_of(tmp_path)
    assert found["C55"].verdict == "not testable"
    assert "no interval" in found["C55"].why


def test_few_runs_decide_nothing(tmp_path: Path) -> None:
    for seed in range(4):
        write(tmp_path, "dqn-pro", "Alien", seed, 5000.0)
        write(tmp_path, "dqn", "Alien", seed, 1000.0)
    found = claims_of(tmp_path)
    assert found["C55"].verdict == "not testable"
    assert found["C55"].why.startswith("only 4 runs; ")


def test_two_agents_with_the_pull_say_nothing_about_it(tmp_path: Path) -> None:
    """Rainbow Pro above DQN Pro is not Rainbow Pro above Rainbow."""
    for game in ("Alien", "Amidar", "Assault", "Asterix"):
        for seed in range(3):
            write(tmp_path, "rainbow-pro", game, seed, 5000.0, sync=0.1)
            write(tmp_path, "dqn-pro", game, seed, 1000.0)
    found = claims_of(tmp_path)
    assert {found[claim].verdict for claim in ("C56", "C60", "C61")} == {"not testable"}
