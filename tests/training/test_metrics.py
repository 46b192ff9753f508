"""Lines that a run writes, and that resuming truncates."""

import math
from pathlib import Path

import pytest
import torch

from proxrl import presets
from proxrl.agents.learner import Distances, Update
from proxrl.runs.folder import EPISODES, METRICS, SPEED
from proxrl.runs.lines import read_lines
from proxrl.training.metrics import NO_LINES, Interval, RunLogger

CONFIG = presets.make("dqn", "CartPole-v1", {"logging.tensorboard": False})


def update(
    loss: float,
    sync: float | None = None,
    distances: tuple[float, float] | None = None,
    **rule: torch.Tensor | float,
) -> Update:
    return Update(
        torch.tensor(loss),
        torch.tensor(2 * loss),
        torch.zeros(1),
        None if distances is None else Distances(*map(torch.tensor, distances)),
        None if sync is None else torch.tensor(sync),
        rule,
    )


def test_an_interval_by_hand() -> None:
    interval = Interval()
    interval.add_episode(10.0, 5)
    interval.add_episode(20.0, 7)
    interval.add_update(update(1.0, distances=(3.0, 0.5)))
    interval.add_update(update(3.0, sync=4.0))
    interval.add_update(update(5.0, sync=8.0))
    assert interval.read_updates() == ([1.0, 3.0, 5.0], [2.0, 6.0, 10.0])
    assert interval.read_updates() == ([], []), "each is read once"
    assert interval.summary() == {
        "train/episode_return": 15.0,
        "train/episode_length": 6.0,
        "train/loss": 3.0,
        "train/mean_value": 6.0,
        "train/parameter_distance": 3.0,
        "train/value_distance": 0.5,
        "train/sync_distance": 6.0,
        "train/episodes": 2,
        "train/syncs": 2,
    }


def test_an_empty_interval_has_no_means() -> None:
    summary = Interval().summary()
    assert summary["train/loss"] is None
    assert summary["train/episodes"] == 0


def test_an_interval_continues_from_its_state_whatever_the_order_of_keys() -> None:
    interval = Interval()
    interval.add_update(update(0.1, sync=0.2))
    interval.read_updates()
    restored = Interval()
    restored.load(dict(sorted(interval.state().items())))
    for each in (interval, restored):
        each.add_update(update(0.3))
        each.read_updates()
    assert list(restored.summary().items()) == list(interval.summary().items())


def test_a_rules_metrics_are_averaged_under_its_own_names() -> None:
    """Floats or tensors, whenever the rule reports them; names that it never reports are absent."""
    interval = Interval()
    interval.add_update(update(1.0, kappa=0.5, signal=torch.tensor(0.25)))
    interval.add_update(update(1.0, kappa=1.5, signal=torch.tensor(0.75)))
    interval.add_update(update(1.0, signal=torch.tensor(2.0)))
    interval.read_updates()
    restored = Interval()
    restored.load(dict(sorted(interval.state().items(), reverse=True)))
    for each in (interval, restored):
        summary = each.summary()
        assert summary["rule/kappa"] == 1.0
        assert summary["rule/signal"] == 1.0
    assert list(restored.summary()) == list(interval.summary())
    interval.clear()
    assert not any(name.startswith("rule/") for name in interval.summary())


def test_resuming_cuts_back_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    first = RunLogger(tmp_path, CONFIG)
    first.interval({"step": 1})
    first.episode({"step": 1})
    state = first.state()
    first.interval({"step": 2})
    first.episode({"step": 2})
    first.close()
    second = RunLogger(tmp_path, CONFIG, step=1)
    second.load(state)
    assert [line["step"] for line in read_lines(tmp_path / METRICS)] == [1]
    second.interval({"step": 3})
    second.close()
    assert [line["step"] for line in read_lines(tmp_path / METRICS)] == [1, 3]
    assert [line["step"] for line in read_lines(tmp_path / EPISODES)] == [1]


