"""Trained agents, and evaluations as pure functions."""

import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proxrl import Agent, cli, presets, train
from proxrl.agents.networks import build_network
from proxrl.config import to_json
from proxrl.envs import FrameStack
from proxrl.envs.gym import Gym
from proxrl.errors import UserError
from proxrl.replay import log_nbytes
from proxrl.runs.checkpoint import checkpoint_path, read, write
from proxrl.runs.folder import RunFolder
from proxrl.training.evaluate import Evaluation, protocol
from proxrl.training.film import film
from proxrl.training.preflight import requirements, seconds_of, set_up
from proxrl.training.resources import available_memory
from proxrl.training.run import resolved
from proxrl.training.view import evaluate_run
from proxrl.types import Array, ObservationSpec, TimeStep
from tests.end_to_end.victim import SMALL

SHORT = {**SMALL, "steps": 300, "evaluation.period_steps": 150}


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "cartpole"
    train(presets.make("dqn-pro", "CartPole-v1", SHORT), folder)
    return folder


@pytest.fixture(scope="module")
def atari(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "atari"
    settings = {**SHORT, "network.hidden": (16,), "protocol.life_loss_terminal": True}
    train(presets.make("dqn-pro", "ALE/Breakout-v5", settings), folder)
    return folder


def test_predict_follows_the_habits_of_stable_baselines(cartpole: Path) -> None:
    agent = Agent.load(cartpole)
    observation = np.array([0.1, 0.2, -0.1, 0.0], dtype=np.float32)
    action, state = agent.predict(observation, deterministic=True)
    assert action in (0, 1)
    assert state is None
    batch, _ = agent.predict(np.stack([observation] * 3))
    assert batch.tolist() == [action] * 3


def test_predict_explores_if_not_deterministic(cartpole: Path) -> None:
    agent = Agent.load(cartpole)
    observations = np.zeros((4000, 4), dtype=np.float32)
    actions, _ = agent.predict(observations, deterministic=False)
    greedy, _ = agent.predict(observations)
    share = (actions != greedy).mean()
    assert share == pytest.approx(agent.config.exploration.final_epsilon / 2, abs=0.01)


def test_predict_refuses_another_shape(cartpole: Path) -> None:
    with pytest.raises(UserError, match=r"has shape \(4,\), got \(5,\)"):
        Agent.load(cartpole).predict(np.zeros(5))


class Toy(gymnasium.Env[Any, Any]):
    """Has any given observation space, and cannot be rendered."""

    def __init__(self, space: "spaces.Space[Any]") -> None:
        self.observation_space = space
        self.action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        return self.observation_space.sample(), 1.0, False, True, {}


SPACES: list["spaces.Space[Any]"] = [
    spaces.Discrete(5),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 1, ()),
    spaces.Box(-1, 1, (2, 3)),
    spaces.Box(0, 255, (3, 40, 50), np.uint8),
    spaces.Box(0, 1, (12, 12, 3)),
    spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (3,))}),
    spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (3,)))),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_predict_takes_what_the_environment_gives_and_gives_what_it_takes(
    space: "spaces.Space[Any]",
) -> None:
    toy = Toy(space)
    config = presets.make("dqn", "CartPole-v1").override({"env": "Toy-v0"})
    environment = Gym("Toy-v0", toy, config.protocol)
    network = build_network(environment.observation, 3, config.network, seed=0)
    agent = Agent(network, config, [environment], step=0)
    space.seed(0)
    several = [space.sample() for _ in range(6)]
    single = [agent.predict(raw)[0] for raw in several]
    for raw, action in zip(several, single, strict=True):
        state = torch.from_numpy(environment.encode(raw)[None, None])
        assert action == 5 + int(network(state).argmax())
        assert isinstance(action, int)
    batch = several if space.shape is None else np.stack(several)
    assert agent.predict(batch)[0].tolist() == single
    first = several[:1] if space.shape is None else np.stack(several[:1])
    assert agent.predict(first)[0].tolist() == single[:1], "a batch of one is a batch"


def test_what_cannot_be_filmed_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cartpole: Path
) -> None:
    gymnasium.register("proxrl-tests/Toy-v0", lambda **_: Toy(spaces.Discrete(5)))
    train(presets.make("dqn", "proxrl-tests/Toy-v0", SHORT), tmp_path / "toy")
    for arguments, message in (
        (["play", str(tmp_path / "toy")], "cannot render proxrl-tests/Toy-v0"),
        (["play", str(cartpole), "--out", "/dev/null/film.mp4"], "cannot write /dev/null/film.mp4"),
    ):
        with pytest.raises(SystemExit) as left:
            cli.main(arguments)
        assert left.value.code == 2
        assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "toy" / "videos").exists()


