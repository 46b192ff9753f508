"""Full disks, locks, losses that are not finite, environments that do not repeat themselves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from proxrl import cli
from proxrl.envs import make
from proxrl.errors import RunFailed, UserError
from proxrl.training import presets
from proxrl.training.folder import RunFolder
from proxrl.training.run import resume, train
from tests.end_to_end.runs import assert_same_bits, live, newest
from tests.end_to_end.victim import SCENARIOS, SMALL


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MB that can really be full."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip(f"needs the right to mount a small tmpfs: {mount.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small_disk / "run"
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "dqn", "--env", "MinAtar/Breakout-v1", "--folder", str(folder)])
    assert left.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("proxrl: not enough disk")
    assert "\n" not in error
    assert not folder.exists()


def test_a_disk_that_fills_up_after_the_preflight_ends_with_one_line(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxrl.training.run._take_off", lambda *_: None)
    config = presets.make("dqn", "MinAtar/Breakout-v1", {**SMALL, "replay.capacity": 100_000})
    with pytest.raises(RunFailed, match="the disk is full") as caught:
        train(config, small_disk / "run")
    assert "\n" not in str(caught.value)


def test_a_disk_full_during_a_checkpoint_keeps_the_one_before(
    small_disk: Path, tmp_path: Path
) -> None:
    """... and with room again the run goes on to the same bits."""
    config = SCENARIOS["cartpole"]
    folder, filler = small_disk / "run", small_disk / "filler"
    failed = live("cartpole", folder, "fill", "700", str(filler))
    assert failed.returncode == 1
    error = failed.stderr.strip()
    assert "the disk is full" in error
    assert "the checkpoint at step 600 is intact" in error
    assert "\n" not in error
    assert newest(folder)[1]["step"] == 600
    filler.unlink()
    assert live("cartpole", folder, "finish").returncode == 0
    assert live("cartpole", tmp_path / "whole", "finish").returncode == 0
    spec = make(config.env, config.protocol).observation
    assert_same_bits(config, tmp_path / "whole", folder, spec)


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    place = RunFolder(tmp_path / "run")
    place.write_config(config.override({"steps": 600}))
    with place.locked():
        assert place.is_locked()
        second = live("cartpole", tmp_path / "run", "finish")
    assert second.returncode == 2
    assert "in use by another process" in second.stderr
    assert not place.is_locked()


def test_weights_that_are_not_finite_stop_the_run_and_never_reach_a_checkpoint(
    tmp_path: Path,
) -> None:
    settings = {**SMALL, "learner.learning_rate": 1e30, "checkpoint.period_steps": 50}
    config = presets.make("dqn", "CartPole-v1", settings)
    with pytest.raises(RunFailed, match=r"not finite|became") as caught:
        train(config, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert "start a new run" in str(caught.value)
    assert (tmp_path / "run" / "failure.txt").read_text().strip() == str(caught.value)
    arrays, _ = newest(tmp_path / "run")
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_a_folder_that_exists_offers_to_resume(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    with pytest.raises(UserError, match="proxrl resume"):
        train(config, tmp_path / "run")


def test_a_run_that_begins_during_the_preflight_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = SCENARIOS["cartpole"].override({"steps": 300, "seed": 1})
    mine = theirs.override({"seed": 2})
    with monkeypatch.context() as meanwhile:
        others = (train, theirs, tmp_path / "run")

        def somebody_else(*_: object) -> None:
            meanwhile.undo()
            others[0](*others[1:])

        meanwhile.setattr("proxrl.training.run._take_off", somebody_else)
        with pytest.raises(UserError, match="exists: continue it with"):
            train(mine, tmp_path / "run")
    assert RunFolder(tmp_path / "run").config().seed == 1


def test_metrics_that_have_gone_missing_are_named(tmp_path: Path) -> None:
    train(SCENARIOS["cartpole"].override({"steps": 300}), tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match=r"metrics\.jsonl is shorter than when the checkpoint"):
        resume(tmp_path / "run", {"steps": 600})


def test_settings_that_may_not_change_are_named(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    changes = {"steps": 600, "proximal.c": 1.0, "replay.capacity": 999}
    with pytest.raises(UserError, match=r"replay\.capacity, proximal\.c cannot change"):
        resume(tmp_path / "run", changes)
    resume(tmp_path / "run", {"steps": 450, "evaluation.episodes": 1})
    assert newest(tmp_path / "run")[1]["step"] == 450


def test_a_finished_run_without_its_replay_is_extended_by_filling_it_anew(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "replay").exists()
    updates = newest(tmp_path / "run")[1]["updates"]
    resume(tmp_path / "run", {"steps": 600})
    after = newest(tmp_path / "run")[1]
    waited = 102  # warm-up of 100 transitions, the newest two of which wait for n = 3
    assert after["updates"] - updates == (300 - waited) // 2 + 1


def test_a_kill_while_the_replay_is_filled_anew_fills_it_anew(tmp_path: Path) -> None:
    """The half-filled log belongs to no checkpoint: it must not be opened with an old one."""
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    for name in ("killed", "whole"):
        train(config, tmp_path / name)
        RunFolder(tmp_path / name).write_config(config.override({"steps": 900}))
    killed = live("cartpole", tmp_path / "killed", "advance", "60")
    assert killed.returncode == -9, killed.stderr
    for name in ("killed", "whole"):
        assert live("cartpole", tmp_path / name, "finish").returncode == 0
    (arrays, state), (its_arrays, its_state) = (
        newest(tmp_path / name) for name in ("killed", "whole")
    )
    assert state == its_state
    assert all(arrays[name].tobytes() == its_arrays[name].tobytes() for name in arrays)


def test_when_no_checkpoint_is_good_nothing_is_changed(tmp_path: Path) -> None:
    train(SCENARIOS["cartpole"].override({"steps": 300}), tmp_path / "run")
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    metrics = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"no checkpoint of .* is good"):
        resume(tmp_path / "run", {"steps": 600})
    assert path.exists()
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == metrics


class Bandit(gymnasium.Env[Any, Any]):
    """Episodes of one step: two frames a step."""

    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), float(action), True, False, {}


class Reusing(gymnasium.Env[Any, Any]):
    """A deterministic picture, always in the same array."""

    observation_space = spaces.Box(0, 255, (12, 12), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.picture = np.zeros((12, 12), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.picture[:] = 0
        return self.picture, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.picture += 1
        return self.picture, 0.0, False, False, {}


gymnasium.register("proxrl-tests/Bandit-v0", entry_point=Bandit)
gymnasium.register("proxrl-tests/Reusing-v0", entry_point=Reusing)


def test_episodes_of_one_step_never_run_out_of_room(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 3000, "replay.capacity": 1000, "checkpoint.period_steps": 1000}
    config = presets.make("dqn", "proxrl-tests/Bandit-v0", settings)
    train(config, tmp_path / "run")
    assert newest(tmp_path / "run")[1]["step"] == 3000


class Flash(gymnasium.Env[Any, Any]):
    """Pictures, and episodes of one step: the replay holds about half of its capacity."""

    observation_space = spaces.Box(0, 255, (40, 40), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros((40, 40), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros((40, 40), np.uint8), 1.0, True, False, {}


gymnasium.register("proxrl-tests/Flash-v0", entry_point=Flash)


def test_a_warm_up_that_does_not_fit_ends_when_the_replay_is_full(tmp_path: Path) -> None:
    """The ring keeps 16 MB more frames than its capacity: 10,486 of these, too few here."""
    settings = {
        **SMALL,
        "replay.capacity": 30_000,
        "replay.warmup_steps": 25_000,
        "steps": 20_600,
        "learner.update_period_steps": 100,
        "evaluation.period_steps": 20_600,
        "checkpoint.period_steps": 20_600,
        "network.hidden": (8,),
    }
    train(presets.make("dqn", "proxrl-tests/Flash-v0", settings), tmp_path / "run")
    _, state = newest(tmp_path / "run")
    assert state["log"]["oldest"] > 0
    assert state["updates"] > 0


class Endless(gymnasium.Env[Any, Any]):
    """A random walk that never ends: one episode spans many checkpoints and any history."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = np.zeros(2, np.float32)
        return self.place.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += (self.np_random.normal(size=2) + action).astype(np.float32)
        return self.place.copy(), float(self.place[0]), False, False, {}


