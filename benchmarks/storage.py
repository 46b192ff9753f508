"""Checkpoint time with a full Atari replay, bytes per million transitions, time of --help.

python -m benchmarks.storage
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.command_line import parser
from proxrl import presets
from proxrl.replay import ReplayLog
from proxrl.runs.folder import RunFolder
from proxrl.training.loop import Trainer
from proxrl.training.resources import available_cores
from proxrl.types import End, ObservationSpec


def checkpoint_pause(repeats: int = 7) -> None:
    """A run with a full replay of 200,000 transitions, 500 new steps between two checkpoints."""
    config = presets.make(
        "dqn-pro",
        "ALE/Breakout-v5",
        {"logging.tensorboard": False, "threads": available_cores()},
    )
    with tempfile.TemporaryDirectory(prefix="proxrl-bench-") as place:
        folder = RunFolder(place)
        folder.write_config(config)
        run = Trainer(config, folder)
        generator = np.random.default_rng(0)
        picture = generator.integers(0, 255, (84, 84), dtype=np.uint8)
        while run.log.steps < config.replay.capacity:
            run.log.add(0, 0.0, End.NO, picture)
            if run.log.full:
                run.log.protect(run.log.state())
        run.save()
        run.checkpointer.wait()
        pauses, totals = [], []
        for _ in range(repeats):
            for _ in range(500):
                run.advance()
            run._log_states = [run.log.state()]
            start = time.perf_counter()
            run.save()
            pauses.append(time.perf_counter() - start)
            run.checkpointer.wait()
            totals.append(time.perf_counter() - start)
        run.close()
    print(
        f"checkpoint with 200,000 Atari transitions: pause {median(pauses) * 1e3:.0f} ms "
        f"(worst {max(pauses) * 1e3:.0f}), durable after {median(totals) * 1e3:.0f} ms "
        f"(worst {max(totals) * 1e3:.0f}), {repeats} times"
    )


def replay_size() -> None:
    spec = ObservationSpec((84, 84), "uint8", 4, high=255.0)
    with tempfile.TemporaryDirectory(prefix="proxrl-bench-") as place:
        ReplayLog(Path(place), spec, 1_000_000, checkpoint_steps=5_000).close()
        size = sum(path.stat().st_blocks * 512 for path in Path(place).iterdir())
    print(f"1,000,000 Atari transitions: {size / 1e9:.3f} GB allocated on disk, frames once")


def help_time(repeats: int = 11) -> None:
    def once() -> float:
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "proxrl", "--help"], check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - start

    print(f"proxrl --help: {median(once() for _ in range(repeats)):.2f} s")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    return parser(__file__, __doc__).parse_args(argv)


if __name__ == "__main__":
    arguments()
    help_time()
    replay_size()
    checkpoint_pause()
