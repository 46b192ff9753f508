"""A whole run by this version and by another checkout of proxrl, alternating: wall-clock ratio.

    python -m benchmarks.before_after OTHER_CHECKOUT --rounds 3 --steps 50_000

The run is DQN on MinAtar Freeway with the preset's evaluations, whose episodes are long there.
Start-up is part of it. Both versions need the same environment of Python packages.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.command_line import count, parser

HERE = Path(__file__).parent.parent


def seconds(checkout: Path, steps: int, folder: str) -> float:
    command = ["train", "dqn", "--env", "MinAtar/Freeway-v1", "--steps", str(steps)]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "proxrl", *command, "--folder", folder],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return time.perf_counter() - start


def main(other: Path, rounds: int, steps: int) -> None:
    if not (other / "src" / "proxrl").is_dir():
        raise SystemExit(f"{other} is not a checkout of proxrl: it has no src/proxrl")
    ratios = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            before = seconds(other, steps, f"{folder}/before")
            after = seconds(HERE, steps, f"{folder}/after")
        ratios.append(before / after)
        print(
            f"round {number + 1}: before {before:.1f} s, after {after:.1f} s: {ratios[-1]:.2f}",
            flush=True,
        )
    print(
        f"MinAtar Freeway, {steps:,} steps, before / after = {median(ratios):.2f} "
        f"(lowest {min(ratios):.2f}, highest {max(ratios):.2f}, {rounds} rounds)"
    )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("checkout", type=Path, help="the other version")
    accepted.add_argument("--rounds", type=count, default=3, help="pairs of runs (3)")
    accepted.add_argument("--steps", type=count, default=50_000, help="of each run (50_000)")
    return accepted.parse_args(argv)


if __name__ == "__main__":
    options = arguments()
    main(options.checkout.resolve(), options.rounds, options.steps)
