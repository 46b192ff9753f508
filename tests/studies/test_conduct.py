"""Who may train in a run folder, what is retried, and how the board shows it."""

import io
import os
import sys
import time
from pathlib import Path

import pytest

from proxrl.runs.attempts import enter_attempt, newest_attempt
from proxrl.runs.folder import RunFolder, Superseded
from proxrl.studies import worker
from proxrl.studies.board import Board, Entry
from proxrl.studies.conduct import MAX_CRASHES, _next, _settle, conduct
from proxrl.studies.definition import parse
from proxrl.studies.expand import Job, expand
from proxrl.studies.local import Local
from proxrl.studies.process import AGAIN, MISTAKE, outcome_of
from proxrl.training.loop import Trainer
from proxrl.training.progress import Display
from proxrl.training.run import train
from tests.report.synthetic import write_checkpoint
from tests.studies.small import STEPS, TEXT, step_of


def jobs_in(folder: Path, **narrow: object) -> list[Job]:
    study = parse("poles", TEXT)
    return expand(study, study.scales["tiny"], folder, **narrow)  # type: ignore[arg-type]


def test_a_run_that_someone_else_trains_is_reported_and_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs_in(tmp_path, seeds=[0], only=["dqn"])
    place = RunFolder(job.folder)
    place.make()
    with place.locked():
        monkeypatch.setattr(worker, "WAIT_SECONDS", 0.1)
        code = worker.run_job(job.config, job.folder, "wait")
        assert code == MISTAKE
        assert newest_attempt(job.folder) == place.attempt == 1, "nobody else has entered"


def test_a_late_attempt_finds_the_newer_number_and_writes_nothing_more(tmp_path: Path) -> None:
    """The newer one starts during a run, as on a machine that cannot see this process."""
    (job,) = jobs_in(tmp_path, seeds=[0], only=["dqn"])
    place = RunFolder(job.folder)

    class Watch(Display):
        def say(self, line: str) -> None:
            pass

        def on_step(self, run: Trainer) -> None:
            if run.step == 450:
                run.checkpointer.wait()  # of step 400
                enter_attempt(job.folder)

    with pytest.raises(Superseded, match="has taken over"):
        train(job.config, job.folder, Watch())
    assert step_of(job.folder) == 400, "the checkpoint at 600 was not written"
    assert not list((job.folder / "checkpoints").glob("*.writing"))
    assert not place.failure.exists()
    assert not place.is_locked()


# ------------------------------------------------------------------------------- retries


class Scripted:
    """An executor with scripted outcomes; a checkpoint may appear before each."""

    def __init__(self, ends: list[tuple[str, int]]) -> None:
        self.ends, self.started, self.at_once = list(ends), 0, 1

    def has_room(self, job: Job) -> bool:
        return True

    def start(self, job: Job) -> None:
        self.started += 1
        self.job = job

    def ended(self) -> list[tuple[Job, str, str]]:
        end, saved = self.ends.pop(0)
        place = RunFolder(self.job.folder)
        place.make()
        place.write_config(self.job.config)
        write_checkpoint(place.path, self.job.config, saved)
        return [(self.job, end, "it fell over")]

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    ("ends", "status", "starts"),
    [
        ([("finished", STEPS)], "finished", 1),
        ([("crashed", 200), ("crashed", 200), ("finished", STEPS)], "finished", 3),
        ([("crashed", 200)] * 4, "failed", MAX_CRASHES + 1),
        ([("crashed", 200 * n) for n in range(1, 9)] + [("finished", STEPS)], "finished", 9),
        ([("failed", 200)], "failed", 1),
        ([("stopped", 200), ("finished", STEPS)], "finished", 2),
        ([("again", 200), ("again", 200), ("finished", STEPS)], "finished", 3),
        ([("again", 200)] * 4, "failed", MAX_CRASHES + 1),
        ([("finished", 200)], "failed", 1),
    ],
    ids=[
        "finishes",
        "crashes twice at the same step, then finishes",
        "crashes three times at the same step",
        "crashes often, but gets on each time",
        "fails with a diagnosis: would fail again",
        "stopped by someone else",
        "no memory twice, then finishes",
        "never any memory",
        "says it finished, and the folder here shows something else",
    ],
)
def test_what_is_tried_again(
    ends: list[tuple[str, int]],
    status: str,
    starts: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxrl.studies.conduct.SHOW_SECONDS", 0.0)
    monkeypatch.setattr("proxrl.studies.conduct.PAUSE_SECONDS", 0.0)
    (job,) = jobs_in(tmp_path, seeds=[0], only=["dqn"])
    board, executor = Board([job]), Scripted(ends)
    conduct(board, executor, lambda *_: None)  # type: ignore[arg-type]
    assert board.entries[job].status == status
    assert executor.started == starts


def test_a_run_that_found_no_memory_pauses_and_lets_others_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = jobs_in(tmp_path, seeds=[0])
    monkeypatch.setattr("proxrl.training.resources.available_memory", lambda: 0)
    assert worker.run_job(first.config, first.folder, "wait") == AGAIN
    assert outcome_of(AGAIN) == "again"
    waiting = [Entry(first), Entry(second)]
    assert _settle(waiting[0], "again", "exit code 75").startswith("paused")
    assert _next(waiting) is waiting[1]


def test_cores_are_not_shared_and_the_limit_is_kept(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    executor = Local(cores=2, max_jobs=8)
    executor._processes = {jobs[0]: None}  # type: ignore[dict-item]
    assert executor.has_room(jobs[1])
    executor._processes[jobs[1]] = None  # type: ignore[assignment]
    assert not executor.has_room(jobs[2])
    wide = Job("x", "g", 0, jobs[0].config.override({"threads": 8}), tmp_path)
    assert Local(cores=2, max_jobs=8).has_room(wide), "one that is too wide runs alone"


def test_the_time_left_counts_each_variant_at_its_own_speed(tmp_path: Path) -> None:
    board = Board(jobs_in(tmp_path))
    assert board.seconds_left() is None
    now = time.monotonic()
    slow, fast = (board.entries[job] for job in list(board.entries)[:2])
    slow.status = fast.status = "running"
    slow.begun, slow.ended, slow.step = (now - 10, 0), now, 1_000  # 100 steps/s
    fast.begun, fast.ended, fast.step = (now - 10, 0), now, 2_000  # 200 steps/s
    left = board.seconds_left()
    # seed 0: 2,000 / 100 and 1,000 / 200; seed 1: 3,000 / 100 and 3,000 / 200; two at a time
    assert left == pytest.approx((20 + 5 + 30 + 15) / 2, rel=0.01)


def test_a_line_about_a_folder_that_is_not_utf_8_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output of a run's process is log.txt, and strict."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "utf-8", errors="strict"))
    place = RunFolder(tmp_path / os.fsdecode(b"odd\xff"))
    worker.Reporter(place).say(f"κ: {place.path} has another run")
    assert written.getvalue().decode().endswith(rf" κ: {tmp_path}/odd\udcff has another run" + "\n")
