"""`proxrl eval` and `proxrl play`: evaluate a run, record a video of a run."""

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from proxrl.envs.checks import staying
from proxrl.errors import UserError
from proxrl.plugins import require_trust
from proxrl.runs.folder import EVALUATIONS, RunFolder
from proxrl.runs.lines import LineFile
from proxrl.training.environments import draw_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxrl.training.agent import Agent
    from proxrl.training.evaluate import Evaluation
    from proxrl.types import Array

SHOWN_STEPS = 1_000  # between two updates of the status line


def _loaded(folder: Path, trust: bool, pictures: bool = False) -> "Agent":
    config = RunFolder(folder).config()  # fail before importing torch if it is not a run
    require_trust(config, folder, trust)
    from proxrl.training.agent import Agent

    return Agent.load(folder, pictures=pictures, trust=trust)


def evaluate_run(
    folder: Path,
    episodes: int,
    epsilon: float | None,
    seed: int | None = None,
    as_json: bool = False,
    trust: bool = False,
) -> None:
    """Evaluate, print, and append the result with its protocol to RUN/evaluations.jsonl."""
    console, progress = Console(markup=False), Console(stderr=True, soft_wrap=True, markup=False)
    agent = _loaded(folder, trust)
    try:  # before the work, not after it
        file = LineFile(folder / EVALUATIONS)
    except OSError as error:
        raise UserError(f"cannot write to {error.filename}: {error.strerror}") from None
    from proxrl.training.evaluate import no_time_limit

    if said := no_time_limit(agent.environment, agent.config):
        progress.print(said, highlight=False, markup=False)
    playing = escape(f"playing {episodes} episodes of {agent.config.env}")
    with progress.status(playing) as status:
        steps = itertools.count()

        def show() -> bool:
            if (step := next(steps)) and step % SHOWN_STEPS == 0:
                status.update(f"{playing}: step {step:,}")
            return False

        scored = agent.evaluate(episodes, epsilon, seed=seed, stop=show)
    line = {
        "agent": agent.config.agent,
        "seed": agent.config.seed,
        "step": agent.step,
        "evaluation_seed": seed,
        "mean_return": scored.mean,
        "std_return": scored.standard_deviation,
        "returns": scored.returns,
        "lengths": scored.lengths,
        "protocol": scored.protocol,
    }
    print(json.dumps(line), flush=True) if as_json else console.print(_table(agent, scored, seed))
    try:
        file.append(line)
    except OSError as error:
        raise UserError(
            f"cannot write to {folder / EVALUATIONS}: {error.strerror}: the result is not recorded"
        ) from None
    file.close()


def _table(agent: "Agent", scored: "Evaluation", seed: int | None) -> Table:
    spread = scored.standard_deviation
    table = Table("setting", "value", title=f"{agent.config.agent} at step {agent.step:,}")
    table.add_row("mean return", f"{scored.mean:.2f}")
    table.add_row("standard deviation", "–" if spread is None else f"{spread:.2f}")
    table.add_row("lowest, highest", f"{min(scored.returns):g}, {max(scored.returns):g}")
    draws = (
        "those of the run's own evaluation"
        if seed is None
        else f"seed {seed}, independent of the run"
    )
    table.add_row("random draws", draws)
    for name, value in scored.protocol.items():
        table.add_row(name.replace("_", " "), str(value))
    return table


@staying()  # an environment may change the working directory
def film_run(
    folder: Path, out: Path | None, epsilon: float | None, max_steps: int, trust: bool = False
) -> None:
    """Write a video of one episode."""
    draw_in_memory()
    agent = _loaded(folder, trust, pictures=True)
    from proxrl.training.film import film

    out = out or RunFolder(folder).videos / f"step-{agent.step}.mp4"

    def play(watch: "Callable[[Array], None]", stop: "Callable[[], bool]") -> "Evaluation":
        return agent.evaluate(episodes=1, epsilon=epsilon, watch=watch, stop=stop)

    try:
        outcome = film(play, out, agent.config.protocol.frame_skip, max_steps)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None
    print(f"{out}: {outcome}")
