"""Prioritised replay: which transitions are drawn, how often, with what weight; exponent 0."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxrl.config import ReplayConfig
from proxrl.errors import UserError
from proxrl.replay import Gather, PrioritisedReplay, ReplayLog, UniformReplay, sampler_of
from proxrl.types import Array, End, ObservationSpec

SPEC = ObservationSpec((2,), "float32")


def log_in(folder: Path, capacity: int, spec: ObservationSpec = SPEC) -> ReplayLog:
    return ReplayLog(folder, spec, capacity, checkpoint_steps=50)


def replay_of(
    log: ReplayLog, batch: int, n: int = 1, alpha: float = 0.5, beta: float = 0.5
) -> PrioritisedReplay:
    gather = Gather(log, batch, n, 0.9, torch.device("cpu"))
    return PrioritisedReplay(gather, np.random.default_rng(0), alpha, beta)


def play(log: ReplayLog, lengths: list[int], last: End = End.TERMINATED) -> None:
    """Episodes of these lengths; `last` is how the last one ends (NO: it is still running)."""
    for number, length in enumerate(lengths):
        end = last if number == len(lengths) - 1 else End.TERMINATED
        log.begin(np.zeros(log.spec.shape, log.spec.dtype))
        for step in range(length):
            log.add(0, 1.0, end if step == length - 1 else End.NO, np.ones(log.spec.shape))
            log.protect(log.state())


def leaves(replay: PrioritisedReplay) -> Array:
    return replay.state()["priorities"]


def test_new_transitions_enter_at_the_largest_priority_seen(tmp_path: Path) -> None:
    """By hand, exponent 0.5: priorities 9 and 4 are leaves 3 and 2; later ones enter at 3."""
    log = log_in(tmp_path, 10)
    play(log, [4])
    replay = replay_of(log, batch=4)
    replay.sample()
    assert leaves(replay)[:4].tolist() == [1.0] * 4, "the first ones enter at 1"
    replay.update(np.array([0, 2]), torch.tensor([9.0, 4.0]))
    play(log, [2])
    replay.sample()
    np.testing.assert_allclose(leaves(replay)[:7], [3, 1, 2, 1, 3, 3, 0], rtol=1e-9)


def test_weights_by_hand(tmp_path: Path) -> None:
    """Leaves 1, 2, 4: weight (P / P_min)^-0.5 = 1, 1/sqrt 2, 1/2 of the batch's largest."""
    log = log_in(tmp_path, 3)
    play(log, [3])
    replay = replay_of(log, batch=70)
    replay.sample()
    replay.update(np.array([0, 1, 2]), torch.tensor([1.0, 4.0, 16.0]))
    batch = replay.sample()
    expected = {0: 1.0, 1: 2**-0.5, 2: 0.5}
    assert set(batch.indices.tolist()) == {0, 1, 2}
    for step, weight in zip(batch.indices.tolist(), batch.weights.tolist(), strict=True):
        assert weight == pytest.approx(expected[step], rel=1e-6)
    counts = np.bincount(batch.indices)
    assert counts.tolist() == [10, 20, 40], "stratified: 70 draws hit 1 : 2 : 4 exactly"


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_exponent_zero_is_uniform_with_weights_of_exactly_one(tmp_path: Path, beta: float) -> None:
    """Weights of batches of 16; chi-square over 20 transitions, 4,000 draws one at a time: below
    the 99.9% point of 19 degrees, 43.8."""
    log = log_in(tmp_path, 20)
    play(log, [9, 9, 9])
    many, one = (replay_of(log, batch=size, alpha=0.0, beta=beta) for size in (16, 1))
    for _ in range(50):
        batch = many.sample()
        assert (batch.weights == 1.0).all()
        many.update(batch.indices, torch.rand(16) * 100)
    counts = np.zeros(20)
    for _ in range(4_000):
        batch = one.sample()
        counts[batch.indices - log.oldest] += 1
        one.update(batch.indices, torch.rand(1) * 100)
    assert ((counts - 200.0) ** 2 / 200.0).sum() < 43.8


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    running=st.integers(0, 6),
    n=st.integers(1, 4),
    capacity=st.integers(12, 40),
    seed=st.integers(0, 100),
)
def test_only_complete_transitions_alive_have_a_priority(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    running: int,
    n: int,
    capacity: int,
    seed: int,
) -> None:
    """Sampled occasionally while episodes are added and the ring wraps; the oracle is the list of
    steps alive whose n-th reward is known or whose episode has ended."""
    log = log_in(tmp_path_factory.mktemp("log"), capacity)
    replay = replay_of(log, batch=8, n=n)
    chance = np.random.default_rng(seed)
    if running:
        lengths = [*lengths, running]
    done: list[bool] = []  # per step: is its transition complete
    for number, length in enumerate(lengths):
        is_running = bool(running) and number == len(lengths) - 1
        log.begin(np.zeros(2, np.float32))
        for step in range(length):
            last = step == length - 1 and not is_running
            log.add(0, 1.0, End.TRUNCATED if last else End.NO, np.ones(2, np.float32))
            log.protect(log.state())
            done.append(False)
            so_far = step + 1
            for back in range(so_far):
                if last or back + 1 >= n:
                    done[-1 - back] = True
            drawable = [s for s in range(max(0, len(done) - capacity), len(done)) if done[s]]
            if drawable and (chance.random() < 0.3 or (last and number == len(lengths) - 1)):
                batch = replay.sample()
                assert set(batch.indices.tolist()) <= set(drawable)
                found = np.flatnonzero(leaves(replay))
                assert set(found.tolist()) == {s % capacity for s in drawable}
                assert len(replay) == len(drawable)
                replay.update(batch.indices, torch.from_numpy(chance.random(8)))


