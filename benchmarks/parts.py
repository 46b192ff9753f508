"""Where the time of a training step goes, part by part, and how much of it is arithmetic.

    python -m benchmarks.parts minatar --steps 12_000 --threads 1
    python -m benchmarks.parts atari --network nature-same

Timers around the parts of a run that is past its warm-up; a part does not include the parts listed
below it. The timers themselves add about 1 µs per call. Arithmetic is the time that the part's
matrix products and convolutions would take at the speed of a large product.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.flop_counter import FlopCounterMode

from benchmarks.command_line import count, parser
from benchmarks.machine import matmul_gflops
from benchmarks.peers import ENVS, NETWORKS, TIMED, warm_run
from proxrl.training import loop
from proxrl.training.loop import Trainer

PARTS = (
    "target network, TD targets",
    "online network, forward",
    "loss and its gradient",
    "online network, backward",
    "pull",
    "Adam",
    "sync",
    "other parts of an update",
    "sampling",
    "acting",
    "environment steps",
    "log",
    "other parts of a step",
)


class Clock:
    """Seconds and FLOPs by part; time in a part within another counts for the inner one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.flops: defaultdict[str, int] = defaultdict(int)
        self.counts_flops = False
        self._inner = [0.0]

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **words: Any) -> Any:
            self._inner.append(0.0)
            start = time.perf_counter()
            result = self._call(part, function, arguments, words)
            spent = time.perf_counter() - start
            self.seconds[part] += spent - self._inner.pop()
            self._inner[-1] += spent
            return result

        return timed

    def _call(self, part: str, function: Callable[..., Any], arguments: Any, words: Any) -> Any:
        if not self.counts_flops or part.startswith("other"):
            return function(*arguments, **words)
        with FlopCounterMode(display=False) as counter:
            result = function(*arguments, **words)
        self.flops[part] += counter.get_total_flops()
        return result


def instrument(run: Trainer, clock: Clock) -> None:
    """Put timers around the parts of this run."""
    learner = run.learner
    forward = clock.wrap("online network, forward", learner.online.with_backward)

    def with_backward(states: Any) -> Any:
        outputs, backward = forward(states)
        return outputs, clock.wrap("online network, backward", backward)

    changes = (
        (learner.online, "with_backward", with_backward),
        (learner, "_targets", clock.wrap("target network, TD targets", learner._targets)),
        (learner._head, "loss", clock.wrap("loss and its gradient", learner._head.loss)),
        (learner.rule, "change_weights", clock.wrap("pull", learner.rule.change_weights)),
        (learner._adam, "step", clock.wrap("Adam", learner._adam.step)),
        (learner, "_sync_target", clock.wrap("sync", learner._sync_target)),
        (learner, "update", clock.wrap("other parts of an update", learner.update)),
        (run.replay, "sample", clock.wrap("sampling", run.replay.sample)),
        (run.episodes, "step", clock.wrap("environment steps", run.episodes.step)),
        (run.log, "add", clock.wrap("log", run.log.add)),
        (run, "advance", clock.wrap("other parts of a step", run.advance)),
        (loop, "epsilon_greedy", clock.wrap("acting", loop.epsilon_greedy)),
    )
    for thing, name, function in changes:
        setattr(thing, name, function)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("suite", nargs="?", choices=list(ENVS), default="minatar")
    accepted.add_argument("--steps", type=count, help="agent steps, timed twice")
    accepted.add_argument("--threads", type=count, help="1; on Atari 2")
    accepted.add_argument("--network", help="a kind of network, such as nature-same")
    return accepted.parse_args(argv)


def main(options: argparse.Namespace) -> None:
    suite = options.suite
    threads = options.threads or (2 if suite == "atari" else 1)
    steps = options.steps or TIMED[suite]
    network = options.network or NETWORKS[suite]
    run = warm_run("dqn-pro", suite, threads, network)
    period = run.config.learner.update_period_steps
    plain = time.perf_counter()
    for _ in range(steps):
        run.advance()
    plain = time.perf_counter() - plain

    clock = Clock()
    instrument(run, clock)
    clock.counts_flops = True
    for _ in range(period):
        run.advance()
    clock.counts_flops = False
    clock.seconds.clear()
    for _ in range(steps):
        run.advance()

    updates, gflops = steps / period, matmul_gflops()
    print(f"{suite}, network {network}, {threads} threads, {steps:,} steps, {gflops:.0f} GFLOP/s")
    print(f"{'part':<30}{'µs per update':>14}{'arithmetic':>12}")
    for part in PARTS:
        arithmetic = f"{clock.flops[part] / gflops / 1e3:12.0f}" if clock.flops[part] else ""
        print(f"{part:<30}{clock.seconds[part] / updates * 1e6:14.0f}{arithmetic:>12}")
    total = sum(clock.seconds.values()) / updates * 1e6
    print(f"{'sum, with timers':<30}{total:14.0f}{sum(clock.flops.values()) / gflops / 1e3:12.0f}")
    print(f"{'an update and its steps':<30}{plain / updates * 1e6:14.0f}   (without timers)")


if __name__ == "__main__":
    main(arguments())
