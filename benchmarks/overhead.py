"""What the pull costs: time per update with it over time per update without.

    python -m benchmarks.overhead --blocks 120          # everything
    python -m benchmarks.overhead agents                # DQN Pro / DQN, Rainbow Pro / Rainbow
    python -m benchmarks.overhead rules                 # every rule / DQN, on MinAtar
    python -m benchmarks.overhead drop-in               # in other libraries, on MinAtar

Blocks of updates alternate within one process; a ratio is of neighbouring blocks. Rules and the
drop-in are measured on one learner or model, because two of them differ by up to 3% through the
memory layout of their tensors.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.command_line import count, parser
from benchmarks.machine import example_learner
from proxrl import presets
from proxrl.agents.learner import Learner
from proxrl.proximal import AdaptiveOptions, Proximal
from proxrl.proximal.rules import Rule, make_rule
from proxrl.training.resources import available_cores
from proxrl.types import Batch

if TYPE_CHECKING:
    from benchmarks.drop_in_models import Model

UPDATES = 10  # per block
MORE_UPDATES = 50  # per block: adaptive rules measure every 10 updates
RULES = ("parameters", "accelerated", "metric", "adaptive", "adaptive-layers", "scheduled")
MINATAR = "MinAtar/Breakout-v1"
PERIOD = 250  # updates per sync on MinAtar: an adaptive pull starts with the second


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("part", nargs="?", choices=["agents", "rules", "drop-in"])
    accepted.add_argument("--blocks", type=count, default=120, help="pairs of blocks (120)")
    return accepted.parse_args(argv)


def main(part: str | None, blocks: int) -> None:
    parts: dict[str, Callable[[int], None]] = {"agents": agents, "rules": rules, "drop-in": drop_in}
    for name in parts if part is None else [part]:
        parts[name](blocks)


def agents(blocks: int) -> None:
    for env, threads in (("ALE/Breakout-v5", available_cores()), (MINATAR, 1)):
        torch.set_num_threads(threads)
        for base in ("dqn", "rainbow"):
            made = {
                name: example_learner(presets.make(name, env)) for name in (base, f"{base}-pro")
            }
            timed = {name: partial(block, *pair, UPDATES) for name, pair in made.items()}
            report(f"on {env}", alternate(timed, blocks), base, UPDATES)


def rules(blocks: int) -> None:
    """One learner whose rule is replaced before each block, after the warm-up of every rule."""
    torch.set_num_threads(1)
    learner, batch = example_learner(presets.make("dqn", MINATAR))
    timed = {"dqn": partial(with_rule, learner, learner.rule, batch)}
    for name in RULES:
        agent = "dqn" if name.startswith(("adaptive", "scheduled")) else "dqn-pro"
        changes = {"proximal.rule": name, "proximal.adaptive.warmup_updates": 10}
        rule = make_rule(presets.make(agent, MINATAR, changes))
        rule.moments, rule.loss = learner.rule.moments, learner.loss
        timed[name] = partial(with_rule, learner, rule, batch)
    for _ in range(10):  # two syncs
        for one in timed.values():
            one()
    report("on MinAtar, by rule", alternate(timed, blocks), "dqn", MORE_UPDATES)


def with_rule(learner: Learner, rule: Rule, batch: Batch) -> float:
    learner.rule = rule
    learner._has_penalty = type(rule).penalty is not Rule.penalty
    return block(learner, batch, MORE_UPDATES)


def block(learner: Learner, batch: Batch, updates: int) -> float:
    start = time.perf_counter()
    for _ in range(updates):
        learner.update(batch)
    return time.perf_counter() - start


def drop_in(blocks: int) -> None:
    """Models of other libraries whose optimizer is replaced before each block."""
    from benchmarks import drop_in_models

    torch.set_num_threads(1)
    for make in (drop_in_models.dqn, drop_in_models.quantile_dqn, drop_in_models.tianshou_dqn):
        model = make()
        fixed = model.proximal
        adaptive = Proximal(
            fixed.inner,
            model.anchor,
            c="adaptive",
            updates_per_sync=fixed.updates_per_sync,
            adaptive=AdaptiveOptions(warmup_updates=10),
        )
        optimizers = {"plain": fixed.inner, "fixed c": fixed, "adaptive": adaptive}
        timed = {name: partial(timed_updates, model, one) for name, one in optimizers.items()}
        model.train(adaptive, 2 * PERIOD)
        assert adaptive.kappa, "it pulls"
        times = alternate(timed, blocks)
        report(f"in {model.where}", times, "plain", model.updates)
        del times["plain"]
        report(f"in {model.where}", times, "fixed c", model.updates)


def timed_updates(model: "Model", optimizer: torch.optim.Optimizer) -> float:
    start = time.perf_counter()
    model.train(optimizer, model.updates)
    return time.perf_counter() - start


def alternate(timed: dict[str, Callable[[], float]], blocks: int) -> dict[str, list[float]]:
    """Seconds of each block; the order is drawn anew for every round."""
    generator = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in timed}
    for one in timed.values():
        one()
    for _ in range(blocks):
        for name in generator.permutation(list(timed)):
            times[name].append(timed[name]())
    return times


def report(where: str, times: dict[str, list[float]], base: str, updates: int) -> None:
    for name in times:
        if name == base:
            continue
        ratios = np.array(times[name]) / times[base]
        blocks = len(ratios)
        medians = np.median(np.random.default_rng(0).choice(ratios, (2000, blocks)), axis=1)
        low, high = np.quantile(medians, [0.025, 0.975])
        print(
            f"time per update {where}, {name} / {base} = {np.median(ratios):.3f} (95% interval of "
            f"the median {low:.3f} to {high:.3f}, {blocks} pairs of {updates} updates)",
            flush=True,
        )


if __name__ == "__main__":
    options = arguments()
    main(options.part, options.blocks)