def test_memory_is_what_the_container_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 of 100 MB used, 4 of them reclaimable page cache."""
    (tmp_path / "limit").write_text("100000000\n")
    (tmp_path / "used").write_text("10000000\n")
    (tmp_path / "memory.stat").write_text("anon 6000000\ninactive_file 4000000\n")
    monkeypatch.setattr("proxrl.training.resources.CGROUPS", [(tmp_path, "limit", "used")])
    assert available_memory() == 94_000_000
    (tmp_path / "limit").write_text("max\n")
    assert available_memory() > 94_000_000


def test_predict_on_atari_takes_a_stack(atari: Path) -> None:
    agent = Agent.load(atari)
    stack = FrameStack(agent.environment.observation)
    stack.begin(agent.environment.reset(np.random.SeedSequence(0)).observation)
    assert stack.state.shape == (4, 84, 84)
    assert agent.predict(stack.state)[0] in range(4)


def test_an_evaluation_is_a_pure_function(cartpole: Path) -> None:
    one, other = Agent.load(cartpole), Agent.load(cartpole)
    first = one.evaluate(3)
    assert one.evaluate(3) == first
    assert other.evaluate(3) == first
    assert first.returns == [float(length) for length in first.lengths]


def test_an_evaluation_of_so_many_steps_plays_whole_episodes_until_then(cartpole: Path) -> None:
    agent = Agent.load(cartpole)
    two = agent.evaluate(2)
    settings = {"evaluation.episodes": 1, "evaluation.min_steps": two.lengths[0] + 1}
    agent.config = agent.config.override(settings)
    scored = agent.evaluate()
    assert (scored.returns, scored.lengths) == (two.returns, two.lengths)
    assert scored.protocol["min_steps"] == two.lengths[0] + 1
    assert agent.evaluate(1).lengths == two.lengths[:1], "a number that is asked for is played"


def test_the_last_line_of_metrics_is_that_evaluation(cartpole: Path) -> None:
    last = json.loads((cartpole / "metrics.jsonl").read_text().splitlines()[-1])
    again = Agent.load(cartpole).evaluate()
    assert last["eval/returns"] == again.returns
    assert last["protocol"] == again.protocol


def test_scores_never_end_on_a_lost_life(atari: Path) -> None:
    agent = Agent.load(atari)
    scored = agent.evaluate(1, epsilon=1.0)
    assert scored.protocol["life_loss_terminal"] is False
    assert scored.protocol["trained_with_life_loss_terminal"] is True
    assert scored.lengths[0] > 40, "five lives of Breakout last longer than one"


def test_the_protocol_names_everything_a_score_depends_on() -> None:
    config = presets.make("dqn", "ALE/Pong-v5")
    stamp = protocol(config, episodes=2, epsilon=0.001)
    assert stamp == {
        "env": "ALE/Pong-v5",
        "returns": "evaluation, undiscounted, unclipped",
        "epsilon": 0.001,
        "episodes": 2,
        "min_steps": 0,
        "sticky_actions": 0.25,
        "frame_skip": 4,
        "stack": 4,
        "max_episode_steps": 27_000,
        "life_loss_terminal": False,
        "trained_with_life_loss_terminal": False,
        "trained_with_time_limit_terminal": False,
    }


def test_the_protocol_names_other_frames() -> None:
    changes = {"protocol.frame_size": 64, "protocol.grayscale": False}
    usual = protocol(presets.make("dqn", "ALE/Pong-v5"), 2, 0.001)
    stamp = protocol(presets.make("dqn", "ALE/Pong-v5", changes), 2, 0.001)
    assert stamp == {**usual, "frame_size": 64, "grayscale": False}


@pytest.mark.parametrize("kind", ["nature", "nature-same"])
def test_an_agent_learns_from_small_frames_in_colour(kind: str, tmp_path: Path) -> None:
    frames = {"protocol.frame_size": 40, "protocol.grayscale": False, "network.kind": kind}
    small = {**SHORT, "steps": 150, "network.hidden": (8,), **frames}
    run = train(presets.make("dqn-pro", "ALE/Pong-v5", small), tmp_path)
    agent = Agent.load(tmp_path)
    assert agent.environment.observation.state_shape == (4, 40, 40, 3)
    states = np.random.default_rng(0).integers(0, 256, (2, 4, 40, 40, 3), np.uint8)
    np.testing.assert_array_equal(agent.q_values(states), run.q_values(states))
    with pytest.raises(UserError, match=r"has shape \(4, 40, 40, 3\), got \(4, 84, 84\)"):
        agent.predict(np.zeros((4, 84, 84), np.uint8))


def test_frames_that_are_too_small_for_the_network_are_an_error() -> None:
    small = {"protocol.frame_size": 35, "network.kind": "nature"}
    with pytest.raises(UserError, match=r"nature needs images of at least 36 x 36, got .*\(35, 35"):
        set_up(resolved(presets.make("dqn", "ALE/Pong-v5", small)))


def test_a_folder_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        Agent.load(tmp_path)


def forge(folder: Path, changes: dict[str, Any], **parts: Any) -> None:
    """Change the settings in config.json and in the checkpoint."""
    place = RunFolder(folder)
    config = place.config().override(changes)
    place.write_config(config)
    path = checkpoint_path(place.checkpoints, 300)
    write(path, {**read(path), "config": to_json(config), **parts})


@pytest.mark.parametrize(
    ("setting", "message"),
    [("protocol.frame_skip", "must be at least 1"), ("evaluation.episodes", "must be at least 1")],
)
def test_invalid_settings_of_a_run_are_one_line(
    setting: str, message: str, cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(cartpole, tmp_path / "run")
    forge(tmp_path / "run", {setting: 0})
    line = f"{tmp_path}/run/config.json: invalid {setting} 0: {message}"
    with pytest.raises(UserError, match=re.escape(line)):
        Agent.load(tmp_path / "run")
    with pytest.raises(SystemExit) as ended:
        cli.main(["play", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"proxrl: {line}\n"


@pytest.mark.parametrize("learner", [{}, {"online.x": 3}, 5, None])
def test_a_checkpoint_without_weights_is_one_line(
    learner: object, cartpole: Path, tmp_path: Path
) -> None:
    shutil.copytree(cartpole, tmp_path / "run")
    forge(tmp_path / "run", {}, learner=learner)
    with pytest.raises(UserError, match=r"config\.json does not fit the checkpoint"):
        Agent.load(tmp_path / "run")


def test_an_evaluation_plays_side_by_side(cartpole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, counts = Agent.load(cartpole), []

    def counted(network: object, environments: list[object], *others: object) -> None:
        counts.append(len(environments))

    monkeypatch.setattr("proxrl.training.agent.evaluate", counted)
    for episodes in (1, 3, 30):
        agent.evaluate(episodes)
    assert counts == [1, 3, agent.config.evaluation.environments]
    assert counts[-1] > 3


def test_an_evaluation_has_the_threads_of_the_run_and_leaves_those_of_the_process(
    cartpole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, before, during = Agent.load(cartpole), torch.get_num_threads(), []
    agent.config = agent.config.override({"threads": before + 1})
    monkeypatch.setattr(
        "proxrl.training.agent.evaluate", lambda *_: during.append(torch.get_num_threads())
    )
    agent.evaluate(1)
    assert during == [before + 1]
    assert torch.get_num_threads() == before


def test_an_evaluation_during_training_is_without_noise(tmp_path: Path) -> None:
    """And so the evaluation of the loaded agent repeats it."""
    settings = {**SHORT, "evaluation.epsilon": 0.0, "network.noisy_sigma": 5.0}
    train(presets.make("rainbow-full-pro", "CartPole-v1", settings), tmp_path)
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert Agent.load(tmp_path).evaluate().returns == last["eval/returns"]


def test_a_video_of_many_skipped_frames_has_a_speed(cartpole: Path, tmp_path: Path) -> None:
    agent = Agent.load(cartpole, pictures=True)

    def play(watch: Callable[[Array], None], stop: Callable[[], bool]) -> Evaluation:
        return agent.evaluate(episodes=1, watch=watch, stop=stop)

    film(play, tmp_path / "slow.gif", frame_skip=100, max_steps=3)
    assert (tmp_path / "slow.gif").stat().st_size


@pytest.mark.parametrize("run", ["cartpole", "atari"])
def test_play_writes_a_video(
    run: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    import imageio.v3 as imageio

    folder: Path = request.getfixturevalue(run)
    cli.main(["play", str(folder), "--max-steps", "20"])
    assert "videos/step-300.mp4" in capsys.readouterr().out
    frames = imageio.imread(folder / "videos" / "step-300.mp4")
    assert 5 < len(frames) <= 21
    assert frames.std() > 0, "a picture, not a blank"


@pytest.mark.parametrize("name", ["clip.gif", "clip.mp4"])
def test_a_video_is_written_where_it_was_asked_for_if_the_environment_moves(
    name: str,
    cartpole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    monkeypatch.chdir(here)
    step = Gym.step

    def moving(self: Gym, action: int) -> TimeStep:
        os.chdir(elsewhere)
        return step(self, action)

    monkeypatch.setattr(Gym, "step", moving)
    cli.main(["play", str(cartpole), "--out", name, "--max-steps", "5"])
    assert capsys.readouterr().out.startswith(f"{name}: ")
    assert [path.name for path in here.iterdir()] == [name]
    assert list(elsewhere.iterdir()) == []
    assert Path.cwd() == here


def test_a_gif_runs_at_the_speed_of_play_and_shows_the_end(cartpole: Path) -> None:
    from PIL import Image

    out = cartpole / "videos" / "episode.gif"
    cli.main(["play", str(cartpole), "--out", str(out)])
    steps = Agent.load(cartpole).evaluate(episodes=1).lengths[0]
    with Image.open(out) as film:
        shown = sum(_duration(film, number) for number in range(film.n_frames))
    assert shown == (steps + 1) * 30, "30 ms a picture: GIFs count in hundredths of a second"


def _duration(film: Any, number: int) -> float:
    film.seek(number)
    return float(film.info["duration"])


def test_eval_stamps_the_protocol(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["eval", str(cartpole), "--episodes", "2"])
    assert "undiscounted" in capsys.readouterr().out
    line = json.loads((cartpole / "evaluations.jsonl").read_text().splitlines()[-1])
    assert line["protocol"]["episodes"] == 2
    assert len(line["returns"]) == 2


def test_runs_lists_progress_and_state(
    cartpole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    cli.main(["runs", str(cartpole.parent)])
    out = capsys.readouterr().out
    assert "100% of 300" in out
    assert "finished" in out


def test_runs_keeps_a_line_a_run_when_it_is_not_a_terminal(
    cartpole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    cli.main(["runs", str(cartpole.parent)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "CartPole-v1" in line]
    assert "finished" in line


def test_an_unwritable_eval_is_rejected_before_it_is_played(cartpole: Path) -> None:
    taken = cartpole / "evaluations.jsonl"
    before = taken.read_text() if taken.exists() else None
    taken.unlink(missing_ok=True)
    taken.mkdir()
    with pytest.raises(UserError, match="is a folder, not a file"):
        evaluate_run(cartpole, episodes=10**9, epsilon=None)
    taken.rmdir()
    if before is not None:
        taken.write_text(before)


def test_preflight_says_memory_disk_and_time() -> None:
    config = resolved(presets.make("dqn", "CartPole-v1"))
    setup = set_up(config)
    needs = requirements(config, setup)
    assert needs.memory > 6e8
    assert needs.disk > 1e6
    seconds = seconds_of(config, setup, config.steps)
    assert 1 < seconds < 10_000
    assert "of training" in str(needs._replace(seconds=seconds))


def test_preflight_counts_what_the_log_will_take() -> None:
    """Two sizes: the replay, and twice the replay."""
    sizes = []
    for capacity in (100_000, 200_000):
        config = resolved(presets.make("dqn", "ALE/Pong-v5", {"replay.capacity": capacity}))
        sizes.append(requirements(config, set_up(config)).disk)
    assert sizes[1] - sizes[0] == pytest.approx(100_000 * 1.01 * 84 * 84, rel=0.01)


@pytest.mark.parametrize(
    ("frames", "shape"),
    [
        ({}, (84, 84)),
        ({"protocol.frame_size": 42}, (42, 42)),
        ({"protocol.grayscale": False}, (84, 84, 3)),
    ],
)
def test_preflight_counts_the_pixels_and_colours_of_a_frame(
    frames: dict[str, Any], shape: tuple[int, ...]
) -> None:
    config = resolved(presets.make("dqn", "ALE/Pong-v5", {**frames, "network.hidden": (8,)}))
    replay = requirements(config, set_up(config)).replay
    spec = ObservationSpec(shape, "uint8", 4)
    assert replay == log_nbytes(spec, 200_000, config.checkpoint.period_steps)
    assert replay > 200_000 * math.prod(shape)


def test_a_seed_gives_an_independent_score_that_repeats_itself(cartpole: Path) -> None:
    agent = Agent.load(cartpole)
    own = agent.evaluate(5, epsilon=0.5)
    one, other = (agent.evaluate(5, epsilon=0.5, seed=seed) for seed in (1, 2))
    assert agent.evaluate(5, epsilon=0.5, seed=1) == one
    assert len({tuple(scored.returns) for scored in (own, one, other)}) == 3
    same_number = agent.evaluate(5, epsilon=0.5, seed=agent.config.seed)
    assert same_number.returns != own.returns, "not the run's own draws"
    assert one.protocol == own.protocol


def test_eval_prints_json(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["eval", str(cartpole), "--episodes", "2", "--seed", "3", "--json"])
    line = json.loads(capsys.readouterr().out)
    assert line["evaluation_seed"] == 3
    assert line["mean_return"] == Agent.load(cartpole).evaluate(2, seed=3).mean
    assert len(line["returns"]) == 2
    assert line["protocol"]["episodes"] == 2
