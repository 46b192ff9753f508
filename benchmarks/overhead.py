"""What the pull costs: time per update, DQN Pro over DQN and Rainbow Pro over Rainbow, on Atari
and on MinAtar.

    python -m benchmarks.overhead [blocks]

Blocks of updates alternate between the two within one process; the ratio is of neighbouring blocks.
"""

import sys
import time

import numpy as np
import torch

from benchmarks.machine import example_learner
from proxrl import presets
from proxrl.agents.learner import Learner
from proxrl.training.resources import available_cores
from proxrl.types import Batch

UPDATES = 10  # per block


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    for env, threads in (("ALE/Breakout-v5", available_cores()), ("MinAtar/Breakout-v1", 1)):
        torch.set_num_threads(threads)
        for agent in ("dqn", "rainbow"):
            compare(agent, env, blocks)


def compare(base: str, env: str, blocks: int) -> None:
    learners = []
    for agent in (base, f"{base}-pro"):
        learner, batch = example_learner(presets.make(agent, env))
        learners.append(learner)
    for learner in learners:
        block(learner, batch)
    ratios = []
    for number in range(blocks):
        first = number % 2  # neither is always first
        times = [0.0, 0.0]
        for which in (first, 1 - first):
            times[which] = block(learners[which], batch)
        ratios.append(times[1] / times[0])
    generator = np.random.default_rng(0)
    medians = np.median(generator.choice(ratios, (2000, blocks)), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    print(
        f"time per update on {env}, {base}-pro / {base} = {np.median(ratios):.3f} "
        f"(95% interval of the median {low:.3f} to {high:.3f}, {blocks} pairs of {UPDATES} updates)"
    )


def block(learner: Learner, batch: Batch) -> float:
    start = time.perf_counter()
    for _ in range(UPDATES):
        learner.update(batch)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
