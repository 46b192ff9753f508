"""Agent steps per second against Stable-Baselines3 and against the matrix-multiply limit.

    python -m benchmarks.throughput                                # Atari, MinAtar, CartPole
    python -m benchmarks.throughput minatar --rounds 3
    python -m benchmarks.throughput atari --network nature-same

Each measurement is a process of its own; the two libraries alternate. Each library runs with the
number of threads, 1 or 2, that suits it best: a round before the first decides. The share of the
limit is that of proxrl with these threads. With `--network` only the share of the limit is
measured, on that network and with all cores: Stable-Baselines3 has no SAME padding.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

from benchmarks.command_line import count, parser
from benchmarks.machine import steps_per_second_limit
from benchmarks.peers import ENVS, NETWORKS
from proxrl import presets
from proxrl.training.resources import available_cores

Result = dict[str, float]


def measure(peer: str, suite: str, threads: int, *options: str) -> tuple[Result, str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", peer, suite, f"--threads={threads}", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    line, _, rest = done.stdout.partition("\n")
    return json.loads(line), rest


def best_threads(peer: str, suite: str) -> int:
    rates = {
        threads: measure(peer, suite, threads)[0]["steps_per_second"]
        for threads in range(1, min(2, available_cores()) + 1)
    }
    print(f"{suite}: {peer} with {rates} threads: steps/s", flush=True)
    return max(rates, key=lambda threads: rates[threads])


def compare(suite: str, rounds: int) -> None:
    threads = {peer: best_threads(peer, suite) for peer in ("proxrl", "sb3")}
    results: dict[str, list[Result]] = {"proxrl": [], "sb3": []}
    for number in range(rounds):
        for peer, seen in results.items():
            seen.append(measure(peer, suite, threads[peer])[0])
            print(
                f"{suite} round {number + 1}: {peer:<7}{seen[-1]['steps_per_second']:8.1f} steps/s "
                f"({threads[peer]} threads, {seen[-1]['matmul_gflops']:.0f} GFLOP/s)",
                flush=True,
            )
    pairs = zip(results["proxrl"], results["sb3"], strict=True)
    ratios = sorted(ours["steps_per_second"] / its["steps_per_second"] for ours, its in pairs)
    print(
        f"{suite}: proxrl / Stable-Baselines3 = {median(ratios):.2f} "
        f"(lowest {ratios[0]:.2f}, highest {ratios[-1]:.2f}, {rounds} pairs)"
    )
    report_share(suite, results["proxrl"], NETWORKS[suite])
    for peer in results:
        profile = measure(peer, suite, threads[peer], "--profile")[1]
        print(f"\nprofile of {peer} on {suite}:\n{profile.strip()}")


def measure_share(suite: str, network: str, rounds: int) -> None:
    """The share of the limit alone, on any network."""
    threads = available_cores()  # as the presets
    results = []
    for number in range(rounds):
        results.append(measure("proxrl", suite, threads, "--network", network)[0])
        print(
            f"{suite} round {number + 1}: {network} {results[-1]['steps_per_second']:.1f} steps/s "
            f"({threads} threads, {results[-1]['matmul_gflops']:.0f} GFLOP/s)",
            flush=True,
        )
    report_share(suite, results, network)


def report_share(suite: str, results: list[Result], network: str) -> None:
    config = presets.make("dqn-pro", ENVS[suite], {"network.kind": network})
    shares = sorted(
        one["steps_per_second"] / steps_per_second_limit(one["matmul_gflops"], config)
        for one in results
    )
    gflops = median(one["matmul_gflops"] for one in results)
    limit = steps_per_second_limit(gflops, config)
    print(
        f"{suite}: {median(shares):.0%} ({shares[0]:.0%} to {shares[-1]:.0%}) of the {limit:,.0f} "
        f"steps/s that {gflops:.0f} GFLOP/s allow on network {network}"
    )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("suite", nargs="?", choices=list(ENVS), help="all of them")
    accepted.add_argument("--rounds", type=count, default=5, help="of both libraries (5)")
    accepted.add_argument("--network", help="a kind of network, such as nature-same")
    return accepted.parse_args(argv)


def main(suites: Sequence[str], rounds: int, network: str | None) -> None:
    for suite in suites:
        if network is None:
            compare(suite, rounds)
        else:
            measure_share(suite, network, rounds)


if __name__ == "__main__":
    options = arguments()
    main([options.suite] if options.suite else list(ENVS), options.rounds, options.network)
