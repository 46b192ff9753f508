"""Callbacks see what happens, may stop the run, and change no bit of it."""

import re
from pathlib import Path

import pytest

from proxrl import Agent, Callback, presets, resume, train
from proxrl.config import RunConfig
from proxrl.errors import EnvironmentFault, UserError
from proxrl.runs.folder import RunFolder
from proxrl.training.loop import Trainer
from proxrl.training.run import RunExists
from proxrl.types import ObservationSpec
from tests.end_to_end.runs import Listener, assert_same_bits
from tests.end_to_end.victim import SMALL

CONFIG = presets.make(
    "dqn-pro", "CartPole-v1", {**SMALL, "evaluation.period_steps": 200}, steps=600
)


def assert_same_runs(one: Path, other: Path) -> None:
    assert_same_bits(CONFIG, one, other, ObservationSpec((4,), "float32", 1))


class Witness(Callback):
    """Records what happens, and stops the run at a step, evaluation or checkpoint."""

    def __init__(self, stop: tuple[str, int] | None = None) -> None:
        self.seen: dict[str, list[int]] = {"step": [], "evaluation": [], "checkpoint": []}
        self.means: list[float] = []
        self._stop = stop

    def _note(self, what: str, run: Trainer) -> bool | None:
        self.seen[what].append(run.step)
        return None if (what, run.step) != self._stop else False

    def on_step(self, run: Trainer) -> bool | None:
        return self._note("step", run)

    def on_evaluation(self, run: Trainer) -> bool | None:
        assert run.last_evaluation is not None
        self.means.append(run.last_evaluation.mean)
        return self._note("evaluation", run)

    def on_checkpoint(self, run: Trainer) -> bool | None:
        return self._note("checkpoint", run)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train(CONFIG, folder)
    return folder


def test_callbacks_see_every_step_evaluation_and_checkpoint(
    undisturbed: Path, tmp_path: Path
) -> None:
    witness = Witness()
    train(CONFIG, tmp_path / "run", callbacks=[witness])
    assert witness.seen == {
        "step": list(range(1, 601)),
        "evaluation": [200, 400, 600],
        "checkpoint": [150, 300, 450, 600],
    }
    assert_same_runs(undisturbed, tmp_path / "run")


@pytest.mark.parametrize(
    "stop", [("step", 333), ("step", 400), ("evaluation", 400), ("checkpoint", 300)]
)
def test_a_run_stopped_by_a_callback_resumes_bit_identically(
    stop: tuple[str, int], undisturbed: Path, tmp_path: Path
) -> None:
    folder, witness, listener = tmp_path / "run", Witness(stop), Listener()
    agent = train(CONFIG, folder, listener, callbacks=[Callback(), witness])
    assert agent.step == stop[1] == RunFolder(folder).newest_step()
    assert Agent.load(folder).step == stop[1]
    assert witness.seen["step"][-1] == stop[1], "nothing after it"
    assert listener.said[-1].startswith(f"stopped by a callback at step {stop[1]}")
    again = Witness()
    resume(folder, callbacks=[again])
    assert again.seen["step"][0] == stop[1] + 1
    assert_same_runs(undisturbed, folder)


def test_a_callback_that_stops_at_the_last_step_stops_nothing(tmp_path: Path) -> None:
    agent = train(CONFIG, tmp_path / "run", callbacks=[Witness(("step", 600))])
    assert agent.step == 600
    assert RunFolder(tmp_path / "run").is_complete(CONFIG)


# ------------------------------------------------------------------------------------- if_exists


def changed(**settings: object) -> RunConfig:
    return CONFIG.override({name.replace("__", "."): value for name, value in settings.items()})


