"""`DQNPro` and `QRDQNPro` in the real Stable-Baselines3: what the pull changes, and what not."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from torch import Tensor, nn

from proxrl.integrations.sb3_contrib import QRDQNPro
from proxrl.integrations.stable_baselines3 import DQNPro, calls_per_sync, updates_per_sync
from proxrl.proximal import pull_

CLASSES = [(DQN, DQNPro), (QRDQN, QRDQNPro)]


def make(kind: type[DQN], env: Any = "CartPole-v1", **settings: Any) -> Any:
    defaults: dict[str, Any] = {
        "learning_rate": 1e-3,
        "buffer_size": 2_000,
        "learning_starts": 50,
        "train_freq": 1,
        "target_update_interval": 100,
        "policy_kwargs": {"net_arch": [16]},
        "seed": 3,
        "device": "cpu",
    }
    if issubclass(kind, QRDQN):
        defaults["policy_kwargs"] = {"net_arch": [16], "n_quantiles": 10}
    return kind("MlpPolicy", env, **{**defaults, **settings})


def target_of(model: Any) -> nn.Module:
    return model.q_net_target if isinstance(model, DQN) else model.quantile_net_target


def weights(model: Any) -> Tensor:
    return nn.utils.parameters_to_vector(model.policy.parameters()).detach().clone()


# --------------------------------------------------------------------------------- what it does


@pytest.mark.parametrize(
    ("plain", "pro", "updates"),
    [
        (*CLASSES[0], 1_000),
        *((*pair, 200) for pair in CLASSES[1:]),
        *(pytest.param(*pair, 1_000, marks=pytest.mark.slow) for pair in CLASSES[1:]),
    ],
)
def test_infinite_c_is_the_plain_algorithm_bit_for_bit(
    plain: type[DQN], pro: type[DQN], updates: int
) -> None:
    """Created and trained one after the other: SB3 seeds the global generators."""
    one = make(plain).learn(updates + 50)
    other = make(pro, c=math.inf).learn(updates + 50)
    assert one._n_updates == other._n_updates == updates
    assert torch.equal(weights(one), weights(other))


def hook_the_pull(oracle: Any, c: float = 0.05) -> dict[str, Any]:
    """The paper's update, at the current rate, before each optimizer step of a plain algorithm."""
    [group] = oracle.policy.optimizer.param_groups
    online, target = list(group["params"]), list(target_of(oracle).parameters())
    oracle.policy.optimizer.register_step_pre_hook(
        lambda *_: pull_(online, target, group["lr"] / c)
    )
    return group  # type: ignore[no-any-return]


@pytest.mark.parametrize(("plain", "pro"), CLASSES)
def test_it_is_the_plain_algorithm_with_a_pull_before_each_step(
    plain: type[DQN], pro: type[DQN]
) -> None:
    oracle = make(plain)
    hook_the_pull(oracle)
    oracle.learn(300)
    model = make(pro, c=0.05).learn(300)
    assert torch.equal(weights(oracle), weights(model))
    assert not torch.equal(weights(make(plain).learn(300)), weights(model))


def test_a_schedule_scales_step_and_pull() -> None:
    def schedule(remaining: float) -> float:
        return 1e-3 * remaining

    oracle = make(DQN, learning_rate=schedule)
    group = hook_the_pull(oracle)
    oracle.learn(300)
    model = make(DQNPro, c=0.05, learning_rate=schedule).learn(300)
    assert group["lr"] < 1e-4
    assert torch.equal(weights(oracle), weights(model))
    with pytest.raises(ValueError, match="overshoot"):
        make(DQNPro, c=0.05, learning_rate=lambda remaining: 0.1 * remaining)


def test_polyak_targets_are_an_anchor_like_any_other() -> None:
    polyak: dict[str, Any] = {"tau": 0.01, "target_update_interval": 1}
    oracle = make(DQN, **polyak)
    hook_the_pull(oracle)
    oracle.learn(200)
    model = make(DQNPro, c=0.05, **polyak).learn(200)
    assert torch.equal(weights(oracle), weights(model))
    assert not torch.equal(weights(make(DQN, **polyak).learn(200)), weights(model))


