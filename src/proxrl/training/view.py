"""`proxrl eval` and `proxrl play`: evaluate a run, record a video of a run."""

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from proxrl.errors import UserError
from proxrl.plugins import require_trust
from proxrl.runs.folder import EVALUATIONS, RunFolder
from proxrl.runs.lines import LineFile
from proxrl.types import Array

if TYPE_CHECKING:
    from proxrl.training.agent import Agent
    from proxrl.training.evaluate import Evaluation

VIDEO_HEIGHT = 420  # pixels, about
MAX_FPS = 30


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
    console = Console()
    agent = _loaded(folder, trust)
    try:  # before the work, not after it
        file = LineFile(folder / EVALUATIONS)
    except OSError as error:
        raise UserError(f"cannot write to {error.filename}: {error.strerror}") from None
    from proxrl.training.evaluate import no_time_limit

    waiting = console.status(f"playing {episodes} episodes of {agent.config.env}")
    with contextlib.nullcontext() if as_json else waiting:
        scored = agent.evaluate(episodes, epsilon, seed=seed)
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
    print(json.dumps(line)) if as_json else console.print(_table(agent, scored, seed))
    if scored.limit and not as_json:
        console.print(no_time_limit(agent.config.env, scored.limit), highlight=False, markup=False)
    file.append(line)
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


def film_run(
    folder: Path, out: Path | None, epsilon: float | None, max_steps: int, trust: bool = False
) -> None:
    """Write a video of one episode."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws in memory, needs no screen
    agent = _loaded(folder, trust, pictures=True)
    import imageio.v2 as imageio

    from proxrl.training.evaluate import Interrupted

    out = out or RunFolder(folder).videos / f"step-{agent.step}.mp4"
    if out.suffix not in (".mp4", ".gif"):
        raise UserError(f"{out} must end in .mp4 or .gif")
    frames = 0
    fps = min(MAX_FPS, 60 // agent.config.protocol.frame_skip)
    options: dict[str, Any] = (
        {"fps": fps, "macro_block_size": 2}
        if out.suffix == ".mp4"
        else {"duration": 1000 / fps, "loop": 0}  # milliseconds per frame, loop forever
    )
    with contextlib.ExitStack() as finally_:
        film: Any = None

        def watch(picture: Array) -> None:
            nonlocal frames, film
            if film is None:  # not before the first image
                _require_writable(out)
                film = finally_.enter_context(imageio.get_writer(out, **options))
            frames += 1
            film.append_data(_enlarged(picture))

        try:
            result = agent.evaluate(
                episodes=1, epsilon=epsilon, watch=watch, stop=lambda: frames >= max_steps
            )
            outcome = f"return {result.mean:g} in {result.lengths[0]:,} steps"
        except Interrupted:
            outcome = f"cut off after {frames:,} steps"
    print(f"{out}: {outcome}")


def _require_writable(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.touch()
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None


def _enlarged(picture: Array) -> Array:
    factor = max(1, VIDEO_HEIGHT // picture.shape[0])
    large: Array = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    return large
