"""c = "adaptive" in the real Stable-Baselines3, sb3-contrib and Tianshou."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from tianshou.algorithm.optim import RMSpropOptimizerFactory

from proxrl.integrations import tianshou
from proxrl.integrations.sb3_contrib import QRDQNPro
from proxrl.integrations.stable_baselines3 import DQNPro, updates_per_sync
from proxrl.proximal import AdaptiveOptions, Proximal
from tests.integrations import test_stable_baselines3 as sb3
from tests.integrations import test_tianshou as ts

experience = ts.experience
QUICK = AdaptiveOptions(kappa_max=50.0, smoothing=0.5, warmup_updates=20)
OFF = AdaptiveOptions(kappa_max=0.0)
ADAPTIVE: dict[str, Any] = {"c": "adaptive", "adaptive": QUICK}
SHORT = {"target_update_interval": 30}


# ------------------------------------------------------------------------------ Stable-Baselines3


@pytest.mark.parametrize(("plain", "pro"), sb3.CLASSES)
def test_sb3_a_largest_kappa_of_0_is_the_plain_algorithm_bit_for_bit(
    plain: type[DQN], pro: type[DQN]
) -> None:
    bare = sb3.make(plain, **SHORT).learn(300)
    off = sb3.make(pro, c="adaptive", adaptive=OFF, **SHORT).learn(300)
    on = sb3.make(pro, **ADAPTIVE, **SHORT).learn(300)
    assert torch.equal(sb3.weights(bare), sb3.weights(off))
    assert off.kappa == 0.0
    assert not torch.equal(sb3.weights(bare), sb3.weights(on))
    assert on.kappa > 0.0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"train_freq": 4, "target_update_interval": 40}, 10),
        ({"train_freq": 4, "target_update_interval": 40, "gradient_steps": 3}, 30),
        ({"target_update_interval": 1, "tau": 0.01}, 100),
    ],
)
def test_sb3_n_follows_from_the_models_settings(settings: dict[str, Any], expected: int) -> None:
    model = sb3.make(DQNPro, **ADAPTIVE, **settings)
    assert model.proximal.updates_per_sync == updates_per_sync(model) == pytest.approx(expected)
    assert model.proximal.tau == pytest.approx(settings.get("tau", 1.0))
    fixed = sb3.make(DQNPro, pull_per_sync=0.5, **settings)
    assert fixed.kappa == fixed.proximal.kappa == pytest.approx(0.5)


@pytest.mark.parametrize("pro", [DQNPro, QRDQNPro])
def test_sb3_a_loaded_model_continues_bit_for_bit(tmp_path: Path, pro: type[DQN]) -> None:
    model = sb3.make(pro, **ADAPTIVE, **SHORT).learn(100)
    model.save(tmp_path / "model")
    loaded: Any = pro.load(tmp_path / "model", env=model.get_env(), device="cpu")
    assert (loaded.c, loaded.adaptive, loaded.pull_per_sync) == ("adaptive", QUICK, None)
    loaded.replay_buffer = copy.deepcopy(model.replay_buffer)
    loaded.set_logger(model.logger)
    for each in (model, loaded):
        np.random.seed(0)  # noqa: NPY002 - SB3 draws from NumPy's global generator
        each.train(gradient_steps=47, batch_size=32)
    assert torch.equal(sb3.weights(model), sb3.weights(loaded))
    assert model.kappa == loaded.kappa > 0.0
    loaded.learn(60, reset_num_timesteps=False)


def test_sb3_files_fit_fixed_adaptive_and_plain_models(tmp_path: Path) -> None:
    adaptive, fixed = sb3.make(DQNPro, **ADAPTIVE, **SHORT), sb3.make(DQNPro, c=0.05, **SHORT)
    for model, name in ((adaptive, "adaptive"), (fixed, "fixed")):
        model.learn(120).save(tmp_path / name)
    assert DQNPro.load(tmp_path / "adaptive", c=0.5).proximal.c == 0.5
    kappa = DQNPro.load(tmp_path / "adaptive", pull_per_sync=1.0)
    assert kappa.c == pytest.approx(1e-3 * 30)
    changed: Any = DQNPro.load(tmp_path / "fixed", c="adaptive", adaptive=QUICK)
    assert (changed.c, changed.proximal.c, changed.proximal.adaptive) == (
        "adaptive",
        "adaptive",
        QUICK,
    )
    with pytest.raises(ValueError, match="adaptive is only for c = 'adaptive'"):
        DQNPro.load(tmp_path / "fixed", adaptive=QUICK)
    DQNPro.load(tmp_path / "adaptive", c=0.5).save(tmp_path / "paused")
    again: Any = DQNPro.load(tmp_path / "paused")
    again.c = "adaptive"
    assert again.proximal.adaptive == QUICK
    plain = DQN.load(tmp_path / "adaptive", env=adaptive.get_env())
    assert not isinstance(plain.policy.optimizer, Proximal)
    plain.learn(40, reset_num_timesteps=False)


def test_sb3_c_may_become_adaptive_while_training() -> None:
    model = sb3.make(DQNPro, c=0.05, **SHORT).learn(60)
    model.c = "adaptive"
    assert (model.c, model.kappa, model.pull_per_sync) == ("adaptive", 0.0, None)
    model.learn(60, reset_num_timesteps=False)


def test_sb3_logs_kappa() -> None:
    model = sb3.make(DQNPro, **ADAPTIVE, **SHORT).learn(200)
    logged: dict[str, Any] = {}
    model.logger.record = lambda name, value, **_: logged.update({name: value})
    model.dump_logs()
    assert logged["train/kappa"] == model.kappa > 0.0


def test_sb3_errors_are_one_line() -> None:
    with pytest.raises(ValueError, match=r"unknown with train_freq .* pass a number as c"):
        sb3.make(DQNPro, c="adaptive", train_freq=(1, "episode"))
    with pytest.raises(ValueError, match=r"needs torch\.optim\.Adam or AdamW, not SGD"):
        sb3.make(DQNPro, c="adaptive", policy_kwargs={"optimizer_class": torch.optim.SGD})
    with pytest.raises(ValueError, match="not both"):
        sb3.make(DQNPro, c="adaptive", pull_per_sync=1.0)
    with pytest.raises(ValueError, match="adaptive is only for c = 'adaptive'"):
        sb3.make(DQNPro, c=0.05, adaptive=QUICK)
    unknown = sb3.make(DQNPro, c=0.05, train_freq=(1, "episode"))
    assert unknown.kappa is None
    with pytest.raises(ValueError, match="needs updates_per_sync"):
        unknown.c = "adaptive"
    assert unknown.c == 0.05


# --------------------------------------------------------------------------------------- Tianshou


@pytest.mark.parametrize(("plain", "pro"), ts.CLASSES)
def test_tianshou_a_largest_kappa_of_0_is_the_plain_algorithm_bit_for_bit(
    experience: Any, plain: type, pro: type
) -> None:
    bare, off = ts.make(plain), ts.make(pro, c="adaptive", adaptive=OFF)
    on = ts.make(pro, **ADAPTIVE)
    for each in (bare, off):
        ts.learn(each, experience, 100)
    stats = ts.learn(on, experience, 100)
    assert torch.equal(ts.weights(bare), ts.weights(off))
    assert not torch.equal(ts.weights(bare), ts.weights(on))
    assert stats[-1].get_loss_stats_dict()["kappa"] == on.kappa > 0.0
    assert on.proximal.updates_per_sync == ts.PERIOD


@pytest.mark.parametrize(("plain", "pro"), ts.CLASSES)
def test_tianshou_a_loaded_state_continues_bit_for_bit(
    tmp_path: Path, experience: Any, plain: type, pro: type
) -> None:
    algorithm = ts.make(pro, **ADAPTIVE)
    ts.learn(algorithm, experience, 55)
    torch.save(algorithm.state_dict(), tmp_path / "algorithm.pt")
    loaded, bare = ts.make(pro, **ADAPTIVE), ts.make(plain)
    for each in (loaded, bare):
        each.load_state_dict(torch.load(tmp_path / "algorithm.pt", weights_only=True))
    assert loaded.kappa == algorithm.kappa > 0.0
    loaded._iter = algorithm._iter  # Tianshou does not save it
    for each in (algorithm, loaded):
        ts.learn(each, experience, 33)
    assert torch.equal(ts.weights(algorithm), ts.weights(loaded))
    assert loaded.kappa == algorithm.kappa
    ts.learn(bare, experience, 5)


def test_tianshou_c_may_become_adaptive_and_other_optimizers_are_named(experience: Any) -> None:
    algorithm = ts.make(tianshou.DQNPro, c=0.05)
    assert algorithm.kappa == pytest.approx(ts.RATE / 0.05 * ts.PERIOD)
    algorithm.c = "adaptive"
    assert (algorithm.c, algorithm.kappa) == ("adaptive", 0.0)
    ts.learn(algorithm, experience, 5)
    with pytest.raises(ValueError, match=r"needs torch\.optim\.Adam or AdamW, not RMSprop"):
        ts.make(tianshou.DQNPro, c="adaptive", optim=RMSpropOptimizerFactory(lr=1e-3))
