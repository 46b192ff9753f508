"""Looking at runs: score one, film one, list many. Reads run folders, prints tables."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from proxrl.errors import UserError
from proxrl.training.agent import Agent
from proxrl.training.evaluate import Interrupted
from proxrl.training.folder import RunFolder
from proxrl.training.metrics import METRICS, SPEED, read_lines
from proxrl.types import Array

VIDEO_HEIGHT = 420  # pixels, about
MAX_FPS = 30
WIDE = 200  # columns


def evaluate_run(folder: Path, episodes: int, epsilon: float | None) -> None:
    """Play, print, and append the result with its protocol to RUN/evaluations.jsonl."""
    console = Console()
    agent = Agent.load(folder)
    try:  # before the work, not after it
        file = open(folder / "evaluations.jsonl", "a")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"cannot write to {error.filename}: {error.strerror}") from None
    with console.status(f"playing {episodes} episodes of {agent.config.env}"):
        scored = agent.evaluate(episodes, epsilon)
    spread = scored.standard_deviation
    table = Table("setting", "value", title=f"{agent.config.agent} at step {agent.step:,}")
    table.add_row("mean return", f"{scored.mean:.2f}")
    table.add_row("standard deviation", "–" if spread is None else f"{spread:.2f}")
    table.add_row("lowest, highest", f"{min(scored.returns):g}, {max(scored.returns):g}")
    for name, value in scored.protocol.items():
        table.add_row(name.replace("_", " "), str(value))
    console.print(table)
    line = {
        "agent": agent.config.agent,
        "seed": agent.config.seed,
        "step": agent.step,
        "mean_return": scored.mean,
        "std_return": spread,
        "returns": scored.returns,
        "lengths": scored.lengths,
        "protocol": scored.protocol,
    }
    with file:
        file.write(json.dumps(line) + "\n")


def film_run(folder: Path, out: Path | None, epsilon: float | None, max_steps: int) -> None:
    """Write a video of one episode."""
    import imageio.v2 as imageio

    agent = Agent.load(folder, pictures=True)
    out = out or RunFolder(folder).videos / f"step-{agent.step}.mp4"
    if out.suffix not in (".mp4", ".gif"):
        raise UserError(f"{out} must end in .mp4 or .gif")
    frames = 0
    fps = min(MAX_FPS, 60 // agent.config.protocol.frame_skip)
    options: dict[str, Any] = (
        {"fps": fps, "macro_block_size": 2}
        if out.suffix == ".mp4"
        else {"duration": 1000 / fps, "loop": 0}  # milliseconds a frame, for ever
    )
    with contextlib.ExitStack() as finally_:
        film: Any = None

        def watch(picture: Array) -> None:
            nonlocal frames, film
            if film is None:  # not before there is something to show
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
            outcome = f"cut after {frames:,} steps"
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


def list_runs(folder: Path) -> None:
    """A table of every run below a folder."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder")
    rows = [_row(folder, path) for path in _run_folders(folder)]
    if not rows:
        raise UserError(
            f"{folder} holds no runs: train one with `proxrl train dqn-pro --env CartPole-v1`"
        )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", overflow="fold")
    for title in ("progress", "state", "return", "steps/s", "seen"):
        table.add_column(title, no_wrap=title != "state", justify="left")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:  # into a file or a pipe: a line a run, however long
        console = Console(width=WIDE)
    console.print(table)


def _run_folders(folder: Path) -> Iterator[Path]:
    for config in sorted(folder.rglob("config.json")):
        if (config.parent / METRICS).exists():
            yield config.parent


def _row(root: Path, path: Path) -> list[str]:
    place = RunFolder(path)
    name = str(path.relative_to(root)) if path != root else path.name
    try:
        config = place.config()
        metrics, speed = read_lines(path / METRICS), read_lines(path / SPEED)
    except (UserError, json.JSONDecodeError) as error:
        return [name, "–", f"unreadable: {error}", "–", "–", "–"]
    step = max(place.newest_step() or 0, metrics[-1]["step"] if metrics else 0)
    running = place.is_locked()
    state = (
        "running"
        if running
        else "failed"
        if place.failure.exists()
        else "finished"
        if step >= config.steps
        else "stopped"
    )
    return [
        name if config.env.split("/")[-1] in name else f"{name} ({config.env})",
        f"{step / config.steps:.0%} of {config.steps:,}",
        state,
        f"{metrics[-1]['eval/mean_return']:.1f}" if metrics else "–",
        f"{speed[-1]['steps_per_second']:,.0f}" if speed else "–",
        _ago(speed[-1]["unix_time"]) if speed else "–",
    ]


def _ago(unix_time: float) -> str:
    minutes = (time.time() - unix_time) / 60
    if minutes < 100:
        return f"{minutes:.0f} min ago"
    return f"{minutes / 60:.0f} h ago" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days ago"
