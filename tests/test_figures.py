"""No figure depends on a matplotlibrc: neither one in the current folder nor one obeyed before."""

import contextlib
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from proxrl import figures
from proxrl.planning import comparison, figure
from proxrl.planning.mdp import garnet
from proxrl.report.figures.drawing import render
from proxrl.report.figures.plot import Line, Panel, Plot
from proxrl.tuning.figures import pictures
from proxrl.tuning.space import Parameter
from proxrl.tuning.trials import Trial

USETEX = b"text.usetex: True\nsavefig.dpi: 7\nlines.linewidth: 9\n"
ROOT = Path(__file__).parents[1]
PRINT = f"""
import sys; from pathlib import Path
sys.path.append({str(ROOT)!r}); from tests.test_figures import drawn
print(drawn(Path("out")))
"""


def drawn(folder: Path) -> str:
    """The digest of a figure of a report, of `plan`, of `plan --adaptive` and of `tune`."""
    line = Line("DQN", "#1f77b4", "solid", np.arange(3.0), np.arange(3.0))
    (made,) = render([Plot("a", "title", "caption", "lines", (Panel("panel", (line,)),))])
    trials = [Trial(0, "finished", {"c": 0.5}, 1.0, {10: 1.0}), Trial(1, "pruned", {"c": 0.7}, 0.5)]
    searched = pictures(trials, [Parameter("c", 0.1, 1.0)], 10)
    mdp = garnet(4, 2, 2, 0.9, np.random.default_rng(0))
    planned = figure.figure1(mdp, n=(1,), betas=(0.0, 1.0), levels=(0.1,), seeds=2, iterations=2)
    problem = comparison.Problem("random", (mdp,), range(2))
    compared = comparison.compare([problem], n=(1,), levels=(0.1,), iterations=2)
    written = [*figure.save(planned, folder), *comparison.save(compared, folder)]
    contents = [made.png, made.svg.encode(), *(one.png for one in searched)]
    return sha256(b"".join((*contents, *(path.read_bytes() for path in written)))).hexdigest()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return drawn(tmp_path_factory.mktemp("plain"))


def test_settings_that_were_obeyed_before_change_no_figure(plain: str, tmp_path: Path) -> None:
    import matplotlib  # not above: the processes below import this module

    with matplotlib.rc_context({"text.usetex": True, "savefig.dpi": 7, "lines.linewidth": 9}):
        assert drawn(tmp_path) == plain
        assert matplotlib.rcParams["text.usetex"], "restored"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(USETEX, id="TeX"),
        pytest.param(b"\xff\xfe", id="not UTF-8", marks=pytest.mark.faults),
        pytest.param(None, id="FIFO", marks=pytest.mark.faults),
    ],
)
def test_a_file_in_the_current_folder_changes_no_figure(
    content: bytes | None, plain: str, tmp_path: Path
) -> None:
    if content is None:
        os.mkfifo(tmp_path / "matplotlibrc")
    else:
        (tmp_path / "matplotlibrc").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRINT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == plain
    assert sorted(os.listdir(tmp_path)) == ["matplotlibrc", "out"], "drawn in the current folder"


def test_nor_is_it_read_when_minatar_imports_matplotlib(tmp_path: Path) -> None:
    pytest.importorskip("minatar")
    os.mkfifo(tmp_path / "matplotlibrc")
    code = "from proxrl.envs.make import is_known; assert is_known('MinAtar/Breakout-v1')"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, timeout=60, check=True)


def test_the_folder_in_which_matplotlib_is_imported_has_no_settings_and_no_modules() -> None:
    names = [path.name for path in figures.EMPTY.iterdir()]
    assert names
    assert not [name for name in names if name == "matplotlibrc" or name.endswith(".py")]


def test_the_current_folder_is_the_same_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "matplotlib")
    with contextlib.suppress(KeyError), figures.without_matplotlibrc():
        assert Path.cwd() == figures.EMPTY
        raise KeyError
    assert Path.cwd() == tmp_path
    tmp_path.rmdir()
    with figures.without_matplotlibrc():
        pass
