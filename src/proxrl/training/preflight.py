"""Preflight: the memory, disk and time that a run needs, before it starts.

Uses the environments and network of the run itself (`Setup`), so that nothing is built twice.
"""

import copy
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from proxrl.agents.learner import Learner
from proxrl.agents.networks import QNetwork, build_network
from proxrl.config import RunConfig
from proxrl.envs import Environment, Episodes
from proxrl.proximal.rules import make_rule
from proxrl.replay import log_nbytes, sampler_of
from proxrl.training.environments import (
    film_environment,
    scoring_environments,
    training_environment,
)
from proxrl.training.machine import prepare_process, resolve_device
from proxrl.training.resources import Requirements
from proxrl.types import Batch, ObservationSpec

PROCESS_BYTES = 600_000_000  # Python, torch and their buffers, measured
PRIORITY_BYTES = 8
OTHER_FILES_BYTES = 10_000_000  # metrics, episodes, events
CALIBRATION_BLOCKS = 5
CALIBRATION_UPDATES = 3
CALIBRATION_STEPS = 30


class Setup(NamedTuple):
    """Environments and network of a run: built once, checked, then trained."""

    device: torch.device
    environment: Environment
    scoring_environments: list[Environment]
    network: QNetwork
    film_environment: Environment | None = None


def set_up(config: RunConfig, environment: Environment | None = None) -> Setup:
    """Build the setup; raises `UserError` if it cannot work. `environment`: an existing one."""
    device = resolve_device(config.device)
    prepare_process(config.threads)
    environment = environment or training_environment(config)
    spec = environment.observation
    network = build_network(spec, environment.actions, config.network, config.seed, config.head)
    make_rule(config)
    sampler_of(config.replay)
    scoring = scoring_environments(config)
    return Setup(device, environment, scoring, network, film_environment(config))


def requirements(config: RunConfig, setup: Setup) -> Requirements:
    """Memory and disk."""
    weights = sum(parameter.numel() * 4 for parameter in setup.network.parameters())
    prioritised = config.replay.sampling == "prioritised"
    priorities = config.replay.capacity * PRIORITY_BYTES if prioritised else 0
    spec = setup.environment.observation
    replay = log_nbytes(spec, config.replay.capacity, config.checkpoint.period_steps)
    memory = PROCESS_BYTES + replay + 8 * weights + 2 * priorities  # a copy while saving
    checkpoint = 4 * weights + priorities
    disk = replay + _checkpoints(config) * checkpoint + OTHER_FILES_BYTES
    kept = _checkpoints(config) if config.checkpoint.keep_all else 1
    final_disk = replay * config.checkpoint.keep_replay + kept * checkpoint + OTHER_FILES_BYTES
    return Requirements(memory, disk, None, final_disk, replay)


def _checkpoints(config: RunConfig) -> int:
    """Maximum number of checkpoints: the newest two and the one being written, or all."""
    if config.checkpoint.keep_all:
        return 1 + -(-config.steps // config.checkpoint.period_steps)
    return 3


def seconds_of(config: RunConfig, setup: Setup, steps: int) -> float:
    """Estimated time of `steps`, from a few updates of a copy of the network and a few steps in the
    evaluation environment; does not affect the run."""
    rates = {"learning_rate": 1e-12, "annealed_rate": None, "rate_schedule": "constant"}
    still = config.override({f"learner.{name}": rate for name, rate in rates.items()})  # to time it
    environment, device = setup.scoring_environments[0], setup.device
    learner = Learner(copy.deepcopy(setup.network), still, device, np.random.default_rng(0))
    batch = _random_batch(environment.observation, environment.actions, config, device)
    learner.update(batch)
    update = _time_each(lambda: learner.update(batch), CALIBRATION_UPDATES)

    episodes = Episodes(environment, config.seed, (0,), config.protocol.max_episode_steps)
    state, values = batch.states[0].cpu().numpy(), learner.online.of_state()
    generator = np.random.default_rng(0)
    episodes.begin()

    def play() -> None:
        values(state)
        if episodes.step(int(generator.integers(environment.actions))).game_over:
            episodes.begin()

    step = _time_each(play, CALIBRATION_STEPS)
    updates = config.learner.updates_per_step / config.learner.update_period_steps
    return steps * (step + update * updates)


def _time_each(action: Callable[[], object], times: int) -> float:
    rates = []
    for _ in range(CALIBRATION_BLOCKS):
        start = time.perf_counter()
        for _ in range(times):
            action()
        rates.append((time.perf_counter() - start) / times)
    return median(rates)  # robust to bursts of other processes


def _random_batch(
    spec: ObservationSpec, actions: int, config: RunConfig, device: torch.device
) -> Batch:
    size = config.replay.batch_size
    generator = np.random.default_rng(0)
    states = torch.from_numpy(
        generator.integers(0, 2, (2, size, *spec.state_shape)).astype(spec.dtype)
    ).to(device)
    return Batch(
        states=states[0],
        actions=torch.from_numpy(generator.integers(0, actions, size)).to(device),
        returns=torch.zeros(size, device=device),
        discounts=torch.zeros(size, device=device),
        next_states=states[1],
        indices=np.arange(size),
    )
