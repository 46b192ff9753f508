"""Throughput of two runs side by side, one thread each, against one alone.

    python -m benchmarks.parallel [rounds] [steps]

The runs are those of a study (DQN on MinAtar Breakout), started as its executor starts them. What
counts is the rate between a run's first and last line of speed.jsonl: evaluations are in it, start
and warm-up are not. Alone and together alternate. Aim: a ratio of 1.95 on 2 idle cores (at least
1.85).
"""

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

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


if __name__ == "__main__":
    numbers = [int(word.replace("_", "")) for word in sys.argv[1:]]
    main(*(numbers + [5, 40_000][len(numbers) :]))
