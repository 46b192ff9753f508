"""What a run writes down.

metrics.jsonl    one line per evaluation interval, episodes and syncs aggregated: all a report reads
episodes.jsonl   one line per training episode
speed.jsonl      what the clock says, apart, because it differs from run to run

The first two belong to the run's bits: a checkpoint records their lengths, and resuming cuts them
back. TensorBoard events (and Weights & Biases) repeat metrics.jsonl for the eye.
"""

import hashlib
import importlib
import json
import os
import time
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from proxrl.agents.learner import Update
from proxrl.config import LoggingConfig, RunConfig, to_json
from proxrl.errors import UserError

METRICS, EPISODES, SPEED = "metrics.jsonl", "episodes.jsonl", "speed.jsonl"


class Tally:
    """A mean in the making; None when nothing was added."""

    def __init__(self, total: float = 0.0, count: int = 0) -> None:
        self.total, self.count = total, count

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


class Interval:
    """Everything since the last line of metrics.jsonl; part of the checkpoint."""

    OF_UPDATES = ("loss", "mean_value", "parameter_distance", "value_distance", "sync_distance")
    NAMES = ("episode_return", "episode_length", *OF_UPDATES)

    def __init__(self, state: dict[str, list[float]] | None = None) -> None:
        self.tallies = {name: Tally() for name in self.NAMES}
        for name, (total, count) in (state or {}).items():
            self.tallies[name] = Tally(total, int(count))
        self._reported: dict[str, list[Tensor]] = {name: [] for name in self.OF_UPDATES}

    def state(self) -> dict[str, list[float]]:
        return {name: [tally.total, tally.count] for name, tally in self.tallies.items()}

    def add_episode(self, episode_return: float, length: int) -> None:
        self.tallies["episode_return"].add(episode_return)
        self.tallies["episode_length"].add(length)

    def add_update(self, update: Update) -> None:
        """Keep what it reports, tensors on the learner's device, until `read_updates`."""
        self._reported["loss"].append(update.loss)
        self._reported["mean_value"].append(update.mean_value)
        if update.distances is not None:
            self._reported["parameter_distance"].append(update.distances.parameters)
            self._reported["value_distance"].append(update.distances.values)
        if update.sync_distance is not None:
            self._reported["sync_distance"].append(update.sync_distance)

    def read_updates(self) -> tuple[list[float], list[float]]:
        """Add what was reported to the means, in its order; the new losses and mean values."""
        found = {
            name: torch.stack(tensors).tolist() if tensors else []
            for name, tensors in self._reported.items()
        }
        self._reported = {name: [] for name in self._reported}
        for name, values in found.items():
            for value in values:
                self.tallies[name].add(value)
        return found["loss"], found["mean_value"]

    def summary(self) -> dict[str, Any]:
        means: dict[str, Any] = {f"train/{name}": t.mean for name, t in self.tallies.items()}
        means["train/episodes"] = self.tallies["episode_return"].count
        means["train/syncs"] = self.tallies["sync_distance"].count
        return means


class Lengths(TypedDict):
    """Bytes of the files that belong to the run's bits."""

    metrics: int
    episodes: int


class Journalist:
    """Appends lines to a run folder's files."""

    def __init__(
        self, folder: Path, config: RunConfig, step: int = 0, lengths: Lengths | None = None
    ) -> None:
        known = lengths or Lengths(metrics=0, episodes=0)
        self._metrics = _open_at(folder / METRICS, known["metrics"])
        self._episodes = _open_at(folder / EPISODES, known["episodes"])
        self._speed = open(folder / SPEED, "ab", buffering=0)  # noqa: SIM115
        self._board = _TensorBoard(folder, config.logging, step)
        self._wandb = _wandb_run(folder, config)
        self._clock = (time.perf_counter(), step)

    def interval(self, line: dict[str, Any]) -> None:
        _append(self._metrics, line)
        self._board.add(line)
        if self._wandb is not None:
            self._wandb.log(line, step=line["step"])
        self.speed(line["step"])

    def episode(self, line: dict[str, Any]) -> None:
        _append(self._episodes, line)

    def speed(self, step: int) -> None:
        """Steps per second since the last call, and the hour of the day."""
        now, (then, before) = time.perf_counter(), self._clock
        self._clock = (now, step)
        rate = (step - before) / (now - then) if now > then else 0.0
        _append(self._speed, {"step": step, "steps_per_second": rate, "unix_time": time.time()})

    def lengths(self) -> Lengths:
        return Lengths(metrics=self._metrics.tell(), episodes=self._episodes.tell())

    def sync(self) -> None:
        """Force the lines to the disk, before a checkpoint counts on them."""
        for file in (self._metrics, self._episodes):
            os.fsync(file.fileno())

    def close(self) -> None:
        for file in (self._metrics, self._episodes, self._speed):
            file.close()
        self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file; a last line cut by a kill is left out."""
    if not path.exists():
        return []
    whole = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in whole]


def _open_at(path: Path, length: int) -> Any:
    """Open for appending after `length` bytes; what stands beyond was written after the
    checkpoint and will be written again."""
    file = open(path, "ab", buffering=0)  # noqa: SIM115
    if file.tell() < length:
        file.close()
        raise UserError(
            f"{path} is shorter than when the checkpoint was made: put back what is missing, or "
            "start a new run"
        )
    file.truncate(length)
    file.seek(0, os.SEEK_END)
    return file


def _append(file: Any, line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    while data:  # an unbuffered file may take a part; on a full disk the next call raises
        data = data[file.write(data) :]


class _TensorBoard:
    def __init__(self, folder: Path, config: LoggingConfig, step: int) -> None:
        self._writer: Any = None
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def add(self, line: dict[str, Any]) -> None:
        if self._writer is None:
            return
        for name, value in line.items():
            if isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def require_wandb(config: LoggingConfig) -> None:
    """A `UserError` if Weights & Biases was asked for and is not there."""
    if config.wandb is not None and importlib.util.find_spec("wandb") is None:
        raise UserError("logging.wandb needs Weights & Biases: pip install 'proxrl[wandb]'")


def _wandb_run(folder: Path, config: RunConfig) -> Any:
    if config.logging.wandb is None:
        return None
    wandb = importlib.import_module("wandb")
    place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]  # names may repeat
    return wandb.init(
        project=config.logging.wandb,
        name=folder.name,
        id=f"{folder.name}-{place}",
        resume="allow",
        dir=str(folder),
        config=to_json(config),
    )
