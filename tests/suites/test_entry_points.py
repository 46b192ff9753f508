"""A third-party suite from an installed package: the example of docs/suites.md, verbatim, on the
real MiniGrid."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxrl import cli, presets
from proxrl.config import RunConfig
from proxrl.report.command import make_report
from proxrl.report.study import game_of
from proxrl.studies.definition import parse
from proxrl.studies.expand import expand
from proxrl.suites import ANY, registry, suite_of
from proxrl.suites.any import VECTOR

DOCS = (Path(__file__).parents[2] / "docs" / "suites.md").read_text()
MODULE = re.search(r"```python\n(.*?)```", DOCS, re.DOTALL)
PROJECT = re.search(r"```toml\n(.*?)```", DOCS, re.DOTALL)
EMPTY = "MiniGrid-Empty-5x5-v0"
SETTINGS = {
    "steps": 300,
    "replay.capacity": 300,
    "replay.warmup-steps": 64,
    "replay.batch-size": 8,
    "evaluation.period-steps": 150,
    "evaluation.episodes": 1,
    "checkpoint.period-steps": 100,
    "protocol.max-episode-steps": 40,
    "logging.tensorboard": False,
}
SMALL = [part for name, value in SETTINGS.items() for part in (f"--{name}", str(value))]

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with this entry point, as pip would."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def distribution(name: str, entry_points: str) -> None:
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[proxrl.suites]\n{entry_points}\n")
        if name == "proxrl_minigrid":
            assert MODULE is not None
            (site / "proxrl_minigrid.py").write_text(MODULE[1])
        registry._installed.cache_clear()
        registry._warn_once.cache_clear()

    yield distribution
    registry._installed.cache_clear()
    registry._warn_once.cache_clear()


@pytest.fixture
def minigrid(install: Install) -> None:
    assert PROJECT is not None
    named = tomllib.loads(PROJECT[1])["project"]["entry-points"]["proxrl.suites"]
    install("proxrl_minigrid", "\n".join(f"{name} = {value}" for name, value in named.items()))


@pytest.mark.usefixtures("minigrid")
def test_a_packages_suite_has_its_own_settings_and_games() -> None:
    suite = suite_of(EMPTY)
    assert suite.name == "minigrid"
    config = presets.make("rainbow-pro", EMPTY)
    assert (config.learner.discount, config.head.v_max, config.proximal.c) == (0.97, 1.0, 0.25)
    assert game_of("minigrid:MiniGrid-DoorKey-5x5-v0") == "DoorKey-5x5"
    assert presets.describe(config) == "settings: rainbow-pro for suite minigrid"


@pytest.mark.usefixtures("minigrid")
def test_its_environments_train_are_scored_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["train", "dqn-pro", "--env", EMPTY, "--folder", "runs/a", *SMALL])
    assert "settings: dqn-pro for suite minigrid; changed: " in capfd.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "runs/a/metrics.jsonl").open()]
    assert [line["step"] for line in lines] == [150, 300]
    assert all(0.0 <= line["eval/mean_return"] <= 1.0 for line in lines)

    cli.main(["resume", "runs/a", "--steps", "350"])
    cli.main(["eval", "runs/a", "--episodes", "1"])
    cli.main(["play", "runs/a", "--max-steps", "5", "--out", "film.gif"])
    assert (tmp_path / "film.gif").stat().st_size > 0

    page, _ = make_report(tmp_path / "runs")
    text = page.read_text()
    assert "MiniGrid Empty-5x5 · 1 series" in text
    assert "Empty-5x5" in (page.parent / "scores.csv").read_text()
    assert "350 agent steps" in text


@pytest.mark.usefixtures("minigrid")
def test_presets_and_studies_know_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["presets"])
    assert "minigrid, e.g. MiniGrid-Empty-5x5-v0" in " ".join(capsys.readouterr().out.split())
    study = parse(
        "mine",
        """
        title = "Mine"
        written_for = "minigrid"
        variants.dqn.preset = "dqn"
        [scales.all]
        env = "MiniGrid-{game}-v0"
        games = "all"
        seeds = [0]
        steps = 1000
        [scales.one]
        env = "MiniGrid-{game}-v0"
        games = ["LavaGapS5"]
        seeds = [0]
        steps = 1000
        """,
    )
    jobs = expand(study, study.scales["all"], tmp_path)
    assert [job.config.env for job in jobs] == [
        f"MiniGrid-{game}-v0" for game in ("Empty-5x5", "Empty-8x8", "DoorKey-5x5", "FourRooms")
    ]
    assert study.scales["one"].games == ("LavaGapS5",), "not in the list, but MiniGrid has it"


BROKEN = [
    ("bad = no_such_module:SUITE", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("bad = math:pi", "is not a proxrl.suites.Suite"),
    ("bad = math:no_such_name", "AttributeError"),
    ("bad = proxrl.suites.atari:ATARI", "the name is taken by a built-in suite"),
]


@pytest.mark.parametrize(("entry_point", "why"), BROKEN)
def test_a_broken_entry_point_is_reported_in_one_line_and_only_where_relevant(
    entry_point: str, why: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("broken", entry_point)
    for env in ("ALE/Pong-v5", "MinAtar/Asterix-v1", "CartPole-v1"):
        presets.make("dqn", env)
    assert capsys.readouterr().err == ""
    assert presets.make("dqn", "FrozenLake-v1") == _vector("FrozenLake-v1")
    assert suite_of("FrozenLake-v1") is ANY
    error = capsys.readouterr().err
    assert error.startswith(f"proxrl: ignoring entry point {entry_point}: ")
    assert why in error
    assert error.count("\n") == 1
    cli.main(["presets"])
    assert "dqn-pro" in capsys.readouterr().out


def test_a_broken_entry_point_does_not_hide_a_good_one(
    minigrid: None, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("broken", "bad = no_such_module:SUITE")
    assert suite_of(EMPTY).name == "minigrid"
    assert capsys.readouterr().err == ""


def _vector(env: str) -> RunConfig:
    return VECTOR.base.override({"env": env})
