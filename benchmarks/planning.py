"""Speed of planning: the whole of Figure 1, and one PMPI iteration by the size of the MDP.

    OMP_NUM_THREADS=1 python -m benchmarks.planning

Both results are ratios: the time of Figure 1 to its limit of 5 s, and the time of an iteration per
non-zero transition at 100,000 states to that at 10,000 (1 is exactly proportional; slightly more is
due to cache misses).
"""

import argparse
import statistics
import time
from collections.abc import Sequence

from benchmarks.command_line import parser
from proxrl.planning.figure import figure1
from proxrl.planning.mdp import from_gymnasium, garnet
from proxrl.planning.pmpi import Noise, iterate

FIGURE_LIMIT_SECONDS = 5.0
SIZES = (10_000, 100_000)
ROUNDS = 5  # alternating, so that other load affects both sizes


def figure_seconds() -> float:
    mdp = from_gymnasium("FrozenLake8x8-v1", discount=0.99)
    started = time.perf_counter()
    figure1(mdp)
    return time.perf_counter() - started


def nanoseconds_per_nonzero(n: int, iterations: int = 10) -> dict[int, float]:
    """Time of one PMPI iteration, including noise: the minimum over rounds for each size."""
    mdps = {states: garnet(states, 4, 5, as_sparse=True) for states in SIZES}
    times: dict[int, list[float]] = {states: [] for states in SIZES}
    for _ in range(ROUNDS):
        for states, mdp in mdps.items():
            started = time.perf_counter()
            iterate(mdp, iterations=iterations, n=n, beta=0.3, noise=Noise(0.1))
            seconds = (time.perf_counter() - started) / iterations
            times[states].append(1e9 * seconds / mdp.nonzeros)
    return {states: min(measured) for states, measured in times.items()}


def main() -> None:
    seconds = statistics.median(figure_seconds() for _ in range(3))
    share = seconds / FIGURE_LIMIT_SECONDS
    print(
        f"Figure 1, 2 panels x 6 levels x 41 betas x 30 seeds: {seconds:.2f} s ({share:.0%} of 5 s)"
    )
    small, large = SIZES
    for n in (1, 3):
        cost = nanoseconds_per_nonzero(n)
        print(
            f"PMPI iteration, n = {n}: {cost[small]:.1f} ns per non-zero at {small:,} states, "
            f"{cost[large]:.1f} at {large:,}: ratio {cost[large] / cost[small]:.2f}"
        )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    return parser(__file__, __doc__).parse_args(argv)


if __name__ == "__main__":
    arguments()
    main()
