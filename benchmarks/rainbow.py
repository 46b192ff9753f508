"""What Rainbow costs on Atari's network and batch, against our own DQN.

    python -m benchmarks.rainbow [rounds]

Three figures: agent steps a second, Rainbow over DQN, from runs that alternate within one process;
prioritised replay's own time, drawing and setting 64 of a million priorities; and its share of an
update.
"""

import sys
import time
from statistics import median

import numpy as np
import torch

from benchmarks.peers import warm_run
from proxrl.replay.sumtree import SumTree
from proxrl.training.loop import Run
from proxrl.training.machine import available_cores

STEPS = 200  # of each agent per round
LEAVES, BATCH = 1_000_000, 64


def seconds_for(run: Run, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        run.advance()
        if run.checkpoint_is_due:
            run.save()
    return time.perf_counter() - start


def steps_ratio(runs: dict[str, Run], rounds: int) -> None:
    ratios, names = [], list(runs)
    for number in range(rounds):
        order = names if number % 2 else names[::-1]  # neither is always first
        times = {name: seconds_for(runs[name], STEPS) for name in order}
        ratios.append(times["dqn"] / times["rainbow"])
    print(
        f"agent steps/s, Rainbow / DQN = {median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}, {rounds} rounds of {STEPS} steps)"
    )


def tree_milliseconds(repeats: int = 2_000) -> float:
    tree, generator = SumTree(LEAVES), np.random.default_rng(0)
    tree.load(generator.random(LEAVES))
    priorities = generator.random((repeats, BATCH))
    times = []
    for row in priorities:
        start = time.perf_counter()
        tree.set(tree.draw(BATCH, generator), row)
        times.append(time.perf_counter() - start)
    return median(times) * 1e3


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.set_num_threads(available_cores())
    tree = tree_milliseconds()
    print(f"sum tree of {LEAVES:,} leaves: draw {BATCH} and set {BATCH}: {tree:.3f} ms (limit 0.5)")
    runs = {agent: warm_run(agent, "atari", available_cores()) for agent in ("dqn", "rainbow")}
    steps_ratio(runs, rounds)
    learner, replay = runs["rainbow"].learner, runs["rainbow"].replay
    updates = []
    for _ in range(40):
        batch = replay.sample()
        start = time.perf_counter()
        learner.update(batch)
        updates.append(time.perf_counter() - start)
    share = tree / (median(updates) * 1e3 + tree)
    print(f"prioritised replay takes {share:.1%} of an update (limit 5%)")


if __name__ == "__main__":
    main()
