"""`proxrl tune` as a process: real trials, killed and continued; refusals."""

import signal
from pathlib import Path

import pytest

from proxrl import cli
from proxrl.errors import UserError
from tests import forking
from tests.conftest import Once
from tests.studies.small import step_of, wait_until
from tests.tuning.small import OPTIONS

pytest.importorskip("optuna")
WORDS = ["tune", "dqn-pro", "--env", "CartPole-v1", "--trials", "3", "--jobs", "1", *OPTIONS]
HOME = Path("runs") / "tune_dqn-pro_CartPole-v1"


@pytest.fixture(scope="session")
def whole(once: Once) -> Path:
    """The search without interruption."""

    def run(home: Path) -> None:
        done = forking.run("proxrl", *WORDS, cwd=home)
        assert done.returncode == 0, done.stdout + done.stderr
        (home / "said.txt").write_text(done.stdout + done.stderr)

    return once("whole-search", run)


def test_a_search_says_what_it_does_and_ends_with_the_line_to_type(whole: Path) -> None:
    said = (whole / "said.txt").read_text()
    assert "[0/3] trial 0 (kappa 0.7812): started" in said
    assert "3 of 3 trials done (3 finished); best " in said
    assert "page (open it in a browser): runs/tune_dqn-pro_CartPole-v1/report/index.html" in said
    last = said[said.index("proxrl train dqn-pro --env CartPole-v1") :].splitlines()[0]
    assert "--proximal.pull-per-sync" in last
    assert sorted(path.name for path in (whole / HOME).glob("trial*")) == [
        "trial000",
        "trial001",
        "trial002",
    ]
    assert '"seed": 102' in (whole / HOME / "trial002" / "config.json").read_text()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.faults)]
)
def test_interrupted_and_continued_it_gives_the_same_trials(
    number: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    process = forking.start("proxrl", *WORDS, cwd=tmp_path, merge=True)
    wait_until(lambda: step_of(tmp_path / HOME / "trial001") >= 200, process)
    process.send_signal(number)
    said, _ = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 130, said
        assert "1 of 3 trials done (1 finished)" in said
        assert "the same command continues it" in said
        assert "Traceback" not in said
    again = forking.run("proxrl", *WORDS, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "trial 0 (" not in again.stderr, "a finished trial is not repeated"
    for name in ("report/trials.csv", "report/index.html", "trial001/metrics.jsonl"):
        assert (tmp_path / HOME / name).read_bytes() == (whole / HOME / name).read_bytes()


def test_a_finished_search_runs_nothing_and_other_settings_are_refused(whole: Path) -> None:
    again = forking.run("proxrl", *WORDS, cwd=whole)
    assert again.returncode == 0
    assert "started" not in again.stderr
    other = forking.run("proxrl", *WORDS, "--learner.discount", "0.9", cwd=whole)
    assert other.returncode == 2
    assert "learner.discount was 0.99, is 0.9; choose another --folder" in other.stderr
    other = forking.run("proxrl", *WORDS, "--search", "kappa=1..2", cwd=whole)
    assert "--search was proximal.pull_per_sync=0.03..10:log, is " in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "missing argument: PRESET"),
        (["dqn-pro"], "missing option --env"),
        (["a2c", "--env", "CartPole-v1"], "unknown preset"),
        (["dqn-pro", "--env", "CartPole-v1", "--trials", "0"], "invalid --trials 0"),
        (["dqn-pro", "--env", "CartPole-v1", "--seed", "1"], "invalid --seed 1: must be at least"),
        (["dqn-pro", "--env", "CartPole-v1", "--jobs", "0"], "invalid --jobs 0"),
        (["dqn", "--env", "CartPole-v1"], "dqn has no fixed pull"),
        (["dqn-pro-adaptive", "--env", "CartPole-v1"], "has no fixed pull"),
        (
            ["dqn-pro", "--env", "CartPole-v1", "--search", "kappa=1..900"],
            "at an end of its range: invalid proximal.pull_per_sync 900.0",
        ),
    ],
)
def test_mistakes_are_one_line_before_anything_is_written(words: list[str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        cli.parse(["tune", *words])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    cli.parse(["tune", "--help"])()
    said = capsys.readouterr().out
    assert "--search kappa replay.n_step=1,3,5" in said
    with pytest.raises(SystemExit):
        cli.parse(["tune", "dqn-pro", "--env", "CartPole-v1", "--help"])
    assert "--trials INT" in capsys.readouterr().out


def test_another_folder_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = forking.run("proxrl", *WORDS, "--folder", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert "is neither empty nor a search: choose another --folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
