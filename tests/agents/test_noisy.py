"""Noisy layers: the explicit formula, the off-switch, and the source of the noise."""

import numpy as np
import torch
from torch import nn

from proxrl.agents.noisy import (
    NoisyLinear,
    draw_noise,
    make_noisy,
    noisy_layers,
    silence,
    silent,
)


def body() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Sequential(nn.Linear(7, 3)))


def test_the_factorised_form_is_the_papers_formula() -> None:
    """(W + sigma_W * f(e_out) f(e_in)^T) x + b + sigma_b * f(e_out), with the full matrix."""
    torch.manual_seed(0)
    layer = NoisyLinear(nn.Linear(5, 3), sigma=0.5)
    nn.init.normal_(layer.weight_sigma)
    nn.init.normal_(layer.bias_sigma)
    draw_noise([layer], np.random.default_rng(1))
    x = torch.randn(4, 5)
    noisy = layer.weight + layer.weight_sigma * torch.outer(layer.noise_out, layer.noise_in)
    expected = x @ noisy.T + layer.bias + layer.bias_sigma * layer.noise_out
    torch.testing.assert_close(layer(x), expected)


def test_noise_is_sign_times_root_of_the_generators_gaussians() -> None:
    layer = NoisyLinear(nn.Linear(4, 2), sigma=0.5)
    draw_noise([layer], np.random.default_rng(3))
    generator = np.random.default_rng(3)
    for noise in (layer.noise_in, layer.noise_out):
        drawn = generator.standard_normal(len(noise), dtype=np.float32)
        expected = np.sign(drawn) * np.sqrt(np.abs(drawn))
        np.testing.assert_allclose(noise.numpy(), expected, rtol=1e-6)


def test_zero_sigma_is_the_plain_network_with_noise_drawn() -> None:
    plain, noisy, x = body(), make_noisy(body(), sigma=0.0), torch.randn(6, 5)
    draw_noise(noisy_layers(noisy), np.random.default_rng(0))
    torch.testing.assert_close(noisy(x), plain(x), rtol=0, atol=1e-7)


def test_a_silent_layer_uses_its_means_until_noise_is_drawn() -> None:
    plain, noisy, x = body(), make_noisy(body(), sigma=0.5), torch.randn(6, 5)
    assert torch.equal(noisy(x), plain(x))
    generator = np.random.default_rng(0)
    draw_noise(noisy_layers(noisy), generator)
    first = noisy(x)
    draw_noise(noisy_layers(noisy), generator)
    assert not torch.equal(first, noisy(x)), "new noise"
    silence(noisy_layers(noisy))
    assert torch.equal(noisy(x), plain(x))


def test_every_linear_layer_becomes_noisy_with_sigma_over_root_of_inputs() -> None:
    network = make_noisy(body(), sigma=0.5)
    layers = [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
    assert len(layers) == 2
    assert not any(isinstance(layer, nn.Linear) for layer in network.modules())
    for layer, inputs in zip(layers, (5, 7), strict=True):
        assert torch.equal(
            layer.weight_sigma, torch.full_like(layer.weight_sigma, 0.5 / inputs**0.5)
        )


def test_sigmas_learn() -> None:
    noisy = make_noisy(body(), sigma=0.5)
    draw_noise(noisy_layers(noisy), np.random.default_rng(0))
    noisy(torch.randn(6, 5)).square().sum().backward()
    assert all(
        layer.weight_sigma.grad is not None and layer.weight_sigma.grad.abs().sum() > 0
        for layer in noisy.modules()
        if isinstance(layer, NoisyLinear)
    )


def test_a_layer_used_twice_stays_one_and_a_frozen_one_frozen() -> None:
    shared = nn.Linear(5, 5)
    frozen = nn.Linear(5, 3).requires_grad_(False)
    network = make_noisy(nn.Sequential(shared, nn.ReLU(), shared, frozen), sigma=0.5)
    first, _, second, last = network
    assert first is second
    assert not any(parameter.requires_grad for parameter in last.parameters())


class Own(nn.Linear):
    """A subclass may compute anything, so it is not replaced."""


def test_only_plain_linear_layers_are_replaced() -> None:
    assert isinstance(make_noisy(Own(2, 2), sigma=0.5), Own)


def test_noise_is_no_part_of_the_state() -> None:
    noisy = make_noisy(nn.Sequential(nn.Linear(2, 2)), sigma=0.5)
    names = {"0.weight", "0.bias", "0.weight_sigma", "0.bias_sigma"}
    assert set(noisy.state_dict()) == names


def test_a_layer_without_a_bias_gets_one_of_zeros() -> None:
    layer = NoisyLinear(nn.Linear(4, 2, bias=False), sigma=0.5)
    assert layer.bias.tolist() == [0.0, 0.0]
    assert layer.bias_sigma.tolist() == [0.25, 0.25]


def test_after_a_silent_block_every_layer_is_as_before() -> None:
    quiet, loud = (NoisyLinear(nn.Linear(2, 2), sigma=0.5) for _ in range(2))
    draw_noise([loud], np.random.default_rng(0))
    with silent([quiet, loud]):
        assert (quiet.silent, loud.silent) == (True, True)
    assert (quiet.silent, loud.silent) == (True, False)
