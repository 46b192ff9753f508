"""Videos during training (`evaluation.video`): which, of what, and that they change nothing."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest
from gymnasium import spaces

from proxrl import presets, resume, train
from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.training import film as film_module
from proxrl.training.evaluate import Evaluation
from proxrl.training.film import film
from proxrl.training.preflight import set_up
from proxrl.training.run import Stopped
from proxrl.types import Array, ObservationSpec
from tests.end_to_end.runs import assert_same_bits, newest
from tests.end_to_end.victim import SMALL
from tests.training.test_callbacks import Witness


def config(agent: str = "dqn-pro", env: str = "CartPole-v1", **changes: Any) -> RunConfig:
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    period = {"evaluation.period_steps": 100, "steps": 450}
    return presets.make(agent, env, {**SMALL, **period, **dotted})


def videos(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "videos").glob("*"))


@pytest.mark.parametrize(
    ("agent", "changes"),
    [
        ("dqn-pro", {}),
        ("rainbow-full-pro", {}),  # noisy
        ("dqn", {"proximal__rule": "values", "proximal__c": 1.0}),  # needs autograd
    ],
)
def test_every_nth_evaluation_has_a_video_and_no_bit_changes(
    agent: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """Evaluations at 100, 200, 300, 400 and 450: the second and the fourth."""
    plain, filmed = tmp_path / "plain", tmp_path / "filmed"
    train(config(agent, **changes), plain)
    train(config(agent, **changes, evaluation__video=2), filmed)
    assert not (plain / "videos").exists()
    assert videos(filmed) == ["step-200.mp4", "step-400.mp4"]
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert (plain / name).read_bytes() == (filmed / name).read_bytes()
    (arrays, state), (its_arrays, its_state) = newest(plain), newest(filmed)
    assert (state.pop("config") == its_state.pop("config")) is False, "one setting differs"
    assert state == its_state
    assert arrays.keys() == its_arrays.keys()
    for name, array in arrays.items():
        assert array.tobytes() == its_arrays[name].tobytes(), name


def test_the_last_evaluation_counts_too(tmp_path: Path) -> None:
    train(config(evaluation__video=5), tmp_path)
    assert videos(tmp_path) == ["step-450.mp4"]


def test_the_video_is_the_first_episode_of_the_evaluation(tmp_path: Path) -> None:
    agent = train(config(evaluation__video=5), tmp_path)
    frames = imageio.imread(tmp_path / "videos" / "step-450.mp4")
    assert agent.evaluate().lengths[0] == agent.evaluate(1).lengths[0] == len(frames) - 1
    assert frames.std() > 0, "a picture, not a blank"


def test_atari_is_filmed(tmp_path: Path) -> None:
    small = {"network__hidden": (8,), "steps": 100, "evaluation__video": 1}
    train(config(env="ALE/Breakout-v5", **small), tmp_path)
    frames = imageio.imread(tmp_path / "videos" / "step-100.mp4")
    assert np.ptp(frames) > 100


def test_videos_can_be_switched_on_when_resuming(tmp_path: Path) -> None:
    train(config(), tmp_path, callbacks=[Witness(("step", 250))])
    resume(tmp_path, {"evaluation.video": 1})
    assert videos(tmp_path) == ["step-300.mp4", "step-400.mp4", "step-450.mp4"]


def test_an_evaluation_stopped_while_filming_is_repeated_with_its_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    train(config(evaluation__video=2), whole)
    enlarge = film_module._enlarged

    def signalled(picture: Array) -> Array:
        os.kill(os.getpid(), signal.SIGTERM)
        return enlarge(picture)

    with monkeypatch.context() as patched:
        patched.setattr(film_module, "_enlarged", signalled)
        with pytest.raises(Stopped, match="stopped at step 200"):
            train(config(evaluation__video=2), folder)
    assert videos(folder) == []
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 1, "only step 100"
    resume(folder)
    assert videos(folder) == ["step-200.mp4", "step-400.mp4"]
    assert_same_bits(config(), whole, folder, ObservationSpec((4,), "float32", 1))


PICTURE = np.zeros((8, 8, 3), np.uint8)
EVALUATION = Evaluation([1.0], [2], {})


def played(watch: Callable[[Array], None], stop: Callable[[], bool]) -> Evaluation:
    for _ in range(3):
        watch(PICTURE)
    return EVALUATION


def broken_before(watch: Callable[[Array], None], stop: Callable[[], bool]) -> Evaluation:
    raise UserError("broken")


def broken_after(watch: Callable[[Array], None], stop: Callable[[], bool]) -> Evaluation:
    watch(PICTURE)
    raise UserError("broken")


def unseen(watch: Callable[[Array], None], stop: Callable[[], bool]) -> Evaluation:
    return EVALUATION


@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
@pytest.mark.parametrize("play", [played, broken_before, broken_after, unseen])
def test_files_beside_a_video_are_left_alone(play: Any, name: str, tmp_path: Path) -> None:
    (tmp_path / f"part-{name}").write_text("mine")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / f".part-{name}").symlink_to(tmp_path / "mine")
    before = {path.name for path in tmp_path.iterdir()}
    if play is played:
        film(play, tmp_path / name, 1)
        assert len(imageio.imread(tmp_path / name)) >= 1
        before.add(name)
        assert (tmp_path / name).stat().st_mode == (tmp_path / "mine").stat().st_mode
    else:
        with pytest.raises(UserError, match=r"broken|no image"):
            film(play, tmp_path / name, 1)
    assert {path.name for path in tmp_path.iterdir()} == before
    assert (tmp_path / f"part-{name}").read_text() == "mine"
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_file_with_the_name_of_the_unfinished_video_is_neither_written_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(film_module.secrets, "token_hex", lambda length: "0")
    (tmp_path / ".part-0.gif").write_text("mine")
    with pytest.raises(UserError, match=r"cannot write .*film\.gif: File exists"):
        film(played, tmp_path / "film.gif", 1)
    assert {path.name for path in tmp_path.iterdir()} == {".part-0.gif"}
    assert (tmp_path / ".part-0.gif").read_text() == "mine"


def test_a_video_that_ffmpeg_could_not_finish_is_incomplete(tmp_path: Path) -> None:
    train(config(evaluation__video=5), tmp_path)
    video = tmp_path / "videos" / "step-450.mp4"
    assert film_module._is_complete(video)
    content = video.read_bytes()
    for length in (0, 4, len(content) // 2, len(content) - 1):
        video.write_bytes(content[:length])
        assert not film_module._is_complete(video)


class Blind(gymnasium.Env[Any, Any]):
    """Cannot be rendered."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, **_: Any) -> tuple[Array, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_an_environment_that_cannot_be_drawn_is_an_error_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot render"):
        train(config(env="tests.training.test_film:Blind", evaluation__video=1), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_videos_no_environment_is_made_for_them() -> None:
    assert set_up(config()).film_environment is None
