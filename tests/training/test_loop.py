"""What the loop passes to the learner: clipped rewards, and time limits as ends if configured."""

import math
from pathlib import Path
from typing import Any

import pytest

from proxrl import presets
from proxrl.errors import RunFailed
from proxrl.runs.folder import RunFolder
from proxrl.training.loop import Trainer
from proxrl.types import End

SMALL = {
    "replay.capacity": 1_000,
    "replay.warmup_steps": 900,
    "replay.batch_size": 8,
    "logging.tensorboard": False,
    "threads": 1,
}


def new_run(env: str, folder: Path, **settings: Any) -> Trainer:
    dotted = {name.replace("__", "."): value for name, value in settings.items()}
    config = presets.make("dqn-pro", env, {**SMALL, **dotted})
    place = RunFolder(folder)
    place.make()
    place.write_config(config)
    return Trainer(config, place)


@pytest.mark.parametrize("clip", [None, False])
def test_the_atari_preset_clips_rewards_for_learning_and_not_for_returns(
    clip: bool | None, tmp_path: Path
) -> None:
    """Invaders are worth 5 to 30 points each."""
    settings = {} if clip is None else {"protocol__clip_rewards": clip}
    run = new_run("ALE/SpaceInvaders-v5", tmp_path, **settings)
    points, learnt = [], []
    for _ in range(250):
        before = run.episode_return
        run.advance()
        assert len(run.episodes.actions) == run.step, "all within the first game"
        points.append(run.episode_return - before)
        learnt.append(run.log.newest_step()[1])
    run.close()
    assert max(points) >= 5
    assert learnt == ([min(1.0, one) for one in points] if clip is None else points)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_time_limit_is_an_end_for_learning_only_if_asked_for(
    terminal: bool, tmp_path: Path
) -> None:
    """CartPole falls after eight steps at the earliest; here it is truncated at five."""
    run = new_run(
        "CartPole-v1",
        tmp_path,
        protocol__max_episode_steps=5,
        protocol__time_limit_terminal=terminal,
    )
    ends = []
    for _ in range(20):
        run.advance()
        ends.append(run.log.newest_step()[2])
    run.close()
    last = End.TERMINATED if terminal else End.TRUNCATED
    assert ends == [End.NO, End.NO, End.NO, End.NO, last] * 4


def test_non_finite_weights_are_not_scored(tmp_path: Path) -> None:
    run = new_run("CartPole-v1", tmp_path / "run")
    run.learner.weights[0].data[0] = math.nan
    with pytest.raises(RunFailed, match="non-finite weights"):
        run.evaluate()
    assert not (tmp_path / "run" / "metrics.jsonl").read_text()
    run.close()


@pytest.mark.parametrize("what", ["evaluate", "save"])
def test_a_loss_that_is_not_finite_is_noticed_before_a_score_or_a_checkpoint(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A squared error that overflows has a finite gradient, and Adam divides it by infinity: the
    weights stay finite, only the loss shows it."""
    monkeypatch.setattr(Trainer, "_learning_reward", lambda self, reward: 1e25)
    settings = {
        "replay__warmup_steps": 20,
        "learner__update_period_steps": 1,
        "learner__loss": "squared",
    }
    run = new_run("CartPole-v1", tmp_path / "run", **settings)
    for _ in range(25):
        run.advance()
    run.learner.require_finite_weights()
    with pytest.raises(RunFailed, match="the loss became inf at update 1 "):
        getattr(run, what)()
    assert not (tmp_path / "run" / "metrics.jsonl").read_text()
    assert run.folder.newest_step() is None
    run.close()
