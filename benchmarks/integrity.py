"""Cost of the replay's checksums: per training step, and when 200,000 transitions are resumed.

python -m benchmarks.integrity
"""

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.command_line import parser
from proxrl import presets
from proxrl.replay.log import problem_of
from proxrl.runs.checkpoint import checkpoint_path, read
from proxrl.runs.folder import RunFolder
from proxrl.training.loop import Trainer
from proxrl.training.resources import available_cores
from proxrl.types import End

NEW_STEPS = 100
REPEATS = 3


def main() -> None:
    config = presets.make(
        "dqn-pro", "ALE/Breakout-v5", {"logging.tensorboard": False, "threads": available_cores()}
    )
    with tempfile.TemporaryDirectory(prefix="proxrl-bench-") as place:
        folder = RunFolder(place)
        folder.write_config(config)
        run = Trainer(config, folder)
        pictures = np.random.default_rng(0).integers(0, 255, (64, 84, 84), dtype=np.uint8)
        while run.log.steps < config.replay.capacity:
            run.log.add(0, 0.0, End.NO, pictures[run.log.steps % 64])
            if run.log.full:
                run.log.protect(run.log.state())
        run.log.checksums(run.log.state())  # as at the checkpoints until now
        shares, pauses = [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            for _ in range(NEW_STEPS):
                run.advance()
            training = time.perf_counter() - start
            start = time.perf_counter()
            run.log.checksums(run.log.state())
            pauses.append(time.perf_counter() - start)
            shares.append(pauses[-1] / training)
        run.save()
        run.close()
        state = read(checkpoint_path(folder.checkpoints, run.step))
        spec = run.episodes.environment.observation
        rings = (spec, config.replay.capacity, config.checkpoint.period_steps)
        del run  # unmaps the replay
        gc.collect()
        seconds = []
        for forget in (False, True):
            if forget:
                _drop_from_cache(folder.log(0))
            start = time.perf_counter()
            wrong = problem_of(folder.log(0), *rings, state["log"], state["checksums"])
            seconds.append(time.perf_counter() - start)
            assert not wrong, wrong
    print(
        f"checksums of {NEW_STEPS} new Atari steps: {median(pauses) * 1e3:.1f} ms, "
        f"{median(shares):.3%} of training them (worst {max(shares):.3%}, {REPEATS} times)\n"
        f"a replay of {config.replay.capacity:,} Atari transitions verified in {seconds[0]:.1f} s, "
        f"read from the disk in {seconds[1]:.1f} s"
    )


def _drop_from_cache(folder: Path) -> None:
    """Have the system forget the files' pages (if nobody has mapped them)."""
    for path in folder.iterdir():
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    return parser(__file__, __doc__).parse_args(argv)


if __name__ == "__main__":
    arguments()
    main()
