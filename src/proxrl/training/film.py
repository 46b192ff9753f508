"""Videos of an agent: `proxrl play`, and `evaluation.video` during training."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxrl.errors import UserError
from proxrl.training.evaluate import Evaluation, Interrupted
from proxrl.types import Array

VIDEO_HEIGHT = 420  # pixels, about
MAX_FPS = 30
MAX_STEPS = 5_000  # of a video, in agent steps


Play = Callable[[Callable[[Array], None], Callable[[], bool]], Evaluation]


def film(
    play: Play,
    out: Path,
    frame_skip: int,
    max_steps: int = MAX_STEPS,
    stop: Callable[[], bool] = lambda: False,
) -> str:
    """Write a video of `play(watch, stop)`, an evaluation of one episode; returns its outcome.

    Raises `Interrupted` if `stop` returns True, but not if the video is cut off.
    """
    import imageio.v2 as imageio

    if out.suffix not in (".mp4", ".gif"):
        raise UserError(f"{out} must end in .mp4 or .gif")
    frames = 0
    fps = min(MAX_FPS, 60 // frame_skip)
    options: dict[str, Any] = (
        {"fps": fps, "macro_block_size": 2}
        if out.suffix == ".mp4"
        else {"duration": 1000 / fps, "loop": 0}  # milliseconds per frame, loop forever
    )
    with contextlib.ExitStack() as finally_:
        writer: Any = None

        def watch(picture: Array) -> None:
            nonlocal frames, writer
            if writer is None:  # not before the first image
                _require_writable(out)
                writer = finally_.enter_context(imageio.get_writer(out, **options))
            frames += 1
            writer.append_data(_enlarged(picture))

        try:
            result = play(watch, lambda: frames >= max_steps or stop())
        except Interrupted:
            if frames < max_steps:
                raise
            return f"cut off after {frames:,} steps"
    return f"return {result.mean:g} in {result.lengths[0]:,} steps"


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
