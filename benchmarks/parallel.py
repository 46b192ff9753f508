"""Throughput of two runs side by side, one thread each, against one alone.

    python -m benchmarks.parallel --rounds 5 --steps 40_000

The runs are those of a study (DQN on MinAtar Breakout), started as its executor starts them. What
counts is the rate between a run's first and last line of speed.jsonl: evaluations are in it, start
and warm-up are not. Alone and together alternate. Aim: a ratio of 1.95 on 2 idle cores (at least
1.85).
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.command_line import count, parser
from proxrl import presets
from proxrl.runs.folder import SPEED
from proxrl.runs.lines import read_lines
from proxrl.studies.board import Board
from proxrl.studies.conduct import conduct
from proxrl.studies.expand import Job
from proxrl.studies.local import Local
from proxrl.training.resources import available_cores

ENV = "MinAtar/Breakout-v1"


def steps_per_second(runs: int, steps: int, folder: Path) -> float:
    """Of all runs together, over the time in which all of them trained."""
    settings = {
        "steps": steps,
        "threads": 1,
        "device": "cpu",
        "evaluation.period_steps": max(1, steps // 20),
        "logging.tensorboard": False,
    }
    jobs = [
        Job(
            "dqn",
            "Breakout",
            seed,
            presets.make("dqn", ENV, settings, seed=seed),
            folder / f"{seed}",
        )
        for seed in range(runs)
    ]
    board = Board(jobs)
    conduct(board, Local(cores=runs, max_jobs=runs), lambda *_: None)
    failed = [entry.reason for entry in board.of("failed")]
    if failed:
        raise SystemExit(failed[0])
    seen = [read_lines(job.folder / SPEED) for job in jobs]
    begin = max(lines[0]["unix_time"] for lines in seen)
    end = min(lines[-1]["unix_time"] for lines in seen)
    return sum(_steps_at(lines, end) - _steps_at(lines, begin) for lines in seen) / (end - begin)


def _steps_at(lines: list[dict[str, Any]], moment: float) -> float:
    times, steps = ([line[key] for line in lines] for key in ("unix_time", "step"))
    return float(np.interp(moment, times, steps))


def main(rounds: int, steps: int) -> None:
    if available_cores() < 2:
        raise SystemExit("this benchmark needs 2 cores")
    ratios = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            alone = steps_per_second(1, steps, Path(folder) / "alone")
            together = steps_per_second(2, steps, Path(folder) / "together")
        ratios.append(together / alone)
        print(
            f"round {number + 1}: alone {alone:,.0f} steps/s, two together {together:,.0f}: "
            f"ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(
        f"two runs of one thread each / one alone = {median(ratios):.2f} "
        f"(lowest {min(ratios):.2f}, highest {max(ratios):.2f}, {rounds} rounds; aim 1.95)"
    )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("--rounds", type=count, default=5, help="alone and together (5)")
    accepted.add_argument("--steps", type=count, default=40_000, help="of each run (40_000)")
    return accepted.parse_args(argv)


if __name__ == "__main__":
    options = arguments()
    main(options.rounds, options.steps)
