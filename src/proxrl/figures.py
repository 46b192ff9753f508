"""matplotlib with its own defaults: no figure depends on a `matplotlibrc`.

matplotlib obeys the file of that name in the current folder, which may come from someone else, from
its import on: it can ask for LaTeX, which is then executed, or end the import. Therefore it is
imported in a folder of this package, and figures are drawn with its defaults, also if something
else has imported it before.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EMPTY = Path(__file__).parent / "report" / "assets"  # has neither a matplotlibrc nor modules


@contextlib.contextmanager
def without_matplotlibrc() -> Iterator[None]:
    """For imports that may import matplotlib: the current folder is another one."""
    if "matplotlib" in sys.modules:
        yield
        return
    try:
        here = os.getcwd()
    except FileNotFoundError:  # deleted: there is no file in it
        yield
        return
    os.chdir(EMPTY)
    try:
        yield
    finally:
        os.chdir(here)


@contextlib.contextmanager
def drawing(style: Any = None) -> Iterator[None]:
    """matplotlib's defaults with the changes in `style`; drawing and saving need the same."""
    with without_matplotlibrc():
        import matplotlib.style

    with matplotlib.rc_context():
        matplotlib.style.use("default")
        matplotlib.rcParams.update(style or {})
        yield
