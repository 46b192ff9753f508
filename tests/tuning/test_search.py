"""Suggestions, pruning and resuming, without training: every evaluation is a formula."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxrl.config import RunConfig
from proxrl.errors import RunFailed, UserError
from proxrl.runs.folder import RunFolder
from proxrl.tuning.page import command_of, write_page
from proxrl.tuning.space import parsed
from proxrl.tuning.trials import Trials, best
from tests.tuning.small import KAPPA, STEPS, Simulated, base, search

pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def _without_fsync() -> Iterator[None]:
    """A killed process does not need it, and hundreds of them take minutes on a busy disk."""
    sqlalchemy = pytest.importorskip("sqlalchemy")

    def connected(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", connected)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", connected)


def hill(config: RunConfig, step: int) -> float:
    """Best at kappa = 0.3; grows with the steps."""
    return step / STEPS * (10.0 - math.log(config.pull_per_sync / 0.3) ** 2)


def outcomes(trials: Trials) -> list[object]:
    return [(one.outcome, one.values, one.score, one.evaluations) for one in trials.all()]


def test_a_search_finds_the_top_of_the_hill_and_starts_with_the_preset(tmp_path: Path) -> None:
    executor = Simulated(hill)
    trials = search(tmp_path / "a", executor, 20)
    found = trials.all()
    assert found[0].values == {"proximal.pull_per_sync": 0.7812}, "the preset's own"
    assert executor.started == list(range(100, 120)), "a seed for each trial, from 100 up"
    top = best(found)
    assert top is not None
    assert 0.15 < top.values["proximal.pull_per_sync"] < 0.6
    assert top.score == pytest.approx(hill(base().override(top.values), STEPS))


def test_a_trial_below_the_median_of_the_others_is_stopped(tmp_path: Path) -> None:
    """The first five are never pruned, nor is one in the first fifth of its steps."""

    def worse_and_worse(config: RunConfig, step: int) -> float:
        return -float(config.seed) * step

    executor = Simulated(worse_and_worse)
    executor.slowly = True
    found = search(tmp_path / "a", executor, 7).all()
    assert [one.outcome for one in found] == ["finished"] * 5 + ["pruned"] * 2
    assert [one.last_step for one in found] == [STEPS] * 5 + [200] * 2
    assert found[6].score == -106 * 200, "its last evaluation"
    assert executor.stopped == [105, 106]
    assert executor.started == list(range(100, 107)), "a pruned trial is not started again"
    assert not RunFolder(tmp_path / "a" / "trial006").replay.exists()


def test_what_is_pruned_does_not_depend_on_when_the_evaluations_are_read(tmp_path: Path) -> None:
    slow, fast = Simulated(hill), Simulated(hill)
    slow.slowly = True
    one, other = search(tmp_path / "a", slow, 12), search(tmp_path / "b", fast, 12)
    assert outcomes(one) == outcomes(other)
    assert any(trial.outcome == "pruned" for trial in one.all())
    assert fast.stopped == []


def test_without_pruning_every_trial_is_finished(tmp_path: Path) -> None:
    found = search(tmp_path / "a", Simulated(hill), 9, prune=False).all()
    assert {one.outcome for one in found} == {"finished"}


def test_the_same_seed_gives_the_same_trials_however_often_it_is_restarted(tmp_path: Path) -> None:
    """Each restart has a new process's state: nothing but the files."""
    space = parsed(["kappa", "learner.learning_rate=1e-5..1e-3:log", "learner.double=true,false"])
    whole = search(tmp_path / "a", Simulated(hill), 12, space)  # the first 10 are random
    for wanted in range(2, 13, 2):
        parts = search(tmp_path / "b", Simulated(hill), wanted, space)
    assert outcomes(parts) == outcomes(whole)
    other = search(tmp_path / "c", Simulated(hill), 3, space, base(seed=200))
    assert outcomes(other)[1:] != outcomes(whole)[1:3]


class Killed(BaseException):
    """As SIGKILL: nothing after it is executed."""


