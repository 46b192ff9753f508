"""The demonstration's picture: size of the target updates beside evaluation returns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxrl.report.runs import read_run
from proxrl.report.series import COLOURS, NAMES


def draw_comparison(folders: Sequence[Path], out: Path) -> None:
    """Size of the target updates (Figure 4, right) beside evaluation returns, one line a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained", dpi=150)
    distances, returns = figure.subplots(1, 2)
    runs = [read_run(folder, folder.parent) for folder in folders]
    for run in runs:
        agent = run.asked.agent
        style: dict[str, Any] = {
            "color": COLOURS[agent][0],
            "label": NAMES[agent],
            "linewidth": 2,
        }
        distances.plot(run.steps, run.curves["sync_distance"], **style)
        returns.plot(run.steps, run.curves["eval_return"], **style)
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
    env = runs[0].asked.env
    figure.suptitle(env, x=0.01, ha="left", fontsize="medium", color="#555555")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
