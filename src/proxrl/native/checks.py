"""Whether compiled functions agree with NumPy: compilers have errors too."""

import ctypes

import numpy as np

from proxrl.native.call import CHANNELS, FANOUT, SIDE, STEP, Call, backward_room
from proxrl.types import Array


def is_right(found: ctypes.CDLL) -> bool:
    """Whether all of them do."""
    generator = np.random.default_rng(0)
    return (
        _dense_is_right(found, generator, relu=True)
        and _dense_is_right(found, generator, relu=False)
        and _convolution_is_right(found, generator)
        and _adam_is_right(found, generator)
        and _loss_is_right(found, generator)
        and _distributions_are_right(found, generator)
        and _tree_is_right(found, generator)
        and _transitions_are_right(found)
    )


def _dense_is_right(found: ctypes.CDLL, generator: np.random.Generator, relu: bool) -> bool:
    batch, inputs, units = sizes = (9, 163, 266)  # strips of each width, several panels
    x, weight = _normal(generator, batch, inputs), _normal(generator, units, inputs)
    bias, gradient = _normal(generator, units), _normal(generator, batch, units)
    x[0, 0] = np.nan
    y, scratch = _unset(batch, units), _unset(backward_room(batch, units))
    to_weight, to_bias, to_x = _unset(units, inputs), _unset(units), _unset(batch, inputs)
    Call(found.dense_forward, *sizes, x, weight, bias, int(relu), y)()
    if not np.isnan(y[0]).all():
        return False
    x[0, 0], y[0] = 0.0, 1.0
    into = (to_weight, to_bias, to_x)
    before = (*sizes, x, weight, y, int(relu), gradient, scratch)
    Call(found.dense_backward, *before, *into)()
    passed = gradient * (y > 0) if relu else gradient
    sums = (x @ weight.T + bias)[1:]
    pairs = [(y[1:], np.maximum(sums, 0.0) if relu else sums), (to_weight, passed.T @ x)]
    pairs += [(to_bias, passed.sum(axis=0)), (to_x, passed @ weight)]
    again = _unset(units, inputs)
    Call(found.dense_backward, *before, again, to_bias, None)()
    return _agree([*pairs, (again, to_weight)])


def _convolution_is_right(found: ctypes.CDLL, generator: np.random.Generator) -> bool:
    batch, height, width, channels = sizes = (5, 6, 7, 3)
    images = generator.integers(1, 3, sizes).astype(np.uint8)
    images[generator.random(sizes) < 0.9] = 0
    kernel, bias = _normal(generator, CHANNELS, SIDE, SIDE, channels), _normal(generator, CHANNELS)
    places = (batch, height - SIDE + 1, width - SIDE + 1, CHANNELS)
    y, gradient = _unset(*places), _normal(generator, *places)
    scratch = _unset((SIDE * SIDE * channels + (height + 2) * (width + 2)) * CHANNELS)
    to_kernel, to_bias = _unset(*kernel.shape), _unset(CHANNELS)
    before = (*sizes, images)
    Call(found.convolution_forward, *before, kernel, bias, scratch, y)()
    Call(found.convolution_backward, *before, y, gradient, scratch, to_kernel, to_bias)()
    values, passed = images.astype(np.float32), gradient * (y > 0)
    patches = np.lib.stride_tricks.sliding_window_view(values, (SIDE, SIDE), (1, 2))
    sums = np.einsum("nhwcij,oijc->nhwo", patches, kernel) + bias
    pairs = [(y, np.maximum(sums, 0.0)), (to_bias, passed.sum(axis=(0, 1, 2)))]
    return _agree([*pairs, (to_kernel, np.einsum("nhwcij,nhwo->oijc", patches, passed))])


def _adam_is_right(found: ctypes.CDLL, generator: np.random.Generator) -> bool:
    weights, gradient, mean, square = (_normal(generator, 48) for _ in range(4))
    square = square**2
    new_mean, new_square = 0.9 * mean + 0.1 * gradient, 0.75 * square + 0.25 * gradient**2
    step = 0.125 * new_mean / (np.sqrt(new_square) / 0.5 + 0.01)
    expected = weights - step
    vectors = (weights, gradient, mean, square)
    Call(found.adam_step, 48, *vectors, 0.1, 0.75, 0.25, 0.125, 0.5, 0.01)()
    return _agree([(weights, expected), (mean, new_mean), (square, new_square)])