def test_steps_that_die_early_lose_their_priority(tmp_path: Path) -> None:
    """Large images in episodes of one step: the frame ring is full before the step ring is."""
    big = ObservationSpec((3000, 3000), "uint8")  # room for one spare frame
    log = ReplayLog(tmp_path, big, 6, checkpoint_steps=1)
    replay = replay_of(log, batch=4)
    for _ in range(9):
        play(log, [1])
        assert log.oldest <= min(replay.sample().indices)
    assert log.oldest > log.steps - log.capacity, "fewer alive than the capacity"
    alive = {step % 6 for step in range(log.oldest, log.steps)}
    assert set(np.flatnonzero(leaves(replay)).tolist()) == alive


def test_saved_and_loaded_it_draws_the_same(tmp_path: Path) -> None:
    log = log_in(tmp_path, 30)
    play(log, [12, 12, 12])
    replay = replay_of(log, batch=8, n=3)
    for _ in range(20):
        batch = replay.sample()
        replay.update(batch.indices, torch.rand(8))
    play(log, [5], last=End.NO)  # not yet in the tree
    saved = replay.state()
    twin = replay_of(log, batch=8, n=3)
    twin.load(saved)
    twin._generator.bit_generator.state = replay._generator.bit_generator.state
    for _ in range(20):
        one, other = replay.sample(), twin.sample()
        np.testing.assert_array_equal(one.indices, other.indices)
        assert torch.equal(one.weights, other.weights)
        priorities = torch.rand(8)
        replay.update(one.indices, priorities)
        twin.update(other.indices, priorities)
    assert leaves(replay).tobytes() == leaves(twin).tobytes()


def test_a_priority_that_is_not_finite_counts_as_the_largest_seen(tmp_path: Path) -> None:
    """And does not become it: draws go on until the loss stops the run."""
    log = log_in(tmp_path, 10)
    play(log, [4])
    replay = replay_of(log, batch=4)
    replay.sample()
    replay.update(np.array([0]), torch.tensor([9.0]))
    replay.update(np.array([1, 2]), torch.tensor([np.inf, np.nan]))
    np.testing.assert_allclose(leaves(replay)[:4], [3, 3, 3, 1], rtol=1e-9)
    assert replay.state()["largest_priority"] == pytest.approx(3.0)


def test_a_priority_of_zero_can_still_be_drawn(tmp_path: Path) -> None:
    """Exponent 0.5: 1e-10 is added to every priority, so the leaf is 1e-5."""
    log = log_in(tmp_path, 10)
    play(log, [2])
    replay = replay_of(log, batch=4)
    replay.sample()
    replay.update(np.array([1]), torch.zeros(1, requires_grad=True))
    np.testing.assert_allclose(leaves(replay)[:2], [1.0, 1e-5], rtol=1e-9)


def test_the_configured_sampler_has_the_configured_exponents(tmp_path: Path) -> None:
    """Priorities 1 and 16: leaves 1 and 16 ** 0.25 = 2, weights 1 and 2 ** -3."""
    log = log_in(tmp_path, 10)
    play(log, [2])
    gather = Gather(log, 30, 1, 0.9, torch.device("cpu"))
    config = ReplayConfig(sampling="prioritised", priority_exponent=0.25, importance_exponent=3.0)
    replay = sampler_of(config)(gather, np.random.default_rng(0), config)
    replay.sample()
    replay.update(np.array([0, 1]), torch.tensor([1.0, 16.0]))
    batch = replay.sample()
    assert np.bincount(batch.indices).tolist() == [10, 20]
    assert batch.weights.tolist() == pytest.approx([1.0] * 10 + [0.125] * 20)
    plain = ReplayConfig()
    uniform = sampler_of(plain)(gather, np.random.default_rng(0), plain)
    assert isinstance(uniform, UniformReplay)
    assert uniform.sample().weights is None
    with pytest.raises(UserError, match="choose from uniform, prioritised"):
        sampler_of(ReplayConfig(sampling="latest"))


@pytest.mark.parametrize("sampling", ["uniform", "prioritised"])
def test_nothing_can_be_drawn_before_a_transition_is_complete(
    tmp_path: Path, sampling: str
) -> None:
    log = log_in(tmp_path, 10)
    config = ReplayConfig(sampling=sampling)
    gather = Gather(log, 4, 3, 0.9, torch.device("cpu"))
    replay = sampler_of(config)(gather, np.random.default_rng(0), config)
    assert len(replay) == 0
    play(log, [2], last=End.NO)
    assert len(replay) == 0
    log.add(0, 1.0, End.NO, np.ones(2))
    assert len(replay) == 1