def test_a_target_network_that_is_replaced_is_followed() -> None:
    model = make(DQNPro, c=0.05)
    model.learn(100)
    assert model.proximal.distance() > 0.0
    weights_there = {key: value.clone() for key, value in model.q_net.state_dict().items()}
    model.policy.q_net_target.load_state_dict(weights_there, assign=True)  # other tensors
    model.policy.q_net_target.requires_grad_(False)
    assert model.proximal.distance() == 0.0
    model.policy.q_net_target = model.q_net_target = copy.deepcopy(model.q_net)
    model.q_net_target.requires_grad_(False)
    assert model.proximal.distance() == 0.0
    model.learn(150, reset_num_timesteps=False)
    assert model.target_distance > 0.0
    model.q_net_target = copy.deepcopy(model.q_net)
    with pytest.raises(ValueError, match=r"model\.q_net_target is not model\.policy"):
        model.learn(150, reset_num_timesteps=False)


def test_c_may_be_changed_while_training_and_is_saved(tmp_path: Path) -> None:
    model = make(DQNPro, pull_per_sync=1.0).learn(100)
    model.c = 0.5
    assert model.proximal.c == 0.5
    model.save(tmp_path / "model")
    assert DQNPro.load(tmp_path / "model").proximal.c == 0.5
    with pytest.raises(ValueError, match="overshoot"):
        model.c = 1e-6


def test_loading_accepts_c_or_pull_per_sync(tmp_path: Path) -> None:
    make(DQNPro, c=0.05).save(tmp_path / "model")
    with pytest.raises(ValueError, match="not both"):
        DQNPro.load(tmp_path / "model", c=0.5, pull_per_sync=1.0)
    assert DQNPro.load(tmp_path / "model", c=0.5).proximal.c == 0.5
    assert DQNPro.load(tmp_path / "model", pull_per_sync=1.0).c == pytest.approx(1e-3 * 100)


def test_the_distance_has_no_value_before_the_first_sync_and_survives_a_file(
    tmp_path: Path,
) -> None:
    model = make(DQNPro, c=0.05).learn(90)
    assert model.target_distance is None
    model.learn(90, reset_num_timesteps=False)
    assert model.target_distance > 0.0
    model.save(tmp_path / "model")
    assert DQNPro.load(tmp_path / "model").target_distance == model.target_distance


def test_a_copy_of_the_policy_does_not_include_the_model() -> None:
    plain, pro = make(DQN), make(DQNPro, c=0.05)
    sizes = [len(pickle.dumps(model.policy)) for model in (plain, pro)]
    assert sizes[1] < 1.2 * sizes[0]
    twin = copy.deepcopy(pro.policy)
    nn.init.zeros_(next(twin.q_net_target.parameters()))
    assert twin.optimizer.distance() > 0.0
    assert pro.proximal.distance() == 0.0


def test_an_undefined_kappa_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"learning rate of 0 .* pass c"):
        make(DQNPro, pull_per_sync=1.0, learning_rate=lambda remaining: 1e-3 * (1 - remaining))


# ------------------------------------------------------------------------------------- settings


