"""Adam on vectors of weights, against torch's own; its state, also as earlier versions saved it."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proxrl.agents.adam import FLUSH_PERIOD, Adam
from proxrl.agents.weights import Layout


def network() -> nn.Sequential:
    """Two dtypes, so that there are two vectors, without gaps."""
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    return nn.Sequential(first, second, nn.Linear(4, 4, bias=False).double())


def gradients(count: int) -> list[list[Tensor]]:
    generator = np.random.default_rng(0)
    lengths = [vector.numel() for vector in Layout(network()).zeros()]
    return [[torch.from_numpy(generator.normal(size=n)) for n in lengths] for _ in range(count)]


def made() -> tuple[Adam, list[Tensor], Layout]:
    each = network()
    layout = Layout(each)
    return Adam(layout, epsilon=1e-3), layout.move_(each, with_gradient=True), layout


def step(adam: Adam, weights: list[Tensor], gradient: list[Tensor], rate: float) -> None:
    for weight, values in zip(weights, gradient, strict=True):
        assert weight.grad is not None
        weight.grad.copy_(values)
    adam.step(weights, rate)


def test_it_is_torchs_adam_also_while_the_rate_changes() -> None:
    adam, weights, _ = made()
    others = [weight.detach().clone().requires_grad_() for weight in weights]
    theirs = torch.optim.Adam(others, lr=1.0, eps=1e-3, fused=True)
    for number, gradient in enumerate(gradients(20), start=1):
        rate = 0.1 / number
        step(adam, weights, gradient, rate)
        theirs.param_groups[0]["lr"] = rate
        for other, values in zip(others, gradient, strict=True):
            other.grad = values.to(other.dtype)
        theirs.step()
    for mine, other in zip(weights, others, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_compiled_step_has_the_bits_of_torchs(threads: int) -> None:
    """With one thread; small, large and absent gradients, and counts for which 1 - beta^t is 1."""
    generator, before = torch.Generator().manual_seed(0), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        body = nn.Linear(100, 33)
        layout = Layout(body)
        adam, (weights,) = Adam(layout, 3e-4), layout.move_(body, with_gradient=True)
    finally:
        torch.set_num_threads(before)
    other = weights.detach().clone().requires_grad_()
    theirs = torch.optim.Adam([other], lr=1.0, eps=3e-4, fused=True)
    for number in range(60):
        shape = weights.shape
        gradient = torch.randn(shape, generator=generator)
        gradient *= 10.0 ** (8.0 * torch.rand(shape, generator=generator) - 7.0)
        gradient[torch.rand(shape, generator=generator) < 0.3] = 0.0
        if number == 30:
            adam.steps[0].fill_(40_000.0)
            theirs.state[other]["step"].fill_(40_000.0)
        theirs.param_groups[0]["lr"] = rate = 0.01 / (1 + number)
        other.grad = gradient
        step(adam, [weights], [gradient], rate)
        theirs.step()
        assert torch.equal(weights, other)
    assert torch.equal(adam.mean[0], theirs.state[other]["exp_avg"])
    assert torch.equal(adam.square[0], theirs.state[other]["exp_avg_sq"])
    assert adam.steps[0] == theirs.state[other]["step"]


def test_its_state_has_the_names_of_the_parameters_and_goes_on_bit_identically() -> None:
    adam, weights, _ = made()
    *first, last = gradients(6)
    for gradient in first:
        step(adam, weights, gradient, 0.1)
    state = {name: tensor.clone() for name, tensor in adam.state().items()}
    names = ["0.weight", "1.weight", "2.weight"]
    moments = [f"{name}.{moment}" for moment in ("mean", "square") for name in names]
    assert list(state) == [*moments, "steps"]
    assert state["steps"] == 5

    resumed, others, _ = made()
    with torch.no_grad():
        for other, weight in zip(others, weights, strict=True):
            other.copy_(weight)
    resumed.load(state)
    step(adam, weights, last, 0.1)
    step(resumed, others, last, 0.1)
    for mine, other in zip(weights, others, strict=True):
        assert torch.equal(mine, other)
    assert [int(steps) for steps in resumed.steps] == [6, 6]


def test_a_state_that_counts_the_steps_of_each_parameter_is_read() -> None:
    """Unused parameters stayed at 0: the largest count is that of the updates."""
    adam, weights, _ = made()
    step(adam, weights, gradients(1)[0], 0.1)
    state = {name: tensor.clone() for name, tensor in adam.state().items() if name != "steps"}
    counts = {"0.weight.step": 7.0, "1.weight.step": 0.0, "2.weight.step": 7.0}
    resumed, _, _ = made()
    resumed.load({**state, **{name: torch.tensor(count) for name, count in counts.items()}})
    assert [float(steps) for steps in resumed.steps] == [7.0, 7.0]
    assert torch.equal(resumed.mean[0], adam.mean[0])
    assert torch.equal(resumed.square[1], adam.square[1])


def test_flushing_zeroes_decayed_moments_and_changes_no_weight() -> None:
    """A gradient that stops: the mean decays below float32's normal numbers and would stay there,
    because the smallest of them times 0.9 rounds to itself."""
    kept, flushed = made()[:2], made()[:2]
    smallest = torch.finfo(torch.float32).tiny
    for number, gradient in enumerate(gradients(1) + [[0.0 * g for g in gradients(1)[0]]] * 1_100):
        for adam, weights in (kept, flushed):
            step(adam, weights, gradient, 0.1)
        if number % FLUSH_PERIOD == 0:
            flushed[0].flush()
    assert 0.0 < kept[0].mean[0].abs().max() < smallest
    assert torch.count_nonzero(flushed[0].mean[0]) == 0
    assert torch.equal(kept[0].square[0], flushed[0].square[0])  # far from that small yet
    for mine, other in zip(kept[1], flushed[1], strict=True):
        assert torch.equal(mine, other)
    flushed[0].mean[0].fill_(torch.nan)
    flushed[0].flush()
    assert flushed[0].mean[0].isnan().all()


def test_flushing_zeroes_squares_only_where_they_are_as_good_as_subnormal() -> None:
    """A square of 1e-14 is that of a gradient of 1e-7, which matters beside an epsilon of 1e-8."""
    adam, _, layout = made()
    for values, expected in ((1e-38, 0.0), (1e-36, 1e-36), (1e-14, 1e-14)):
        for square, zeros in zip(adam.square, layout.zeros(), strict=True):
            square.fill_(values)
            adam.flush()
            assert torch.equal(square, zeros + expected), values


def test_flushing_changes_no_weight_whose_gradients_are_small() -> None:
    kept, flushed = ((Adam(layout, 1e-8), weights) for _, weights, layout in (made(), made()))
    for number, gradient in enumerate(gradients(2 * FLUSH_PERIOD)):
        for adam, weights in (kept, flushed):
            step(adam, weights, [1e-7 * values for values in gradient], 1e-4)
        if number % FLUSH_PERIOD == 0:
            flushed[0].flush()
    for mine, other in zip(kept[1], flushed[1], strict=True):
        assert torch.equal(mine, other)
