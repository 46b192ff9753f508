"""Figures from run folders, in the paper's colours: DQN blue, DQN Pro red."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from proxrl.training.folder import RunFolder
from proxrl.training.metrics import METRICS, read_lines

COLOURS = {"dqn": "#2b6cb0", "dqn-pro": "#c53030"}
NAMES = {"dqn": "DQN", "dqn-pro": "DQN Pro"}


def draw_comparison(folders: Sequence[Path], out: Path) -> None:
    """Size of the target updates (Figure 4, right) beside evaluation returns, one line a run."""
    figure = Figure(figsize=(10, 4), layout="constrained", dpi=150)
    distances, returns = figure.subplots(1, 2)
    for folder in folders:
        agent = RunFolder(folder).config().agent
        lines = read_lines(folder / METRICS)
        style: dict[str, Any] = {
            "color": COLOURS.get(agent),
            "label": NAMES.get(agent, agent),
            "linewidth": 2,
        }
        distances.plot(*_series(lines, "train/sync_distance"), **style)
        returns.plot(*_series(lines, "eval/mean_return"), **style)
    env = RunFolder(folders[0]).config().env
    distances.set_title("Size of the target-network updates", loc="left")
    distances.set_ylabel(r"mean $\Vert\theta_{new} - \theta_{old}\Vert_2$ per sync")
    returns.set_title("Evaluation return (one seed)", loc="left")
    returns.set_ylabel("mean undiscounted return")
    for axes in (distances, returns):
        axes.set_xlabel("agent steps")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}k")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    distances.legend(frameon=False)
    figure.suptitle(env, x=0.01, ha="left", fontsize="medium", color="#555555")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def _series(lines: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    return [step for step, _ in points], [value for _, value in points]
