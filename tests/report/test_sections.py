"""Several protocols, folders and filters: one section each, no statistic over two of them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from proxrl import cli
from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.report.command import make_report
from proxrl.report.runs import expand, find_runs, matching, read_runs
from proxrl.report.sections import budgets, differences, split
from proxrl.runs.study_file import About, write_about
from tests.report.synthetic import preset, write_run


def run(
    folder: Path,
    env: str = "CartPole-v1",
    agent: str = "dqn",
    seed: int = 0,
    steps: int = 2000,
    score: float = 10.0,
    **changes: Any,
) -> RunConfig:
    settings = {"evaluation.period_steps": 1000, "evaluation.episodes": 2} | {
        name.replace("__", "."): value for name, value in changes.items()
    }
    config = preset(agent, env, settings, steps=steps, seed=seed)
    write_run(folder, config, lambda step: [score] * config.evaluation.episodes)
    return config


def names(root: Path, **options: Any) -> list[str]:
    return [one.name for one in split(read_runs(root), **options)[0]]


def test_the_readmes_two_trainings_are_two_sections(tmp_path: Path, capsys) -> None:
    """`proxrl train dqn-pro` on CartPole and on MinAtar with the presets, then `proxrl report`."""
    for env in ("CartPole-v1", "MinAtar/Asterix-v1"):
        config = preset("dqn-pro", env)
        write_run(tmp_path / "runs" / env, config, lambda step: [1.0])
    cli.main(["report", str(tmp_path / "runs")])
    said = capsys.readouterr()
    assert said.err == ""
    assert "CartPole-v1: DQN Pro: 1.00" in said.out
    assert "MinAtar Asterix: DQN Pro: 1.00" in said.out
    out = tmp_path / "runs" / "report"
    text = (out / "index.html").read_text()
    for slug in ("cartpole-v1", "minatar-asterix"):
        assert f'href="{slug}/index.html"' in text
        page = (out / slug / "index.html").read_text()
        assert 'href="../index.html"' in page
        assert (out / slug / "figures" / "learning_curves.png").exists()
        assert (out / slug / "scores.csv").exists()
    with (out / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["section"]: row["env"] for row in rows} == {
        "CartPole-v1": "CartPole-v1",
        "MinAtar Asterix": "MinAtar/Asterix-v1",
    }


def test_no_statistic_over_two_protocols(tmp_path: Path) -> None:
    """The same agents and seeds with another number of evaluation episodes and other scores."""
    for seed in range(3):
        run(tmp_path / f"a{seed}", seed=seed, score=10.0)
        run(tmp_path / f"b{seed}", seed=seed, score=500.0, evaluation__episodes=5)
    sections, rest = split(read_runs(tmp_path))
    assert rest == []
    assert [one.name for one in sections] == [
        "CartPole-v1 (episodes 2)",
        "CartPole-v1 (episodes 5)",
    ]
    page, summary = make_report(tmp_path, resamples=20)
    assert summary[0].startswith("CartPole-v1 (episodes 2): DQN: 10.00. Interquartile")
    assert summary[1].startswith("CartPole-v1 (episodes 5): DQN: 500.00. Interquartile")
    assert "evaluation.episodes" in page.read_text()


def test_sections_are_named_by_as_little_as_tells_them_apart(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", steps=4000, evaluation__epsilon=0.05)
    run(tmp_path / "c", steps=4000)
    run(tmp_path / "d", env="Acrobot-v1")
    assert sorted(names(tmp_path)) == [
        "Acrobot-v1",
        "CartPole-v1 (2,000 steps)",
        "CartPole-v1 (4,000 steps, epsilon 0.001)",
        "CartPole-v1 (4,000 steps, epsilon 0.05)",
    ]


def test_environments_without_a_scale_are_apart_unless_a_study_has_them(tmp_path: Path) -> None:
    for env in ("CartPole-v1", "Acrobot-v1"):
        run(tmp_path / env, env=env, protocol__max_episode_steps=100)
    assert sorted(names(tmp_path)) == ["Acrobot-v1", "CartPole-v1"]
    assert names(tmp_path, one_study=True) == ["2 environments"]
    write_about(tmp_path, About(title="Both", study="both"))
    page, _ = make_report(tmp_path, resamples=20)
    assert "<h1>Both</h1>" in page.read_text()
    assert not (tmp_path / "report" / "cartpole-v1").exists()


def test_games_with_a_common_scale_share_a_section(tmp_path: Path) -> None:
    for game in ("Pong", "Breakout"):
        run(tmp_path / game, env=f"ALE/{game}-v5")
        run(tmp_path / f"{game}m", env="MinAtar/" + {"Pong": "Asterix"}.get(game, game) + "-v1")
    assert sorted(names(tmp_path)) == ["2 Atari games", "2 MinAtar games"]


def test_minatar_games_without_dqn_have_no_common_scale(tmp_path: Path) -> None:
    for game in ("Asterix", "Breakout"):
        run(tmp_path / game, env=f"MinAtar/{game}-v1", agent="dqn-pro")
    assert sorted(names(tmp_path)) == ["MinAtar Asterix", "MinAtar Breakout"]


def test_games_of_minatar_are_scaled_by_rainbow_if_dqn_was_not_run(tmp_path: Path) -> None:
    for game in ("Asterix", "Breakout"):
        for agent in ("rainbow", "rainbow-pro"):
            run(tmp_path / f"{game}-{agent}", env=f"MinAtar/{game}-v1", agent=agent)
    assert names(tmp_path) == ["2 MinAtar games"]
    file, _ = make_report(tmp_path, resamples=20)
    assert "1 is Rainbow&#39;s mean final score in this study" in file.read_text()


def test_versions_of_a_game_are_apart(tmp_path: Path) -> None:
    """They were an error: both are Breakout, seed 0."""
    run(tmp_path / "a", env="MinAtar/Breakout-v0")
    run(tmp_path / "b", env="MinAtar/Breakout-v1")
    assert len(names(tmp_path)) == 2


def test_budgets_that_differ_come_with_advice(tmp_path: Path) -> None:
    run(tmp_path / "a", agent="dqn")
    run(tmp_path / "b", agent="dqn-pro", steps=4000)
    heard: list[str] = []
    page, _ = make_report(tmp_path, resamples=20, say=heard.append)
    advice = "differ only in their budget: add --steps 2000 to compare them"
    assert [line.endswith(advice) for line in heard] == [True]
    assert advice in page.read_text()
    _, summary = make_report(tmp_path, resamples=20, steps=2000)
    assert summary[0].startswith("After 2,000 agent steps, DQN Pro and DQN have too few runs")
    assert not list((tmp_path / "report").glob("cartpole*"))  # the sections of the first are gone


def test_no_advice_where_more_than_the_budget_differs(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", steps=4000, evaluation__episodes=3)
    run(tmp_path / "c", env="Acrobot-v1", steps=8000)
    sections, _ = split(read_runs(tmp_path))
    assert budgets(sections) == ""
    assert set(differences(sections)) >= {"steps", "evaluation.episodes"}


def test_a_run_whose_protocol_changed_is_in_no_statistic(tmp_path: Path) -> None:
    run(tmp_path / "good", seed=0)
    run(tmp_path / "changed", seed=1, score=1000.0)
    file = tmp_path / "changed" / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["protocol"]["epsilon"] = 0.05
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    heard: list[str] = []
    page, summary = make_report(tmp_path, resamples=20, say=heard.append)
    assert summary[0].startswith("DQN: 10.00")
    why = "its protocol changed during the run (evaluation.epsilon): in no statistic"
    assert heard == [f"changed is skipped: {why}"]
    assert why in page.read_text()
    run(tmp_path / "alone" / "x")
    (tmp_path / "alone" / "x" / "metrics.jsonl").write_text(file.read_text())
    with pytest.raises(UserError, match=r"x: its protocol changed"):
        make_report(tmp_path / "alone")


def test_failed_runs_are_listed_in_their_section_and_unreadable_ones_in_none(
    tmp_path: Path,
) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", steps=4000)
    run(tmp_path / "lost", steps=4000, seed=1)
    (tmp_path / "lost" / "metrics.jsonl").unlink()
    (tmp_path / "lost" / "failure.txt").write_text("out of memory\n")
    run(tmp_path / "broken")
    (tmp_path / "broken" / "config.json").write_text("{}")
    page, _ = make_report(tmp_path, resamples=20)
    text = page.read_text()
    assert "out of memory" not in text
    assert "broken" in text.split("Runs in no section")[1]
    assert "out of memory" in (page.parent / "cartpole-v1-4-000-steps" / "index.html").read_text()
    with (page.parent / "scores.csv").open() as file:
        status = {row["run"]: (row["section"], row["status"]) for row in csv.DictReader(file)}
    assert status["lost"] == ("CartPole-v1 (4,000 steps)", "failed")
    assert status["broken"] == ("", "corrupt")


# ----------------------------------------------------------------------------- folders and filters


def test_several_folders_and_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for study in ("one", "two"):
        run(tmp_path / study / "dqn", agent="dqn" if study == "one" else "dqn-pro", score=3.0)
    monkeypatch.chdir(tmp_path)
    page, summary = make_report([Path("one"), Path("t*")], resamples=20)
    assert page == Path("report/index.html")
    assert "DQN Pro and DQN have too few runs" in summary[0]
    text = page.read_text()
    assert "one/dqn" in text
    assert "two/dqn" in text
    assert "proxrl report one two" in text


def test_a_folder_is_read_once(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "a")
    roots = [tmp_path / "runs", tmp_path / "runs" / "a", tmp_path / "." / "runs"]
    assert expand(roots) == [tmp_path / "runs"]
    assert len(find_runs(expand(roots)).runs) == 1


def test_a_pattern_without_a_match_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="matches no file or folder"):
        expand([tmp_path / "run*"])
    with pytest.raises(UserError, match="does not exist: pass a folder of runs"):
        expand([tmp_path / "runs"])
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"notes\.txt is not a folder"):
        expand([tmp_path / "notes.txt"])


def test_the_same_run_in_two_folders_is_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(tmp_path / name / "a")
    found = find_runs([tmp_path / "one", tmp_path / "two"]).runs
    assert [(one.path, one.status) for one in found] == [
        ("one/a", "finished"),
        ("two/a", "duplicate"),
    ]


def test_the_headline_of_a_study_holds_among_several_folders(tmp_path: Path) -> None:
    for name, c in (("small", 0.1), ("large", 0.9)):
        run(tmp_path / "study" / name / "0", agent="dqn-pro", proximal__c=c)
    run(tmp_path / "other" / "0", agent="dqn")
    write_about(tmp_path / "study", About(headline=("large",)))
    found = find_runs([tmp_path / "study", tmp_path / "other"])
    assert [config.c for config in found.headline] == [0.9]


@pytest.mark.parametrize(
    ("env", "agent", "left"),
    [
        (["CartPole-v1"], [], {"a", "b"}),
        (["cart*"], ["dqn-pro"], {"b"}),
        (["Breakout"], [], {"c"}),
        (["ALE/*", "CartPole-v1"], ["dqn"], {"a", "c"}),
        ([], ["dqn*"], {"a", "b", "c"}),
    ],
)
def test_filters(env: list[str], agent: list[str], left: set[str], tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", agent="dqn-pro")
    run(tmp_path / "c", env="ALE/Breakout-v5")
    assert {one.path for one in matching(read_runs(tmp_path), env, agent)} == left


def test_baselines_are_drawn_where_there_are_any(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b", env="ALE/Breakout-v5", steps=300_000, evaluation__period_steps=100_000)
    make_report(tmp_path, baselines="dopamine", resamples=20)
    pages = [tmp_path / "report" / one / "index.html" for one in ("cartpole-v1", "atari-breakout")]
    assert ["Dopamine DQN (legacy)" in page.read_text() for page in pages] == [False, True]


@pytest.mark.parametrize("frames", [{"frame_size": 64}, {"grayscale": False}])
def test_runs_with_other_frames_are_other_sections(tmp_path: Path, frames: dict[str, Any]) -> None:
    [(name, value)] = frames.items()
    run(tmp_path / "usual", "ALE/Pong-v5")
    run(tmp_path / "other", "ALE/Pong-v5", **{f"protocol__{name}": value})
    sections = split(read_runs(tmp_path))[0]
    assert len(sections) == 2
    assert set(differences(sections)) == {f"protocol.{name}"}