gymnasium.register("proxrl-tests/Endless-v0", entry_point=Endless)


def test_an_episode_longer_than_the_replay_remembers_goes_on_to_the_bit(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 1200, "protocol.max_episode_steps": 2_000}
    config = presets.make("dqn-pro", "proxrl-tests/Endless-v0", settings)
    train(config, tmp_path / "whole")
    train(config.override({"steps": 1050}), tmp_path / "halves")
    listener = Listener()
    resume(tmp_path / "halves", {"steps": 1200}, display=listener)
    assert not any("not restorable" in line for line in listener.said)
    (arrays, state), (its_arrays, its_state) = (
        newest(tmp_path / name) for name in ("whole", "halves")
    )
    assert state["episode"] == 1
    assert state["log"] == its_state["log"]
    assert state["generators"] == its_state["generators"]
    for name, array in arrays.items():
        assert array.tobytes() == its_arrays[name].tobytes(), name


def test_an_environment_that_reuses_its_array_is_restorable(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 310}
    train(presets.make("dqn", "proxrl-tests/Reusing-v0", settings), tmp_path / "run")
    listener = Listener()
    resume(tmp_path / "run", {"steps": 450}, display=listener)
    assert not any("not restorable" in line for line in listener.said)


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300, "checkpoint.keep_replay": False})
    train(config, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    listener = Listener()
    agent = resume(tmp_path / "run", display=listener)
    assert agent.step == 300
    assert "is finished: extend it with --steps" in listener.said[0]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_another_machine_is_named_when_resuming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    monkeypatch.setattr("proxrl.training.machine.cpu_model", lambda: "another CPU")
    listener = Listener()
    resume(tmp_path / "run", {"steps": 450}, display=listener)
    assert any("another cpu than before: the bits may differ" in line for line in listener.said)


class Moody(gymnasium.Env[Any, Any]):
    """Ignores its seed: what it does cannot be repeated."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)
    generator = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> Any:
        return self.generator.uniform(-1, 1, 2).astype(np.float32)


gymnasium.register("proxrl-tests/Moody-v0", entry_point=Moody)


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None: ...
    def update(self, run: object) -> None: ...
    def say(self, line: str) -> None:
        self.said.append(line)


def test_an_environment_that_does_not_repeat_itself_is_named(tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 330}
    train(presets.make("dqn", "proxrl-tests/Moody-v0", settings), tmp_path / "run")
    listener = Listener()
    resume(tmp_path / "run", {"steps": 600}, display=listener)
    named = [line for line in listener.said if "not restorable" in line]
    assert len(named) == 1
    assert "proxrl-tests/Moody-v0" in named[0]
    assert newest(tmp_path / "run")[1]["step"] == 600


class Crash(gymnasium.Env[Any, Any]):
    """Fails in a way that nobody foresaw, after a while."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps > 200:
            raise KeyError("a fault of the environment's own")
        return np.zeros(2, np.float32), 0.0, False, self.steps % 20 == 0, {}


def test_an_unforeseen_fault_is_shown_as_a_failure(tmp_path: Path) -> None:
    gymnasium.register("Crash-v0", Crash)
    with pytest.raises(KeyError, match="of the environment's own"):
        train(presets.make("dqn", "Crash-v0", {**SMALL, "steps": 400}), tmp_path / "run")
    assert "KeyError" in RunFolder(tmp_path / "run").failure.read_text()


def test_a_run_killed_before_it_could_tidy_is_tidied_by_the_next_resume(tmp_path: Path) -> None:
    config = SCENARIOS["cartpole"].override({"steps": 300})
    train(config, tmp_path / "run")
    place = RunFolder(tmp_path / "run")
    place.write_config(config.override({"checkpoint.keep_replay": False}))
    assert place.replay.exists()
    resume(tmp_path / "run")
    assert not place.replay.exists()