def test_the_clock_stays_out_of_the_runs_bits(tmp_path: Path) -> None:
    logger = RunLogger(tmp_path, CONFIG)
    logger.interval({"step": 100})
    logger.close()
    (line,) = read_lines(tmp_path / SPEED)
    assert set(line) == {"step", "steps_per_second", "unix_time"}
    assert read_lines(tmp_path / METRICS) == [{"step": 100}]


def test_a_line_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    path.write_text('{"step": 1}\n{"st')
    assert read_lines(path) == [{"step": 1}]


def test_tensorboard_repeats_the_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = RunLogger(tmp_path, presets.make("dqn", "CartPole-v1"))
    logger.interval({"step": 7, "train/loss": 0.5, "eval/returns": [1.0], "train/syncs": None})
    logger.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["train/loss", "time/steps_per_second"]
    (event,) = events.Scalars("train/loss")
    assert (event.step, event.value) == (7, pytest.approx(0.5))


def test_a_new_run_removes_the_lines_of_a_process_that_never_made_a_checkpoint(
    tmp_path: Path,
) -> None:
    (tmp_path / METRICS).write_text('{"step": 1}\n')
    logger = RunLogger(tmp_path, CONFIG)
    logger.load(NO_LINES)
    logger.interval({"step": 2})
    logger.close()
    assert read_lines(tmp_path / METRICS) == [{"step": 2}]


BOARD = presets.make(
    "dqn-pro",
    "CartPole-v1",
    {
        "logging.tensorboard_updates": 3,
        "replay.warmup_steps": 40,
        "replay.batch_size": 8,
        "learner.update_period_steps": 4,
        "learner.updates_per_step": 2,
        "evaluation.period_steps": 100,
        "evaluation.episodes": 1,
        "checkpoint.period_steps": 100,
    },
    steps=200,
    threads=1,
)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    assert "_hparams_/experiment" in events.summary_metadata
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_has_updates_episodes_and_rates_and_changes_no_bit(tmp_path: Path) -> None:
    from proxrl import train

    train(BOARD, tmp_path / "with")
    train(BOARD.override({"logging.tensorboard": False}), tmp_path / "without")
    for name in (METRICS, EPISODES):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    found = scalars(tmp_path / "with")
    # two updates after each of steps 40, 44, ..., 200: numbers 3, 6, 9, ... of 82
    expected = [40 + 4 * ((number - 1) // 2) for number in range(3, 83, 3)]
    assert [step for step, _ in found["update/loss"]] == expected
    episodes = read_lines(tmp_path / "with" / EPISODES)
    assert found["episode/return"] == [(one["step"], one["return"]) for one in episodes]
    assert [step for step, _ in found["train/learning_rate"]] == [100, 200]
    assert found["train/kappa"][0][1] == pytest.approx(BOARD.pull_per_sync, rel=1e-6)
    assert "time/steps_per_second" in found
    assert "steps_per_second" not in (tmp_path / "with" / METRICS).read_text()


def test_tensorboard_has_the_metrics_of_the_proximal_rule(tmp_path: Path) -> None:
    from proxrl import train

    settings = {
        "agent": "dqn",
        "proximal.c": math.inf,
        "proximal.rule": "adaptive",
        "proximal.adaptive.warmup_updates": 10,
        "target.period": 40,
    }
    train(BOARD.override(settings), tmp_path)
    found, lines = scalars(tmp_path), read_lines(tmp_path / METRICS)
    for name in ("rule/kappa", "rule/signal"):
        logged = {line["step"]: line[name] for line in lines if line.get(name) is not None}
        assert logged
        assert dict(found[name]) == pytest.approx(logged, rel=1e-6)


def test_a_resumed_run_has_every_point_once(tmp_path: Path) -> None:
    from proxrl import resume, train

    train(BOARD, tmp_path / "whole")
    train(BOARD.override({"checkpoint.keep_replay": True}), tmp_path / "cut")
    for newest in (tmp_path / "cut" / "checkpoints").glob("*200*"):
        newest.unlink()
    resume(tmp_path / "cut")
    whole, cut = scalars(tmp_path / "whole"), scalars(tmp_path / "cut")
    for name in ("update/loss", "episode/return", "eval/mean_return"):
        assert cut[name] == whole[name]