@pytest.mark.parametrize(
    "moment",
    [
        "prunes",
        *(pytest.param(one, marks=pytest.mark.faults) for one in ("start", "ended", "tell")),
    ],
)
def test_a_search_that_is_killed_at_any_moment_continues(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search(tmp_path / "a", Simulated(hill), 9)
    executor = Simulated(hill)
    calls = 0

    def then_dies(method):  # type: ignore[no-untyped-def]
        def call(*words: object, **names: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 7:
                raise Killed
            return method(*words, **names)

        return call

    if moment in ("start", "ended"):
        setattr(executor, moment, then_dies(getattr(executor, moment)))
    else:
        monkeypatch.setattr(Trials, moment, then_dies(getattr(Trials, moment)))
    with pytest.raises(Killed):
        search(tmp_path / "b", executor, 9)
    monkeypatch.undo()
    again = Simulated(hill)
    parts = search(tmp_path / "b", again, 9)
    assert outcomes(parts) == outcomes(whole)
    assert len(again.started) == len(set(again.started)) < 9, "finished trials are not repeated"


def test_raising_the_number_of_trials_goes_on(tmp_path: Path) -> None:
    search(tmp_path / "a", Simulated(hill), 4)
    executor = Simulated(hill)
    assert len(search(tmp_path / "a", executor, 6).all()) == 6
    assert executor.started == [104, 105]


def test_a_failed_trial_is_recorded_with_its_reason_and_the_search_goes_on(tmp_path: Path) -> None:
    def fragile(config: RunConfig, step: int) -> float:
        if config.seed == 102:
            raise ArithmeticError("the loss is not finite")
        return hill(config, step)

    found = search(tmp_path / "a", Simulated(fragile), 4).all()
    assert [one.outcome for one in found] == ["finished", "finished", "failed", "finished"]
    assert found[2].reason == "the loss is not finite"


def test_a_search_in_which_everything_fails_ends_early(tmp_path: Path) -> None:
    def broken(config: RunConfig, step: int) -> float:
        raise ArithmeticError("no such game")

    executor = Simulated(broken)
    with pytest.raises(RunFailed, match="the first 3 trials failed, the last one: no such game"):
        search(tmp_path / "a", executor, 30)
    assert len(executor.started) == 3


def test_settings_that_are_invalid_together_fail_without_a_run(tmp_path: Path) -> None:
    space = parsed(["target.period=2..9", "kappa=0.01..0.9"])  # a multiple of 2 is required
    executor = Simulated(hill)
    found = search(tmp_path / "a", executor, 8, space).all()
    odd = [one for one in found if one.values["target.period"] % 2]
    assert odd
    assert all("must be a multiple" in one.reason for one in odd)
    assert len(executor.started) == 8 - len(odd)


# ------------------------------------------------------------------------------------------ page


def test_the_page_names_the_best_and_gives_the_same_bytes(tmp_path: Path) -> None:
    trials = search(tmp_path / "a", Simulated(hill), 9).all()
    page, command = write_page(tmp_path / "a", base(), KAPPA, trials)
    text = page.read_text()
    top = best(trials)
    assert top is not None
    assert f"Best: trial {top.number}" in text
    assert command in re.sub("</?span>", "", text)
    assert "script" not in text.replace("no scripts", "")
    assert "default-src &#39;none&#39;" in text
    for name in ("parameters", "history", "intermediate"):
        assert f'<section id="{name}">' in text
        assert (page.parent / "figures" / f"{name}.png").stat().st_size > 5_000
    rows = (page.parent / "trials.csv").read_text().splitlines()
    assert len(rows) == 10
    assert rows[1].startswith("0,100,finished,0.7812,")
    before = page.read_bytes()
    write_page(tmp_path / "a", base(), KAPPA, trials)
    assert page.read_bytes() == before


def test_the_command_for_the_best_reproduces_its_settings(tmp_path: Path) -> None:
    from proxrl import cli
    from proxrl.commands import train

    (trial,) = search(tmp_path / "a", Simulated(hill), 1).all()
    words = command_of(base(), trial).split()
    assert words[:2] == ["proxrl", "train"]
    assert words[-4:] == ["--seeds", "0", "1", "2"]
    seen: list[RunConfig] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "validated", lambda config: seen.append(config) or config)
        cli.parse(words[1:])
    wanted = base(seed=0).override({**trial.values, "logging.tensorboard": True})
    assert seen == [wanted]


def test_a_page_without_any_score_says_so(tmp_path: Path) -> None:
    page, command = write_page(tmp_path, base(), KAPPA, [])
    assert "No trial has finished." in page.read_text()
    assert command == ""


def test_names_on_the_page_are_escaped(tmp_path: Path) -> None:
    config = base().override({"env": "<img src=x>"})
    page, _ = write_page(tmp_path, config, KAPPA, [])
    assert "<img" not in page.read_text()


def test_a_damaged_storage_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "optuna.db").write_bytes(b"not a database, but long enough to be read as one" * 99)
    with pytest.raises(UserError, match=r"optuna\.db cannot be used: file is not a database"):
        Trials(tmp_path, base(), KAPPA, True)