class Syncs(BaseCallback):
    """`_n_updates` at each sync, detected by changes of the target's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[int] = []
        self.seen: Tensor | None = None

    def _on_step(self) -> bool:
        model: Any = self.model
        now = nn.utils.parameters_to_vector(model.q_net_target.parameters())
        if self.seen is not None and not torch.equal(now, self.seen):
            self.at.append(model._n_updates)
        self.seen = now.clone()
        return True


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"train_freq": 4, "target_update_interval": 40}, 10),
        ({"train_freq": 4, "target_update_interval": 40, "gradient_steps": 3}, 30),
        ({"train_freq": 2, "target_update_interval": 40, "gradient_steps": -1}, 40),
        ({"train_freq": 2, "target_update_interval": 42, "n_envs": 4}, 5),
        ({"train_freq": 2, "target_update_interval": 40, "n_envs": 4, "gradient_steps": -1}, 40),
        ({"train_freq": 1, "target_update_interval": 2, "n_envs": 4}, 1),
        ({"train_freq": 40, "target_update_interval": 10, "gradient_steps": 7}, 7),  # in bursts
        ({"train_freq": 40, "target_update_interval": 10, "gradient_steps": -1}, 40),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of environments")
def test_updates_per_sync_matches_the_library(settings: dict[str, Any], expected: int) -> None:
    n_envs = settings.pop("n_envs", 1)
    model = make(DQNPro, make_vec_env("CartPole-v1", n_envs), c=1.0, learning_starts=0, **settings)
    syncs = Syncs()
    model.learn(400, callback=syncs)
    assert updates_per_sync(model) == expected
    gaps = [late - early for early, late in zip(syncs.at[1:], syncs.at[2:], strict=False)]
    assert len(gaps) > 3
    assert sum(gaps) / len(gaps) == pytest.approx(expected, rel=0.1)


def test_updates_in_bursts_log_the_size_of_syncs_that_moved_something() -> None:
    model = make(DQNPro, c=math.inf, train_freq=40, gradient_steps=7, target_update_interval=10)
    seen: list[float | None] = []

    class Distances(BaseCallback):
        def _on_step(self) -> bool:
            seen.append(model.target_distance)
            return True

    model.learn(400, callback=Distances())
    sizes = [size for size in seen if size is not None]
    assert len(set(sizes)) > 5
    assert min(sizes) > 0.0


def test_polyak_targets_moved_several_times_between_updates_are_one_larger_move() -> None:
    model = make(DQNPro, c=1.0, train_freq=40, gradient_steps=8, target_update_interval=10, tau=0.1)
    assert updates_per_sync(model) == pytest.approx(8 / (1.0 - 0.9**4))


def test_c_follows_from_the_pull_per_sync() -> None:
    assert make(DQNPro, pull_per_sync=2.0).c == pytest.approx(1e-3 * 100 / 2.0)
    assert make(DQNPro, pull_per_sync=2.0).proximal.c == pytest.approx(0.05)
    assert make(DQNPro, pull_per_sync=0.0).c == math.inf
    polyak = make(DQNPro, pull_per_sync=1.0, tau=0.005, target_update_interval=1)
    assert polyak.c == pytest.approx(1e-3 / 0.005)


def test_the_default_is_the_papers_pull_per_sync() -> None:
    """SB3's defaults: 1e-4, an update every 4 steps, a sync every 10,000: c = 0.25."""
    model = DQNPro("MlpPolicy", "CartPole-v1", buffer_size=10, device="cpu")
    assert model.c == pytest.approx(0.25)


def test_contradictory_and_ambiguous_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="not both"):
        make(DQNPro, c=0.1, pull_per_sync=1.0)
    with pytest.raises(ValueError, match="pass a number as c"):
        make(DQNPro, train_freq=(1, "episode"))
    with pytest.raises(ValueError, match="pass a number as c"):
        make(DQNPro, train_freq=(1, "episode"), gradient_steps=-1)
    with pytest.raises(ValueError, match=r"undefined for tau = 0\.0"):
        make(DQNPro, tau=0.0)
    with pytest.raises(ValueError, match="pull_per_sync = 2 exceeds the 1 updates per"):
        make(DQNPro, train_freq=4, target_update_interval=1, pull_per_sync=2.0)
    assert make(DQNPro, train_freq=(1, "episode"), c=0.1).c == 0.1
    with pytest.raises(ValueError, match="c must be positive"):
        make(DQNPro, c=-1.0)


# --------------------------------------------------------------------------------- save and load


@pytest.mark.parametrize("pro", [DQNPro, QRDQNPro])
@pytest.mark.parametrize("settings", [{"c": 0.05}, {"pull_per_sync": 2.0}, {"c": math.inf}])
def test_the_term_and_its_settings_survive_save_and_load(
    tmp_path: Path, pro: type[DQN], settings: dict[str, float]
) -> None:
    model = make(pro, **settings)
    model.learn(130)
    model.save(tmp_path / "model")
    loaded: Any = pro.load(tmp_path / "model", env=model.get_env(), device="cpu")
    assert (loaded.c, loaded.pull_per_sync) == (model.c, model.pull_per_sync)
    assert loaded.proximal.c == model.c
    assert torch.equal(weights(loaded), weights(model))
    assert loaded.proximal.distance() == model.proximal.distance() > 0.0
    for mine, theirs in zip(
        loaded.proximal.state.values(), model.proximal.state.values(), strict=True
    ):
        assert torch.equal(mine["exp_avg_sq"], theirs["exp_avg_sq"])
    for each in target_of(loaded).parameters():
        nn.init.constant_(each, 9.0)
    assert loaded.proximal.distance() > model.proximal.distance(), "pulled to its own target"
    loaded.learn(60, reset_num_timesteps=False)