def _loss_is_right(found: ctypes.CDLL, generator: np.random.Generator) -> bool:
    batch, actions = sizes = (9, 3)
    values, following = _normal(generator, *sizes), _normal(generator, *sizes)
    returns, discounts = _normal(generator, batch), _normal(generator, batch)
    taken, rows, targets = np.arange(batch) % actions, np.arange(batch), _unset(batch)
    Call(found.td_targets, *sizes, following, returns, discounts, targets)()
    pairs = [(targets, returns + discounts * following.max(axis=1))]
    errors = values[rows, taken] - targets
    for huber in (0, 1):
        scores, gradients = _unset(3, batch), _unset(*sizes)
        Call(found.td_loss, *sizes, values, taken, targets, huber, scores, gradients)()
        slopes = np.clip(errors, -1.0, 1.0) if huber else 2.0 * errors
        losses = slopes * (errors - slopes / 2.0) if huber else errors**2
        expected = np.zeros(sizes)
        expected[rows, taken] = slopes / batch
        pairs += [(gradients, expected)]
        pairs += [(scores, np.stack([losses, values[rows, taken], abs(errors)]))]
    return _agree(pairs)


def _distributions_are_right(found: ctypes.CDLL, generator: np.random.Generator) -> bool:
    batch, actions, atoms = sizes = (4, 3, 5)
    support, scratch = np.linspace(-2.0, 2.0, atoms, dtype=np.float32), _unset(2 * atoms)
    logits, returns = _normal(generator, *sizes), np.array([-9.0, 0.25, 0.5, 9.0], np.float32)
    discounts, taken = np.array([0.9, 0.9, 0.0, 0.9], np.float32), np.arange(batch) % actions
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    q, rows = probabilities @ support, np.arange(batch)
    values, targets = _unset(actions), _unset(batch, atoms)
    scores, gradients = _unset(2, batch), _unset(*sizes)
    Call(found.categorical_values, actions, atoms, logits[0], support, scratch, values)()
    rewards = (returns, discounts)
    Call(found.categorical_targets, *sizes, logits, *rewards, support, scratch, targets)()
    Call(found.categorical_loss, *sizes, logits, taken, targets, support, scores, gradients)()
    moved = (returns[:, None] + discounts[:, None] * support).clip(-2.0, 2.0)  # [batch, from]
    shares = (1.0 - abs(moved[:, None, :] - support[:, None])).clip(0.0)  # [batch, to, from]
    best = probabilities[rows, q.argmax(axis=1)]
    expected = np.zeros(sizes)
    expected[rows, taken] = (probabilities[rows, taken] - targets) / batch
    losses = -(targets * np.log(probabilities[rows, taken])).sum(axis=1)
    return _agree(
        [
            (values, q[0]),
            (targets, (shares * best[:, None, :]).sum(axis=2)),
            (scores, np.stack([losses, q[rows, taken]])),
            (gradients, expected),
        ]
    )


def _tree_is_right(found: ctypes.CDLL, generator: np.random.Generator) -> bool:
    size = 2 * FANOUT + 3
    levels = [np.zeros((3, FANOUT)), np.zeros((1, FANOUT))]
    addresses = np.array([level.ctypes.data for level in levels], np.uintp)
    weights, leaves = generator.integers(0, 3, size).astype(float), np.arange(size)
    left = np.arange(0.5, weights.sum(), 7.0)
    drawn = np.full(len(left), -1)
    Call(found.tree_set, 2, addresses, size, leaves, weights)()
    Call(found.tree_draw, 2, addresses, len(left), left, drawn)()
    expected = np.searchsorted(weights.cumsum(), left, side="right")
    return levels[1].sum() == weights.sum() and np.array_equal(drawn, expected)


def _transitions_are_right(found: ctypes.CDLL) -> bool:
    """Two steps of an episode that ends by a termination, and the last of one that is truncated."""
    steps = np.array([(7, 1.0, 5, 0, 0), (8, 2.0, 6, 1, 1), (10, 4.0, 7, 9, 2)], STEP)
    numbers, powers = np.array([3, 4, 5]), np.array([1.0, 0.5, 0.25], np.float32)
    actions, slots = np.full(3, -1), np.full((2, 6), -1)
    returns, discounts = _unset(3), _unset(3)
    into = (actions, returns, discounts, slots)
    Call(found.read_transitions, 3, 2, numbers, steps, 3, 2, 9, 99, powers, *into)()
    return (
        actions.tolist() == [5, 6, 7]
        and returns.tolist() == [2.0, 2.0, 4.0]
        and discounts.tolist() == [0.0, 0.0, 0.5]
        and slots.tolist() == [[99, 7, 0, 8, 8, 1], [7, 8, 1, 0, 0, 2]]
    )


def _normal(generator: np.random.Generator, *shape: int) -> Array:
    return generator.normal(size=shape).astype(np.float32)


def _unset(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def _agree(pairs: list[tuple[Array, Array]]) -> bool:
    return all(np.allclose(mine, its, rtol=1e-3, atol=1e-4) for mine, its in pairs)
