"""Videos of an agent: `proxrl play`, and `evaluation.video` during training."""

import contextlib
import errno
import io
import os
import secrets
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxrl.errors import UserError
from proxrl.training.evaluate import Evaluation, Interrupted
from proxrl.types import Array

VIDEO_HEIGHT = 420  # pixels, about
MAX_FPS = 30
MAX_STEPS = 5_000  # of a video, in agent steps
LITTLE = 2**20  # bytes of free space: the disk counts as full
FFMPEG_FAILED = "ffmpeg cannot write the video"

Play = Callable[[Callable[[Array], None], Callable[[], bool]], Evaluation]


def film(
    play: Play,
    out: Path,
    frame_skip: int,
    max_steps: int = MAX_STEPS,
    stop: Callable[[], bool] = lambda: False,
) -> str:
    """Write a video of `play(watch, stop)`, an evaluation of one episode; returns its outcome.

    Raises `Interrupted` if `stop` returns True, but not if the video is cut off. `out` is written
    only if the video is complete.
    """
    if out.suffix not in (".mp4", ".gif"):
        raise UserError(f"{out} must end in .mp4 or .gif")
    out = out.absolute()  # the environment may change the working directory
    part = out.with_name(f".part-{secrets.token_hex(8)}{out.suffix}")  # renamed when complete
    try:
        with contextlib.ExitStack() as made:

            def create() -> None:
                _create(part, out)
                made.callback(_remove, part)

            outcome = _write(play, part, create, frame_skip, max_steps, stop)
            part.replace(out)
    except OSError as error:
        raise _explained(error, out) from None
    return outcome


def _write(
    play: Play,
    part: Path,
    create: Callable[[], None],
    frame_skip: int,
    max_steps: int,
    stop: Callable[[], bool],
) -> str:
    import imageio.v2 as imageio

    frames = 0
    fps = max(1, min(MAX_FPS, 60 // frame_skip))
    gif = io.BytesIO()  # written below: imageio prints a traceback if the disk is full
    to_gif = part.suffix == ".gif"
    options: dict[str, Any] = (
        {"uri": gif, "format": ".gif", "mode": "I", "duration": 1000 / fps, "loop": 0}  # forever
        if to_gif
        else {"uri": part, "fps": fps, "macro_block_size": 2, "ffmpeg_log_level": "quiet"}
    )
    with contextlib.ExitStack() as finally_:
        writer: Any = None

        def watch(picture: Array) -> None:
            nonlocal frames, writer
            if writer is None:  # not before the first image
                create()
                writer = imageio.get_writer(**options)
                finally_.callback(writer.close)  # `with` does not close it after an exception
            frames += 1
            writer.append_data(_enlarged(picture))

        try:
            result = play(watch, lambda: frames >= max_steps or stop())
            outcome = f"return {result.mean:g} in {result.lengths[0]:,} steps"
        except Interrupted:
            if frames < max_steps:
                raise
            outcome = f"cut off after {frames:,} steps"
    if not frames:
        raise UserError("there is no image of the episode")
    if to_gif:
        part.write_bytes(gif.getvalue())
    elif not _is_complete(part):
        raise OSError(FFMPEG_FAILED)
    return outcome


def _create(part: Path, out: Path) -> None:
    """Create a file that does not exist."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.open("xb").close()
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None


def _remove(part: Path) -> None:
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)


def _is_complete(video: Path) -> bool:
    """Whether the boxes of an MP4 file fill it exactly. imageio does not report that ffmpeg could
    not write the last ones."""
    with open(video, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        at, kinds = 0, set()
        while at < size:
            file.seek(at)
            length, kind = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
            if length == 1:  # a 64-bit length follows
                (length,) = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))
            if length < 8:
                return False
            at += length
            kinds.add(kind)
    return at == size and b"moov" in kinds


def _explained(error: OSError, out: Path) -> OSError:
    """Name the cause if ffmpeg could not write: imageio reports a broken pipe."""
    if error.errno is not None:
        return OSError(error.errno, error.strerror, str(out))
    if shutil.disk_usage(out.parent).free < LITTLE:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(out))
    return OSError(errno.EIO, FFMPEG_FAILED, str(out))


def _enlarged(picture: Array) -> Array:
    factor = max(1, VIDEO_HEIGHT // picture.shape[0])
    large: Array = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    return large
