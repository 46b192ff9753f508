"""Stateful rules and samplers are saved without changes to the loop."""

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from proxrl import presets
from proxrl.config import ReplayConfig
from proxrl.errors import UserError
from proxrl.proximal.pull import pull_
from proxrl.proximal.rules import Rule, register_rule
from proxrl.replay import Gather, UniformReplay, register_sampler
from proxrl.runs.folder import METRICS
from proxrl.runs.lines import read_lines
from proxrl.training.run import resume, train
from proxrl.types import Batch, State
from tests.end_to_end.runs import newest
from tests.end_to_end.victim import SMALL

SETTINGS = {**SMALL, "network.hidden": (16,), "target.period": 20, "evaluation.episodes": 1}


class Averaged(Rule):
    """Pulls towards a running mean of the first layer's anchors, the more the more syncs."""

    def __init__(self, config) -> None:  # type: ignore[no-untyped-def]
        super().__init__(config)
        self.syncs, self.mean = 0, None

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        if self.mean is not None:
            pull_(weights[:1], [self.mean], min(1.0, rate / self.c * self.syncs))

    def synced(self, weights: list[Tensor], anchor: list[Tensor]) -> None:
        self.syncs += 1
        self.mean = anchor[0].clone() if self.mean is None else self.mean.lerp(anchor[0], 0.5)

    def state(self) -> State:
        return {"syncs": self.syncs} | ({} if self.mean is None else {"mean": self.mean})

    def load(self, state: State) -> None:
        self.syncs, self.mean = state["syncs"], state.get("mean")


class Jittered(Rule):
    """Pulls by a random share of alpha/c, and reports it."""

    draws = True
    share = 0.0

    def change_weights(self, weights: list[Tensor], anchor: list[Tensor], rate: float) -> None:
        self.share = self.generator.random()
        pull_(weights, anchor, rate / self.c * self.share)

    def metrics(self) -> dict[str, float]:
        return {"share": self.share}


class EveryBatchTwice(UniformReplay):
    """Returns each batch twice."""

    def __init__(
        self, gather: Gather, generator: np.random.Generator, config: ReplayConfig
    ) -> None:
        super().__init__(gather, generator)
        self._left, self._steps = 0, np.zeros(0, np.int64)

    def sample(self) -> Batch:
        if not self._left:
            self._left, self._steps = 2, super().sample().indices
        self._left -= 1
        return self._gather(self._steps)

    def state(self) -> State:
        return {"left": self._left, "steps": self._steps.copy()}

    def load(self, state: State) -> None:
        self._left, self._steps = state["left"], state["steps"]


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_rule("averaged", Averaged)
    register_sampler("every-batch-twice", EveryBatchTwice)


PARTS = [
    ({"proximal.rule": "averaged"}, Averaged),
    ({"replay.sampling": "every-batch-twice"}, EveryBatchTwice),
]


@pytest.mark.parametrize(("setting", "kind"), PARTS, ids=["rule", "sampler"])
def test_a_stateful_part_is_bit_identical_after_a_resume_and_its_state_matters(
    setting: dict[str, str], kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between the two uses of a batch, and between two syncs."""
    config = presets.make("dqn-pro", "CartPole-v1", {**SETTINGS, **setting}, steps=400)
    whole, half = config.override({"checkpoint.period_steps": 153}), 153
    train(whole, tmp_path / "whole")
    for name in ("exact", "forgetful"):
        train(whole.override({"steps": half}), tmp_path / name)
    _, at_half = newest(tmp_path / "exact")
    assert at_half["learner"]["updates"] % 2 == 1, "a batch is half used"
    assert at_half["learner"]["updates"] > 10, "the target was synced"
    resume(tmp_path / "exact", {"steps": 400})
    monkeypatch.setattr(kind, "load", lambda self, state: None)
    resume(tmp_path / "forgetful", {"steps": 400})

    arrays = {name: newest(tmp_path / name)[0] for name in ("whole", "exact", "forgetful")}
    assert arrays["whole"].keys() == arrays["exact"].keys()
    assert all((arrays["whole"][name] == arrays["exact"][name]).all() for name in arrays["whole"])
    online = [name for name in arrays["whole"] if name.startswith("online.")]
    assert any((arrays["whole"][name] != arrays["forgetful"][name]).any() for name in online)


def test_a_rule_that_draws_is_bit_identical_after_a_resume_and_logs_its_metrics(
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "proximal.rule": f"{__name__}:Jittered"}
    settings |= {"checkpoint.period_steps": 153, "evaluation.period_steps": 200}
    config = presets.make("dqn-pro", "CartPole-v1", settings, steps=400)
    train(config, tmp_path / "whole")
    train(config.override({"steps": 153}), tmp_path / "resumed")
    resume(tmp_path / "resumed", {"steps": 400}, trust=True)
    whole, resumed = (newest(tmp_path / name) for name in ("whole", "resumed"))
    assert all((whole[0][name] == resumed[0][name]).all() for name in whole[0])
    assert whole[1]["generators"] == resumed[1]["generators"]
    assert "rule" in whole[1]["generators"]
    lines = read_lines(tmp_path / "whole" / METRICS)
    assert [0.3 < line["rule/share"] < 0.7 for line in lines] == [True, True]


def test_their_arrays_have_readable_names(tmp_path: Path) -> None:
    settings = {key: value for setting, _ in PARTS for key, value in setting.items()}
    train(presets.make("dqn-pro", "CartPole-v1", {**SETTINGS, **settings}, steps=150), tmp_path)
    arrays, values = newest(tmp_path)
    assert {"rule.mean", "replay.steps"} <= arrays.keys()
    assert values["learner"]["rule.syncs"] == 2
    assert {name.split(".")[0] for name in arrays} == {
        "online",
        "target",
        "adam",
        "rule",
        "replay",
        "episodes",
        "checksums",
    }


def test_an_unknown_sampler_is_named(tmp_path: Path) -> None:
    config = presets.make("dqn", "CartPole-v1", {**SETTINGS, "replay.sampling": "newest"})
    with pytest.raises(UserError, match=r"unknown replay\.sampling newest: choose from uniform"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
