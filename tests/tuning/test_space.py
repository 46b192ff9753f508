"""What `--search` accepts, and what a value becomes."""

import math

import pytest

from proxrl.config import validated
from proxrl.errors import UserError
from proxrl.tuning.space import KAPPA, Parameter, applied, corners, effective, parsed
from tests.tuning.small import base


def test_ranges_steps_scales_and_choices() -> None:
    assert parsed(["kappa"]) == (Parameter(KAPPA, 0.03, 10.0, log=True),)
    assert parsed(["kappa=0.1..1"]) == (Parameter(KAPPA, 0.1, 1.0),)
    rate, period, double, hidden = parsed(
        [
            "learner.learning-rate=1e-5..1e-3:log",
            "--target.period=200..2000/200",
            "learner.double=true,false",
            "replay.sampling=uniform,prioritised",
        ]
    )
    assert rate == Parameter("learner.learning_rate", 1e-5, 1e-3, log=True)
    assert period == Parameter("target.period", 200, 2000, step=200, whole=True)
    assert double.choices == (True, False)
    assert hidden.choices == ("uniform", "prioritised")


def test_the_text_of_a_parameter_is_parsed_to_the_same_parameter() -> None:
    for texts in (
        ["kappa", "learner.double=false,true"],
        ["c=0.01..1:log", "replay.n_step=1..5/2"],
    ):
        space = parsed(texts)
        assert parsed([one.text for one in space]) == space


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "missing value of --search"),
        (["kapa"], "did you mean kappa?"),
        (["learner.learnin_rate=1..2"], "did you mean learner.learning_rate?"),
        (["seed=100..200"], "cannot search seed"),
        (["steps=100..200"], "cannot search steps"),
        (["learner.learning_rate"], "needs a range or values"),
        (["kappa=1..1"], "LOW must be below HIGH"),
        (["kappa=0..1:log"], "a log scale needs LOW above 0"),
        (["kappa=1..2:ln"], ":ln is unknown"),
        (["kappa=1..2/3"], "STEP must be positive and at most HIGH - LOW"),
        (["kappa=1..10/3:log"], "a log scale has no steps"),
        (["kappa=1..x"], "with numbers"),
        (["kappa=1..inf"], "LOW must be below HIGH"),
        (["target.period=0.5..2"], "target.period is an integer"),
        (["learner.double=yes,no"], "must be true or false"),
        (["learner.loss=huber"], "at least two different values"),
        (["kappa", "proximal.c=0.1..1"], "search one of them"),
        (["kappa", "kappa=1..2"], "appears twice"),
    ],
)
def test_mistakes_are_named(texts: list[str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        parsed(texts)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_numbers_are_rounded_to_what_is_printed_and_stay_in_the_range() -> None:
    (kappa,) = parsed(["kappa=0.123456..1"])
    assert kappa.rounded(0.98765432) == 0.9877
    (other,) = parsed(["kappa=0.123446..1"])
    assert other.rounded(0.1234461) == 0.123446, "rounding must not leave the range"
    assert kappa.used(kappa.usual(0.5)) == 0.5
    assert kappa.usual(2.0) is None


def test_c_follows_from_kappa_and_replaces_it() -> None:
    config = base()  # learning rate 5e-4, a sync every 100 updates
    assert applied(config, {KAPPA: 0.5}).c == pytest.approx(5e-4 * 100 / 0.5)
    both = applied(applied(config, {KAPPA: 0.5}), {"proximal.c": 0.3})
    assert both.c == 0.3
    assert effective(config, KAPPA) == pytest.approx(5e-4 / 0.064 * 100)
    assert math.isclose(effective(applied(config, {KAPPA: 2.0}), "proximal.c"), 0.025)


def test_every_corner_of_the_space_is_visited() -> None:
    found = list(corners(parsed(["kappa=1..2", "learner.double=true,false"]), base()))
    assert {(one.pull_per_sync, one.learner.double) for one in map(validated, found)} == {
        (1.0, True),
        (1.0, False),
        (2.0, True),
        (2.0, False),
    }
