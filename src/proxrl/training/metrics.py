"""Logging of a run: metrics, episodes and speed (runs/folder.py), TensorBoard, Weights & Biases.

metrics.jsonl and episodes.jsonl are bit-identical after a resume: a checkpoint records their
lengths, and resuming truncates them. speed.jsonl depends on the clock and is not. TensorBoard
events (and Weights & Biases) repeat metrics.jsonl.
"""

import hashlib
import importlib
import importlib.util
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxrl.config import LoggingConfig, RunConfig, to_json
from proxrl.errors import UserError
from proxrl.runs.folder import EPISODES, METRICS, SPEED
from proxrl.runs.lines import LineFile
from proxrl.training.tensorboard import TensorBoard
from proxrl.types import State

if TYPE_CHECKING:
    from torch import Tensor

    from proxrl.agents.learner import Update

OF_THE_RULE = "rule/"  # before the names of a proximal rule's metrics
NO_LINES: State = {"metrics": 0, "episodes": 0}


class Tally:
    """A running mean; None if nothing was added."""

    def __init__(self, total: float = 0.0, count: int = 0) -> None:
        self.total, self.count = total, count

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


class Interval:
    """Means of what happened since the last line of metrics.jsonl."""

    NAMES = (
        "episode_return",
        "episode_length",
        "loss",
        "mean_value",
        "parameter_distance",
        "value_distance",
        "sync_distance",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.tallies = {name: Tally() for name in self.NAMES}
        self._reported: dict[str, list[Tensor]] = {}

    def state(self) -> State:
        return {name: [tally.total, tally.count] for name, tally in self.tallies.items()}

    def load(self, state: State) -> None:
        self.clear()
        for name, (total, count) in state.items():
            self.tallies[name] = Tally(total, int(count))

    def add_episode(self, episode_return: float, length: int) -> None:
        self.tallies["episode_return"].add(episode_return)
        self.tallies["episode_length"].add(length)

    def add_update(self, update: "Update") -> None:
        """Keep its values, tensors on the learner's device, until `read_updates`."""
        self._report("loss", update.losses)
        self._report("mean_value", update.values)
        if update.distances is not None:
            self._report("parameter_distance", update.distances.parameters)
            self._report("value_distance", update.distances.values)
        if update.sync_distance is not None:
            self._report("sync_distance", update.sync_distance)
        for name, value in update.rule.items():
            if hasattr(value, "detach"):  # a tensor, which the rule may change afterwards
                self._report(OF_THE_RULE + name, value.detach().clone())
            else:
                self.tallies.setdefault(OF_THE_RULE + name, Tally()).add(float(value))

    def _report(self, name: str, value: "Tensor") -> None:
        self._reported.setdefault(name, []).append(value)

    def read_updates(self) -> tuple[list[float], list[float]]:
        """Add the kept values to the means, in order; returns the new losses and mean values.

        Means over a batch are taken here, for all updates at once.
        """
        import torch  # not needed for reading logs

        found = {
            name: torch.stack(tensors).view(len(tensors), -1).mean(dim=1).tolist()
            for name, tensors in self._reported.items()
        }
        self._reported = {}
        for name, values in found.items():
            tally = self.tallies.setdefault(name, Tally())
            for value in values:
                tally.add(value)
        return found.get("loss", []), found.get("mean_value", [])

    def summary(self) -> dict[str, Any]:
        means: dict[str, Any] = {f"train/{name}": self.tallies[name].mean for name in self.NAMES}
        means |= {name: self.tallies[name].mean for name in sorted({*self.tallies} - {*self.NAMES})}
        means["train/episodes"] = self.tallies["episode_return"].count
        means["train/syncs"] = self.tallies["sync_distance"].count
        return means


class RunLogger:
    """Appends lines to the files of a run folder; its state is their lengths and digests.

    A new run loads `NO_LINES`, which removes the lines of a process that was killed before its
    first checkpoint.
    """

    def __init__(self, folder: Path, config: RunConfig, step: int = 0) -> None:
        self._metrics, self._episodes = LineFile(folder / METRICS), LineFile(folder / EPISODES)
        self._speed = LineFile(folder / SPEED)
        self._board = TensorBoard(folder, config, step)
        self._wandb = _wandb_run(folder, config)
        self._clock = (time.perf_counter(), step)

    def interval(self, line: dict[str, Any], now: dict[str, float] | None = None) -> None:
        """A line of metrics.jsonl; `now`: further values for TensorBoard."""
        step = line["step"]
        self._metrics.append(line)
        if self._wandb is not None:
            self._wandb.log(line, step=step)
        speed = self._log_speed(step)
        self._board.add({**line, **(now or {}), "time/steps_per_second": speed}, step)
        self._board.flush()

    def episode(self, line: dict[str, Any]) -> None:
        self._episodes.append(line)
        values = {f"episode/{name}": line.get(name) for name in ("return", "length")}
        self._board.add(values, line["step"])

    @property
    def update_period(self) -> int:
        """Updates between two that are logged singly; 0: none."""
        return self._board.update_period

    def update(self, step: int, values: dict[str, float]) -> None:
        """Values of one update, for TensorBoard only."""
        self._board.add({f"update/{name}": value for name, value in values.items()}, step)

    def _log_speed(self, step: int) -> float:
        """Log the steps per second since the last call, and the time."""
        now, (then, before) = time.perf_counter(), self._clock
        self._clock = (now, step)
        rate = (step - before) / (now - then) if now > then else 0.0
        self._speed.append({"step": step, "steps_per_second": rate, "unix_time": time.time()})
        return rate

    def state(self) -> State:
        return {
            "metrics": self._metrics.length,
            "episodes": self._episodes.length,
            "metrics_sha256": self._metrics.sha256,
            "episodes_sha256": self._episodes.sha256,
        }

    def load(self, state: State) -> None:
        self._metrics.cut(state["metrics"])
        self._episodes.cut(state["episodes"])

    def sync(self) -> None:
        """Flush the lines to disk before a checkpoint refers to them."""
        self._metrics.sync()
        self._episodes.sync()

    def close(self) -> None:
        for file in (self._metrics, self._episodes, self._speed):
            file.close()
        self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def require_wandb(config: LoggingConfig) -> None:
    """Raise a `UserError` if Weights & Biases is configured but not installed."""
    if config.wandb is not None and importlib.util.find_spec("wandb") is None:
        raise UserError("logging.wandb needs Weights & Biases: pip install 'proxrl[wandb]'")


def _wandb_run(folder: Path, config: RunConfig) -> Any:
    if config.logging.wandb is None:
        return None
    wandb = importlib.import_module("wandb")
    place = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]  # names may repeat
    return wandb.init(
        project=config.logging.wandb,
        name=folder.name,
        id=f"{folder.name}-{place}",
        resume="allow",
        dir=str(folder),
        config=to_json(config),
    )
