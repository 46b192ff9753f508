"""The cost of Rainbow, compared with our DQN, with Atari's network and batch.

    python -m benchmarks.rainbow --rounds 10

Three results: the time of prioritised replay, sample plus update with a million transitions; agent
steps per second, Rainbow / DQN, from runs that alternate within one process (replay of 50,000; the
first result has the priorities of a million); and the share of prioritised replay in an update.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.command_line import count, parser
from benchmarks.peers import warm_run
from proxrl.replay import Gather, PrioritisedReplay, Replay, ReplayLog, UniformReplay
from proxrl.training.loop import Trainer
from proxrl.training.resources import available_cores
from proxrl.types import End, ObservationSpec

STEPS = 200  # of each agent per round
LEAVES, BATCH = 1_000_000, 64


def seconds_for(run: Trainer, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        run.advance()
        if run.checkpoint_is_due:
            run.save()
    return time.perf_counter() - start


def steps_ratio(runs: dict[str, Trainer], rounds: int) -> None:
    ratios, names = [], list(runs)
    for number in range(rounds):
        order = names if number % 2 else names[::-1]  # neither is always first
        times = {name: seconds_for(runs[name], STEPS) for name in order}
        ratios.append(times["dqn"] / times["rainbow"])
    print(
        f"agent steps/s, Rainbow / DQN = {median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}, {rounds} rounds of {STEPS} steps)"
    )


def replay_milliseconds(place: Path, repeats: int = 1_000) -> tuple[float, float]:
    """Sample plus update with a million transitions, 4 new ones in between: prioritised, uniform.

    Observations are small, so that the sampling is timed and not the gathering of images.
    """
    spec = ObservationSpec((4,), "float32")
    log = ReplayLog(place, spec, LEAVES, checkpoint_steps=5_000)
    observation = np.zeros(4, np.float32)

    def play(steps: int) -> None:
        for _ in range(steps):
            ends = log.steps % 200 == 199
            log.add(0, 0.0, End.TERMINATED if ends else End.NO, observation)
            if ends:
                log.begin(observation)
        log.protect(log.state())

    log.begin(observation)
    for _ in range(LEAVES // 1_000 + 1):
        play(1_000)
    gather = Gather(log, BATCH, 3, 0.99, torch.device("cpu"))
    replays: list[Replay] = [
        PrioritisedReplay(gather, np.random.default_rng(0), 0.5, 0.5),
        UniformReplay(gather, np.random.default_rng(0)),
    ]
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        play(4)
        priorities = torch.rand(BATCH)
        for replay, taken in zip(replays, times, strict=True):
            start = time.perf_counter()
            replay.update(replay.sample().indices, priorities)
            taken.append(time.perf_counter() - start)
    return median(times[0]) * 1e3, median(times[1]) * 1e3


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("--rounds", type=count, default=10, help="of both agents (10)")
    return accepted.parse_args(argv)


def main(rounds: int) -> None:
    torch.set_num_threads(available_cores())
    with tempfile.TemporaryDirectory(prefix="proxrl-bench-") as place:
        prioritised, uniform = replay_milliseconds(Path(place))
    print(
        f"{LEAVES:,} transitions, batch {BATCH}: sample plus update {prioritised:.3f} ms "
        f"(aim 0.5), {prioritised - uniform:.3f} more than uniform"
    )
    runs = {agent: warm_run(agent, "atari", available_cores()) for agent in ("dqn", "rainbow")}
    steps_ratio(runs, rounds)
    learner, replay = runs["rainbow"].learner, runs["rainbow"].replay
    updates = []
    for _ in range(40):
        batch = replay.sample()
        start = time.perf_counter()
        learner.update(batch)
        updates.append(time.perf_counter() - start)
    share = prioritised / (median(updates) * 1e3 + prioritised)
    print(f"prioritised replay takes {share:.1%} of an update (aim: at most 5%)")


if __name__ == "__main__":
    main(arguments().rounds)
