"""`DQNPro`, `C51Pro` and `RainbowPro` in the real Tianshou 2."""

import copy
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tianshou.algorithm.modelfree.c51 import C51, C51Policy
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.rainbow import RainbowDQN
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Batch, Collector, CollectStats, PrioritizedReplayBuffer, ReplayBuffer
from tianshou.data import VectorReplayBuffer as VectorBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import NoisyLinear
from tianshou.utils.torch_utils import policy_within_training_step
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

from proxrl.integrations.tianshou import C51Pro, DQNPro, RainbowPro
from proxrl.proximal import pull_

CLASSES = [(DQN, DQNPro), (C51, C51Pro), (RainbowDQN, RainbowPro)]
SPACE = gym.spaces.Discrete(2)
RATE = 1e-3
PERIOD = 20


def make(kind: type, **settings: Any) -> Any:
    """An algorithm as in Tianshou's CartPole tests, but smaller."""
    torch.manual_seed(0)
    noisy = {"linear_layer": NoisyLinear} if issubclass(kind, RainbowDQN) else {}
    dueling = ({"hidden_sizes": [8], **noisy}, {"hidden_sizes": [8], **noisy})
    if issubclass(kind, C51):
        net = Net(
            state_shape=4,
            action_shape=2,
            hidden_sizes=[16],
            softmax=True,
            num_atoms=11,
            dueling_param=dueling if noisy else None,
        )
        policy: Any = C51Policy(model=net, action_space=SPACE, num_atoms=11, eps_training=0.1)
    else:
        net = Net(state_shape=4, action_shape=2, hidden_sizes=[16])
        policy = DiscreteQLearningPolicy(model=net, action_space=SPACE, eps_training=0.1)
    defaults = {"optim": AdamOptimizerFactory(lr=RATE), "target_update_freq": PERIOD}
    return kind(policy=policy, **{**defaults, **settings})


@pytest.fixture(scope="module")
def experience() -> Any:
    """500 transitions similar to CartPole's."""
    draw = np.random.default_rng(0)
    buffer = PrioritizedReplayBuffer(500, alpha=0.6, beta=0.4)
    for number in range(500):
        buffer.add(
            Batch(  # type: ignore[arg-type]
                obs=draw.normal(size=4).astype(np.float32),
                act=int(draw.integers(2)),
                rew=float(draw.normal()),
                terminated=number % 25 == 24,
                truncated=False,
                obs_next=draw.normal(size=4).astype(np.float32),
                info={},
            )
        )
    return buffer


def learn(algorithm: Any, experience: Any, updates: int) -> list[Any]:
    """Only updates, on copies of the same experience, with the same draws."""
    buffer = copy.deepcopy(experience)
    np.random.seed(1)  # noqa: NPY002 - Tianshou draws from NumPy's global generator
    torch.manual_seed(1)
    with policy_within_training_step(algorithm.policy):
        return [algorithm.update(buffer=buffer, sample_size=32) for _ in range(updates)]


def trained(network: nn.Module, model: nn.Module) -> list[Tensor]:
    """Parameters of a network like `model`, without the noise, which Tianshou freezes."""
    pairs = zip(network.parameters(), model.parameters(), strict=True)
    return [each.detach() for each, own in pairs if own.requires_grad]


def weights(algorithm: Any) -> Tensor:
    return nn.utils.parameters_to_vector(algorithm.policy.parameters()).detach().clone()


@pytest.mark.parametrize(
    ("plain", "pro", "updates"),
    [
        (*CLASSES[0], 1_000),
        *((*pair, 200) for pair in CLASSES[1:]),
        *(pytest.param(*pair, 1_000, marks=pytest.mark.slow) for pair in CLASSES[1:]),
    ],
)
def test_infinite_c_is_the_plain_algorithm_bit_for_bit(
    experience: Any, plain: type, pro: type, updates: int
) -> None:
    one, other = make(plain), make(pro, c=math.inf)
    learn(one, experience, updates)
    learn(other, experience, updates)
    assert torch.equal(weights(one), weights(other))


@pytest.mark.parametrize(("plain", "pro"), CLASSES)
def test_it_is_the_plain_algorithm_with_a_pull_before_each_step(
    experience: Any, plain: type, pro: type
) -> None:
    oracle, model = make(plain), make(pro, c=0.05)
    online, target = (
        trained(n, oracle.policy.model) for n in (oracle.policy.model, oracle.model_old)
    )
    oracle.optim._optim.register_step_pre_hook(lambda *_: pull_(online, target, RATE / 0.05))
    unpulled = make(plain)
    for each in (oracle, model, unpulled):
        learn(each, experience, 60)
    assert torch.equal(weights(oracle), weights(model))
    assert not torch.equal(weights(unpulled), weights(model))


def test_parameters_without_a_counterpart_are_not_pulled() -> None:
    """C51's support is a parameter of the policy, but not of the model: it must not be pulled."""
    algorithm = make(C51Pro, c=0.05)
    assert len(algorithm._anchor()) == len(list(algorithm.policy.model.parameters())) + 1
    assert algorithm._anchor()[0] is algorithm.policy.support