def test_an_existing_run_is_an_error_that_says_what_differs_and_how_to_go_on(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    train(CONFIG, folder, callbacks=[Witness(("step", 300))])
    with pytest.raises(RunExists) as same:
        train(CONFIG, folder)
    assert str(same.value) == (
        f'{folder} has a run at step 300 of 600: pass if_exists="resume" to continue it, '
        'or if_exists="overwrite" to delete it, or another folder'
    )
    with pytest.raises(RunExists, match=r"with proximal\.c 0\.064, not 0\.5: pass if_exists=\"o"):
        train(changed(proximal__c=0.5), folder)
    with pytest.raises(RunExists, match=r"with steps 600, not 900: pass if_exists=\"resume\""):
        train(changed(steps=900), folder)
    with pytest.raises(UserError, match=r"invalid if_exists 'again': choose error, resume or"):
        train(CONFIG, folder, if_exists="again")  # type: ignore[arg-type]
    assert RunFolder(folder).newest_step() == 300


def test_resume_continues_extends_or_begins(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(CONFIG, folder, callbacks=[Witness(("step", 333))], if_exists="resume")
    assert RunFolder(folder).newest_step() == 333
    agent = train(CONFIG, folder, if_exists="resume")
    assert agent.step == 600
    assert_same_runs(undisturbed, folder)
    assert train(CONFIG, folder, if_exists="resume").step == 600, "finished: loaded"
    assert train(changed(steps=650), folder, if_exists="resume").step == 650
    with pytest.raises(UserError, match=r"seed cannot change when resuming"):
        train(changed(seed=5), folder, if_exists="resume")


def test_a_schedule_over_the_whole_run_is_resumable_but_not_extendable(tmp_path: Path) -> None:
    rates = {"learner__rate_schedule": "linear", "learner__final_rate": 1e-5}
    whole, folder = tmp_path / "whole", tmp_path / "run"
    train(changed(**rates), whole)
    train(changed(**rates), folder, callbacks=[Witness(("step", 333))])
    train(changed(**rates), folder, if_exists="resume")
    assert_same_runs(whole, folder)
    with pytest.raises(UserError, match=r"the linear learning-rate schedule spans all 600"):
        train(changed(steps=900, **rates), folder, if_exists="resume")


def test_a_schedule_with_its_own_length_can_be_extended(tmp_path: Path) -> None:
    rates = {"learner__rate_schedule": "cosine", "learner__rate_schedule_steps": 400}
    train(changed(**rates), tmp_path)
    assert train(changed(steps=650, **rates), tmp_path, if_exists="resume").step == 650


def test_overwrite_begins_again_and_leaves_other_files_alone(
    undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    train(changed(seed=5, logging__tensorboard=True), folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "failure.txt").write_text("old")
    train(CONFIG, folder, if_exists="overwrite")
    assert_same_runs(undisturbed, folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "tensorboard").exists()
    assert not (folder / "failure.txt").exists()


def test_overwrite_deletes_nothing_in_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="neither empty nor a run"):
        train(CONFIG, tmp_path, if_exists="overwrite")
    assert (tmp_path / "checkpoints" / "thesis.txt").exists()


class Broken(Callback):
    """As an environment that is found to be invalid in the first steps."""

    def on_step(self, run: Trainer) -> None:
        raise EnvironmentFault("reward nan at step 7")


def test_a_late_fault_removes_the_run_and_leaves_other_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(changed(steps=150), folder)
    (folder / "thesis").mkdir()
    (folder / "thesis" / "chapter.txt").write_text("mine")
    with pytest.raises(EnvironmentFault):
        train(CONFIG, folder, if_exists="overwrite", callbacks=[Broken()])
    assert (folder / "thesis" / "chapter.txt").read_text() == "mine"
    assert not (folder / "config.json").exists()


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for call, message in (
        (lambda: train("dqn", run), "invalid config 'dqn': must be a RunConfig"),
        (lambda: train(CONFIG, run, callbacks=[print]), "must be a proxrl.Callback"),
        (lambda: train(CONFIG, run, display="yes"), "invalid display 'yes': must be"),
        (lambda: CONFIG.override({"batch_size": 1}), "did you mean replay.batch_size?"),
        (lambda: CONFIG.override({"proximl.c": 1}), "did you mean proximal.c?"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            call()
    assert not run.exists()