def test_load_can_override_the_term(tmp_path: Path) -> None:
    make(DQNPro, c=0.05).save(tmp_path / "model")
    vectorised = make_vec_env("CartPole-v1", 4)
    assert DQNPro.load(tmp_path / "model", c=0.5).proximal.c == 0.5
    assert DQNPro.load(tmp_path / "model", pull_per_sync=2.0).proximal.c == pytest.approx(0.05)
    make(DQNPro, pull_per_sync=2.0).save(tmp_path / "kappa")
    assert DQNPro.load(tmp_path / "kappa", c=0.5).proximal.c == 0.5
    assert DQNPro.load(tmp_path / "kappa", env=vectorised).proximal.c == pytest.approx(0.0125), (
        "with 4 environments a sync has a quarter of the updates"
    )


def test_files_are_compatible_with_plain_dqn(tmp_path: Path) -> None:
    plain, pro = make(DQN), make(DQNPro, c=0.05)
    for model, name in ((plain, "plain"), (pro, "pro")):
        model.learn(130)
        model.save(tmp_path / name)
    back = DQN.load(tmp_path / "pro", env=pro.get_env())
    assert torch.equal(weights(back), weights(pro))
    assert not hasattr(back.policy.optimizer, "inner")
    forth = DQNPro.load(tmp_path / "plain", env=plain.get_env(), c=0.05)
    assert torch.equal(weights(forth), weights(plain))
    assert forth.proximal.c == 0.05
    for model in (back, forth):
        model.learn(60, reset_num_timesteps=False)


def test_set_parameters_replaces_weights_and_keeps_c() -> None:
    giver, taker = make(DQNPro, c=0.05), make(DQNPro, c=0.5)
    giver.learn(130)
    taker.set_parameters(giver.get_parameters())
    assert torch.equal(weights(taker), weights(giver))
    assert taker.proximal.c == 0.5


def test_a_deep_copy_is_independent() -> None:
    model = make(DQNPro, c=0.05)
    model.learn(130)
    twin = copy.deepcopy(model)
    assert twin.proximal.distance() == model.proximal.distance()
    before = weights(model)
    twin.train(gradient_steps=5, batch_size=16)
    assert torch.equal(weights(model), before)
    nn.init.constant_(model.q_net_target.q_net[0].weight, 50.0)
    assert model.proximal.distance() > 100.0 > twin.proximal.distance()


# -------------------------------------------------------------------------------------- logging


def test_target_distance_is_the_size_of_the_last_target_update(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Moves(BaseCallback):
        """||theta_new - theta_old|| computed independently, from snapshots of the target."""

        def __init__(self) -> None:
            super().__init__()
            self.seen: Tensor | None = None
            self.moves: list[float] = []

        def _on_step(self) -> bool:
            now = nn.utils.parameters_to_vector(target_of(self.model).parameters()).detach()
            if self.seen is not None and not torch.equal(now, self.seen):
                self.moves.append(float((now - self.seen).norm()))
            self.seen = now.clone()
            return True

    moves = Moves()
    model = make(DQNPro, c=0.05, tensorboard_log=str(tmp_path))
    model.learn(550, callback=moves, log_interval=1)
    events = EventAccumulator(str(tmp_path / "DQN_1"))
    events.Reload()
    logged = [event.value for event in events.Scalars("train/target_distance")]
    assert len(moves.moves) >= 4
    for value in moves.moves[:-1]:
        assert any(math.isclose(value, each, rel_tol=1e-5) for each in logged)
    assert calls_per_sync(model) == 100


def test_with_polyak_targets_the_distance_is_the_current_one() -> None:
    model = make(DQNPro, c=0.05, tau=0.01, target_update_interval=1)
    model.learn(200, log_interval=1)
    model.dump_logs()
    assert model.target_distance == model.proximal.distance() > 0.0
