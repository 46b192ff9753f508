"""The page of a search: one self-contained HTML file without scripts, in the report's style.

Names come from settings that a user typed: Jinja2 escapes them, and a Content-Security-Policy
allows nothing but the page's own style sheet, by hash. The same trials give the same bytes.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from proxrl import __version__
from proxrl.config import RunConfig, differences
from proxrl.report.html import render_page
from proxrl.report.output import write_files
from proxrl.suites import presets
from proxrl.tuning.figures import DARK, pictures
from proxrl.tuning.space import Parameter, applied, effective
from proxrl.tuning.table import shown
from proxrl.tuning.trials import Trial, best

OWN_STYLE = (
    ".command code{font-size:14px;overflow-wrap:anywhere}"
    ".command span{display:inline-block;max-width:100%}"  # no break within an option
)


def write_page(
    folder: Path,
    base: RunConfig,
    space: Sequence[Parameter],
    trials: Sequence[Trial],
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Path, str]:
    """Write report/index.html, figures and trials.csv; returns the page and the command for the
    best trial (empty if there is none)."""
    top = best(trials)
    command = "" if top is None else command_of(base, top)
    drawn = pictures(trials, space, base.steps)
    out = folder / "report"
    name = f"{base.agent} on {base.env}"
    page = render_page(
        "tune.html",
        DARK.items(),
        package="proxrl.tuning",
        own_style=OWN_STYLE,
        maker="proxrl tune",
        tab=name,
        heading=name,
        config=base,
        space=space,
        trials=trials,
        best=top,
        command=command,
        counts=_counts(trials),
        first=_of_the_preset(base, space, trials),
        c_of=lambda trial: shown(float(f"{applied(base, trial.values).c:.4g}")),
        pictures=[(one, Markup(one.svg)) for one in drawn],
        shown=shown,
        version=__version__,
    )
    files = {"trials.csv": _csv(base, space, trials).encode()}
    for one in drawn:
        files[f"figures/{one.id}.png"] = one.png
        files[f"figures/{one.id}.svg"] = one.svg.encode()
    write_files(out, {**files, "index.html": page.encode()}, say)
    return out / "index.html", command


def command_of(base: RunConfig, trial: Trial) -> str:
    """The command that trains with a trial's settings, on seeds that were not tuned on."""
    config = replace(applied(base, trial.values), seed=0)
    preset = presets.make(config.agent, config.env)
    changed = [
        f"--{path.replace('_', '-')} {_argument(value)}"
        for path, (_, value) in differences(preset, config).items()
        if path not in ("threads", "logging.tensorboard")
    ]
    words = [
        "proxrl",
        "train",
        config.agent,
        "--env",
        config.env,
        *changed,
        "--seeds",
        "0",
        "1",
        "2",
    ]
    return " ".join(words)


def _of_the_preset(
    base: RunConfig, space: Sequence[Parameter], trials: Sequence[Trial]
) -> Trial | None:
    """The first trial, if it finished and has the preset's own values."""
    for one in trials[:1]:
        usual = {each.path: each.usual(effective(base, each.path)) for each in space}
        same = {each.path: each.used(usual[each.path]) for each in space} == one.values
        if same and one.outcome == "finished":
            return one
    return None


def _argument(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _counts(trials: Sequence[Trial]) -> str:
    kinds = [one.outcome for one in trials]
    return ", ".join(f"{kinds.count(one)} {one}" for one in dict.fromkeys(sorted(kinds)))


def _csv(base: RunConfig, space: Sequence[Parameter], trials: Sequence[Trial]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [one.path for one in space]
    writer.writerow(("trial", "seed", "outcome", *names, "score", "last_step", "reason"))
    for one in trials:
        values = [one.values[name] for name in names]
        score = "" if one.score is None else f"{one.score:.6g}"
        row = (one.number, base.seed + one.number, one.outcome, *values, score)
        writer.writerow((*row, one.last_step, one.reason))
    return text.getvalue()
