"""Agent steps per second against Stable-Baselines3 and against the matrix-multiply limit.

    python -m benchmarks.throughput [atari|minatar] [rounds]

Each measurement is a process of its own; the two libraries alternate.
"""

import json
import subprocess
import sys
from statistics import median

from benchmarks.machine import steps_per_second_limit


def measure(peer: str, suite: str, *options: str) -> tuple[dict[str, float], str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", peer, suite, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    line, _, rest = done.stdout.partition("\n")
    return json.loads(line), rest


def compare(suite: str, rounds: int) -> None:
    rates: dict[str, list[float]] = {"proxrl": [], "sb3": []}
    gflops = []
    for number in range(rounds):
        for peer in rates:
            result, _ = measure(peer, suite)
            rates[peer].append(result["steps_per_second"])
            gflops.append(result["matmul_gflops"])
            print(
                f"{suite} round {number + 1}: {peer:<7}{result['steps_per_second']:8.1f} steps/s "
                f"({result['threads']} threads, {result['matmul_gflops']:.0f} GFLOP/s)",
                flush=True,
            )
    ratios = sorted(ours / theirs for ours, theirs in zip(*rates.values(), strict=True))
    print(
        f"{suite}: proxrl / Stable-Baselines3 = {median(ratios):.2f} "
        f"(lowest {ratios[0]:.2f}, highest {ratios[-1]:.2f}, {rounds} pairs)"
    )
    if suite == "atari":
        limit, padded = (
            steps_per_second_limit(median(gflops), network) for network in ("nature", "nature-same")
        )
        print(
            f"atari: {median(rates['proxrl']):.0f} of at most {limit:.0f} steps/s that "
            f"{median(gflops):.0f} GFLOP/s allow on network nature, which both have here: "
            f"{median(rates['proxrl']) / limit:.0%}; on the presets' nature-same they allow "
            f"{padded:.0f} steps/s"
        )
    for peer in rates:
        print(f"\nprofile of {peer} on {suite}:\n{measure(peer, suite, '--profile')[1].strip()}")


if __name__ == "__main__":
    chosen = [name for name in ("atari", "minatar") if name in sys.argv] or ["atari", "minatar"]
    times = next((int(word) for word in sys.argv[1:] if word.isdigit()), 5)
    for each in chosen:
        compare(each, times)
