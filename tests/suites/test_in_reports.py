"""Which suites can share a report, and how it names their environments."""

from pathlib import Path

import pytest

from proxrl import presets
from proxrl.errors import UserError
from proxrl.report.runs import read_runs
from proxrl.report.study import StudyResults, gather
from proxrl.report.words import lead
from tests.report.synthetic import write_run

SAME = {
    "evaluation.period_steps": 1000,
    "evaluation.episodes": 2,
    "protocol.max_episode_steps": 500,
    "protocol.sticky_actions": 0.0,
}


def study_of(root: Path, *envs: str) -> StudyResults:
    for number, env in enumerate(envs):
        config = presets.make("dqn", env, SAME, steps=5000)
        write_run(root / str(number), config, lambda step: [1.0, 2.0])
    return gather("study", read_runs(root))


def test_environments_without_a_scale_share_a_report(tmp_path: Path) -> None:
    study = study_of(tmp_path, "CartPole-v1", "FrozenLake-v1")
    assert (study.suite_name, study.scale.kind, study.axis_name) == ("any", "raw", "agent steps")
    assert study.games == ("CartPole-v1", "FrozenLake-v1")
    assert lead(study).startswith("2 environments")


@pytest.mark.parametrize(
    ("env", "suite", "first", "axis"),
    [
        ("ALE/Pong-v5", "atari", "Atari Pong ·", "emulator frames"),
        ("MinAtar/Asterix-v1", "minatar", "MinAtar Asterix ·", "agent steps"),
        ("Acrobot-v1", "classic", "Acrobot-v1 ·", "agent steps"),
    ],
)
def test_a_suites_own_words_and_axis(
    env: str, suite: str, first: str, axis: str, tmp_path: Path
) -> None:
    study = study_of(tmp_path, env)
    assert (study.suite_name, study.axis_name) == (suite, axis)
    assert lead(study).startswith(first)


def test_suites_with_different_scales_do_not_share_a_report(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"suite .minatar in .* unscaled in"):
        study_of(tmp_path, "MinAtar/Asterix-v1", "CartPole-v1")
