"""A training process that dies on demand: `python -m tests.end_to_end.victim NAME FOLDER ...`.

    write N       SIGKILL in the middle of writing the Nth checkpoint of this process
    rename N      SIGKILL after the Nth checkpoint is written, before it is renamed
    evaluate N    SIGKILL in the middle of the Nth evaluation
    interrupt N   SIGINT in the middle of the Nth evaluation
    advance N     SIGKILL before the Nth agent step
    fill N FILE   fill the disk with FILE before the Nth agent step
    finish        train to the end

The faults are patched in; the training code does not know about them.
"""

import builtins
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxrl import cli, presets
from proxrl.config import RunConfig
from proxrl.runs import checkpoint
from proxrl.training import loop
from proxrl.training import run as running

SMALL = {
    "replay.capacity": 300,
    "replay.warmup_steps": 100,
    "replay.batch_size": 8,
    "learner.update_period_steps": 2,
    "target.period": 200,
    "exploration.decay_steps": 500,
    "evaluation.period_steps": 600,
    "evaluation.episodes": 2,
    "evaluation.training_period_steps": 250,
    "checkpoint.period_steps": 150,
    "checkpoint.keep_replay": True,
    "logging.tensorboard": False,
    "protocol.max_episode_steps": 80,
    "threads": 1,
}
SCENARIOS: dict[str, RunConfig] = {
    "cartpole": presets.make(
        "dqn-pro",
        "CartPole-v1",
        {**SMALL, "steps": 2400, "replay.n_step": 3, "replay.batch_size": 32},
    ),
    "minatar": presets.make(
        "dqn-pro", "MinAtar/Breakout-v1", {**SMALL, "steps": 2400, "replay.batch_size": 32}
    ),
    "atari": presets.make(
        "dqn-pro",
        "ALE/Breakout-v5",
        {
            **SMALL,
            "steps": 2400,
            "network.hidden": (32,),
            "replay.batch_size": 4,
            "learner.update_period_steps": 4,
            "protocol.life_loss_terminal": True,
        },
    ),
    "adaptive": presets.make(
        "dqn",
        "CartPole-v1",
        {
            **SMALL,
            "steps": 2400,
            "proximal.rule": "adaptive-layers",
            "proximal.adaptive.warmup_updates": 150,
        },
    ),
    "accelerated": presets.make(
        "dqn-pro", "CartPole-v1", {**SMALL, "steps": 2400, "proximal.rule": "accelerated"}
    ),
    "metric": presets.make(
        "dqn-pro", "CartPole-v1", {**SMALL, "steps": 2400, "proximal.rule": "metric"}
    ),
    "rainbow": presets.make("rainbow-pro", "MinAtar/Breakout-v1", {**SMALL, "steps": 2400}),
    "rainbow-full": presets.make(
        "rainbow-full-pro", "CartPole-v1", {**SMALL, "steps": 2400, "network.hidden": (32,)}
    ),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def nth(number: int, action: Callable[[], None], original: Any) -> Any:
    """Call `action` before call number `number` of `original`."""
    calls = 0

    def patched(*arguments: Any, **words: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            action()
        return original(*arguments, **words)

    return patched


class DyingFile:
    """A file that writes only half of the data."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> "DyingFile":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        self._file.flush()
        die()


def arm(fault: list[str]) -> None:
    kind, number = fault[0], int(fault[1]) if len(fault) > 1 else 0
    if kind == "write":
        opened = 0

        def dying_open(path: Any, mode: str, **words: Any) -> Any:
            nonlocal opened
            opened += 1
            file = builtins.open(path, mode, **words)  # noqa: SIM115
            return DyingFile(file) if opened == number else file

        checkpoint.open = dying_open  # type: ignore[attr-defined]
    elif kind == "rename":
        checkpoint.os.replace = nth(number, die, os.replace)  # type: ignore[attr-defined]
    elif kind in ("evaluate", "interrupt"):
        original, calls = loop.evaluate, 0

        def dying_evaluate(*arguments: Any, **words: Any) -> Any:
            nonlocal calls
            calls += 1
            polls = 0

            def stop() -> bool:
                nonlocal polls
                polls += 1
                if calls == number and polls == 5:
                    os.kill(os.getpid(), signal.SIGKILL if kind == "evaluate" else signal.SIGINT)
                return bool(words["stop"]())

            return original(*arguments, **{**words, "stop": stop})

        loop.evaluate = dying_evaluate
    elif kind == "advance":
        loop.Trainer.advance = nth(number, die, loop.Trainer.advance)  # type: ignore[method-assign]
    elif kind == "fill":

        def fill() -> None:
            with builtins.open(fault[2], "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass

        loop.Trainer.advance = nth(number, fill, loop.Trainer.advance)  # type: ignore[method-assign]


def live(name: str, folder: Path, fault: list[str]) -> None:
    arm(fault)
    if (folder / "config.json").exists():
        running.resume(folder)
    else:
        running.train(SCENARIOS[name], folder)


if __name__ == "__main__":
    name, place, *its_fault = sys.argv[1:]
    cli.COMMANDS["live"] = lambda _: lambda: live(name, Path(place), its_fault)
    cli.main(["live"])