@pytest.mark.parametrize(("plain", "pro"), CLASSES)
def test_statistics_include_the_size_of_the_last_target_update(
    experience: Any, plain: type, pro: type
) -> None:
    del plain
    algorithm = make(pro, c=0.05)
    moves = []

    update = algorithm._update_with_batch

    def watched(batch: Any) -> Any:
        before = nn.utils.parameters_to_vector(trained(algorithm.model_old, algorithm.policy.model))
        stats = update(batch)
        after = nn.utils.parameters_to_vector(trained(algorithm.model_old, algorithm.policy.model))
        if not torch.equal(before, after):
            moves.append(float((after - before).norm()))
        return stats

    algorithm._update_with_batch = watched
    stats = learn(algorithm, experience, 3 * PERIOD)
    said = [stats[number].get_loss_stats_dict()["target_distance"] for number in (20, 40)]
    assert said == pytest.approx(moves, rel=1e-5)
    assert len(moves) == 2
    assert stats[-1].loss == pytest.approx(stats[-1].get_loss_stats_dict()["loss"])


def test_c_follows_from_the_pull_per_sync_and_defaults_to_the_papers() -> None:
    assert make(DQNPro, pull_per_sync=4.0).c == pytest.approx(RATE * PERIOD / 4.0)
    assert make(DQNPro).c == pytest.approx(RATE * PERIOD)
    assert make(RainbowPro).c == pytest.approx(RATE * PERIOD / 2.5)


def test_contradictory_arguments_and_missing_targets_are_rejected() -> None:
    with pytest.raises(ValueError, match="not both"):
        make(DQNPro, c=0.1, pull_per_sync=1.0)
    with pytest.raises(ValueError, match="no target network"):
        make(DQNPro, c=0.1, target_update_freq=0)


@pytest.mark.parametrize(("plain", "pro"), CLASSES)
def test_state_dicts_continue_and_are_compatible_with_the_plain_algorithm(
    tmp_path: Path, experience: Any, plain: type, pro: type
) -> None:
    algorithm = make(pro, c=0.05)
    learn(algorithm, experience, 30)
    torch.save(algorithm.state_dict(), tmp_path / "algorithm.pt")
    other, bare = make(pro, c=0.5), make(plain)
    for each in (other, bare):
        each.load_state_dict(torch.load(tmp_path / "algorithm.pt", weights_only=True))
        assert torch.equal(weights(each), weights(algorithm))
    assert other.proximal.c == 0.5, "the setting is the algorithm's own"
    assert other.proximal.distance() == algorithm.proximal.distance()
    back = make(pro, c=0.05)
    back.load_state_dict(bare.state_dict())
    back._iter = algorithm._iter  # Tianshou does not save it
    learn(back, experience, 10)
    learn(algorithm, experience, 10)
    assert torch.equal(weights(back), weights(algorithm))


def test_a_learning_rate_schedule_scales_step_and_pull(experience: Any) -> None:
    """The oracle adds the pull with the *current* rate to plain Tianshou's optimizer by a hook."""
    schedule = LRSchedulerFactoryLinear(
        max_epochs=1, epoch_num_steps=50, collection_step_num_env_steps=1
    )

    def scheduled(kind: type, **settings: Any) -> Any:
        optim = AdamOptimizerFactory(lr=RATE).with_lr_scheduler_factory(schedule)
        return make(kind, optim=optim, **settings)

    oracle, model = scheduled(DQN), scheduled(DQNPro, c=0.05)
    online, target = list(oracle.policy.parameters()), list(oracle.model_old.parameters())
    group = oracle.optim._optim.param_groups[0]
    oracle.optim._optim.register_step_pre_hook(lambda *_: pull_(online, target, group["lr"] / 0.05))
    for each in (oracle, model):
        learn(each, experience, 25)
    assert model.proximal.param_groups[0]["lr"] == pytest.approx(RATE / 2)
    assert torch.equal(weights(oracle), weights(model))


def test_a_deep_copy_is_independent(experience: Any) -> None:
    algorithm = make(DQNPro, c=0.05)
    learn(algorithm, experience, 30)
    twin = copy.deepcopy(algorithm)
    assert twin.optim._optim is twin.proximal
    before = weights(algorithm)
    learn(twin, experience, 10)
    assert torch.equal(weights(algorithm), before)
    learn(algorithm, experience, 10)
    assert torch.equal(weights(algorithm), weights(twin))


@pytest.mark.parametrize("pro", [DQNPro, C51Pro, RainbowPro])
def test_the_trainer_trains_it_on_cartpole_and_logs(tmp_path: Path, pro: type) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    environments = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
    algorithm = make(pro, c=0.05)
    buffer: ReplayBuffer = VectorBuffer(1_000, buffer_num=2)
    collector = Collector[CollectStats](algorithm, environments, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=64)
    logger = TensorboardLogger(SummaryWriter(str(tmp_path)), update_interval=1)
    result = algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=200,
            collection_step_num_env_steps=10,
            update_step_num_gradient_steps_per_sample=0.5,
            batch_size=32,
            logger=logger,
        )
    )
    assert (result.update_step, algorithm._iter) == (20, 100)  # learning phases, updates
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    logged = [e.value for e in events.Scalars("update/target_distance")]
    assert max(logged) > 0.0
