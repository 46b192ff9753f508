"""What the pull costs: time per update, DQN Pro over DQN and Rainbow Pro over Rainbow, on Atari.

    python -m benchmarks.overhead [blocks]

Blocks of updates alternate between the two within one process; the ratio is of neighbouring blocks.
"""

import sys
import time

import numpy as np
import torch

from proxrl import presets
from proxrl.agents.learner import Learner
from proxrl.agents.networks import build_network
from proxrl.training.resources import available_cores
from proxrl.types import Batch, ObservationSpec

UPDATES = 10  # per block


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    torch.set_num_threads(available_cores())
    for agent in ("dqn", "rainbow"):
        compare(agent, blocks)


def compare(base: str, blocks: int) -> None:
    spec = ObservationSpec((84, 84), "uint8", 4, high=255.0)
    cpu = torch.device("cpu")
    learners = []
    for agent in (base, f"{base}-pro"):
        config = presets.make(agent, "ALE/Breakout-v5")
        network = build_network(spec, 4, config.network, 0, config.head)
        learners.append(Learner(network, config, cpu))
    batch = Batch(
        states=torch.randint(0, 255, (64, 4, 84, 84), dtype=torch.uint8),
        actions=torch.randint(0, 4, (64,)),
        returns=torch.randn(64),
        discounts=torch.full((64,), 0.99),
        next_states=torch.randint(0, 255, (64, 4, 84, 84), dtype=torch.uint8),
        indices=np.arange(64),
    )
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
        f"time per update, {base}-pro / {base} = {np.median(ratios):.3f} "
        f"(95% interval of the median {low:.3f} to {high:.3f}, {blocks} pairs of {UPDATES} updates)"
    )


def block(learner: Learner, batch: Batch) -> float:
    start = time.perf_counter()
    for _ in range(UPDATES):
        learner.update(batch)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
