"""Before a run starts: the memory, disk and time it will need; a refusal where it cannot fit."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import psutil
import torch

from proxrl.agents.learner import Learner
from proxrl.agents.networks import QNetwork, build_network
from proxrl.agents.policy import greedy_actions
from proxrl.config import RunConfig
from proxrl.envs import Environment, Episodes, make
from proxrl.errors import UserError
from proxrl.proximal.rules import make_rule
from proxrl.replay import log_nbytes
from proxrl.training.amounts import duration, gigabytes
from proxrl.training.folder import RunFolder
from proxrl.training.machine import prepare_process, resolve_device
from proxrl.types import Batch, ObservationSpec

PROCESS_BYTES = 600_000_000  # Python, torch and their buffers, measured
PRIORITY_BYTES = 8
OTHER_FILES_BYTES = 10_000_000  # metrics, episodes, events
CALIBRATION_BLOCKS = 5
CALIBRATION_UPDATES = 3
CALIBRATION_STEPS = 30
CGROUPS = (  # folder, limit and usage of version 2 and version 1
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


class NotEnough(UserError):
    """Memory or disk that is not free now; it may be later."""


class Preflight(NamedTuple):
    """What a run will need."""

    memory: int  # bytes, once the replay is full
    disk: int  # bytes at the peak
    seconds: float | None  # for the steps that are left; evaluations and sampling not counted
    final_disk: int  # bytes that the finished run leaves

    def __str__(self) -> str:
        needs = f"needs {gigabytes(self.memory)} of memory, {gigabytes(self.disk)} of disk"
        time_left = "" if self.seconds is None else f", about {duration(self.seconds)} of training"
        return needs + time_left


def preflight(
    config: RunConfig, place: RunFolder, calibrate: bool, refuse: bool = True
) -> Preflight:
    """Check that it fits, or (with `refuse`) a `UserError`; with `calibrate` also measure how long
    it will take.

    Works on scratch copies: nothing is written, and the run's own generators are not touched.
    """
    device = resolve_device(config.device)
    prepare_process(config.threads)
    environment = make(config.env, replace(config.protocol, life_loss_terminal=False))
    spec = environment.observation
    network = build_network(spec, environment.actions, config.network, config.seed, config.head)
    make_rule(config)  # or one line that says why not
    weights = sum(parameter.numel() * 4 for parameter in network.parameters())
    prioritised = config.replay.sampling == "prioritised"
    priorities = config.replay.capacity * PRIORITY_BYTES if prioritised else 0
    replay = log_nbytes(spec, config.replay.capacity, config.checkpoint.period_steps)
    memory = PROCESS_BYTES + replay + 8 * weights + 2 * priorities  # a copy while it is saved
    checkpoint = 4 * weights + priorities
    disk = replay + _checkpoints(config) * checkpoint + OTHER_FILES_BYTES
    kept = _checkpoints(config) if config.checkpoint.keep_all else 1
    final_disk = replay * config.checkpoint.keep_replay + kept * checkpoint + OTHER_FILES_BYTES
    there = replay if place.replay.exists() else 0
    if refuse:
        _require("memory", memory, available_memory())
        _require("disk", disk - there, shutil.disk_usage(_existing(place.path)).free)
    steps = config.steps - (place.newest_step() or 0)
    seconds = _seconds(config, network, environment, device, steps) if calibrate else None
    environment.close()
    return Preflight(memory, disk, seconds, final_disk)


def _checkpoints(config: RunConfig) -> int:
    """How many there are at most: the newest two and the one being written, or all."""
    if config.checkpoint.keep_all:
        return 1 + -(-config.steps // config.checkpoint.period_steps)
    return 3


def _require(what: str, needed: int, available: int) -> None:
    if needed > available:
        raise NotEnough(
            f"not enough {what}: this run needs {gigabytes(needed)}, {gigabytes(available)} "
            "are free; a smaller --replay.capacity needs less"
        )


def _seconds(
    config: RunConfig,
    network: QNetwork,
    environment: Environment,
    device: torch.device,
    steps: int,
) -> float:
    still = config.override({"learner.learning_rate": 1e-12})  # only its time matters here
    learner = Learner(network, still, device, np.random.default_rng(0))
    batch = _random_batch(environment.observation, environment.actions, config, device)
    learner.update(batch)
    update = _time_each(lambda: learner.update(batch), CALIBRATION_UPDATES)

    episodes = Episodes(environment, config.seed, (0,), config.protocol.max_episode_steps)
    state = batch.states[:1].cpu().numpy()
    generator = np.random.default_rng(0)
    episodes.begin()

    def play() -> None:
        greedy_actions(learner.online, state, device)
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
    return median(rates)  # a neighbour's burst does not count


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


def available_memory() -> int:
    """Bytes free on the machine, or within the limit of this container if that is less."""
    free = [int(psutil.virtual_memory().available)]
    for folder, limit, used in CGROUPS:
        try:
            left = int((folder / limit).read_text()) - int((folder / used).read_text())
            statistics = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
        # Pages of files that nobody has looked at of late count as used, and make room when asked.
        free.append(max(0, left + int(statistics.get("inactive_file", 0))))
    return min(free)


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
