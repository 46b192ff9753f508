"""`proxrl tune`: parsing, the search's folder, and what is printed (no torch)."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from proxrl import __version__
from proxrl.config import RunConfig, differences, from_json, to_json, validated
from proxrl.errors import RunFailed, UserError
from proxrl.files import write_text
from proxrl.runs.study_file import SEARCH
from proxrl.studies.folder import locked
from proxrl.studies.placement import (
    connected_to,
    executor_for,
    require_valid_placement,
    sigterm_as_interrupt,
)
from proxrl.suites import BUILT_IN, presets
from proxrl.tuning.space import KAPPA, Parameter, corners, parsed

FIRST_SEED = 100
ABOUT = """usage: proxrl tune PRESET --env ID [--trials N] [--search NAME=RANGE ...]

Search for the settings with the highest final score, by default for kappa, the
pull per sync, which determines the method's one hyper-parameter c. Each trial
is a run with a seed from 100 up, so that the seeds you report (0, 1, ...) are
never tuned on. Trials that are worse than the median of the others at the same
step are stopped. Repeat the command to continue; raise --trials to go on.

  proxrl tune dqn-pro --env CartPole-v1
  proxrl tune dqn-pro --env MinAtar/Breakout-v1 --steps 500_000 --trials 20
  proxrl tune dqn-pro --env CartPole-v1 --search kappa replay.n_step=1,3,5
  proxrl tune dqn-pro --env CartPole-v1 --search kappa=0.1..3:log --trials 50
  proxrl tune dqn --env CartPole-v1 --search target.period=128..1024/128

NAME is any setting of `proxrl train`, kappa or c; a range is LOW..HIGH,
LOW..HIGH:log or LOW..HIGH/STEP, and A,B,C are values to choose from.
`proxrl tune PRESET --env ID --help` lists every option and setting."""


@dataclass(frozen=True)
class TuneOptions:
    """Search for the best settings of a preset: trials side by side, pruned at evaluations,
    resumable by the same command. Ends in a page with plots and the command for the best."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]
    trials: int = 30
    """Trials in total; raise it to go on with a finished search."""
    search: tuple[str, ...] = ("kappa",)
    """What to search: kappa (0.03..10:log), or NAME=LOW..HIGH, NAME=LOW..HIGH:log,
    NAME=LOW..HIGH/STEP, NAME=A,B,C, with NAME a setting below, kappa or c."""
    prune: bool = True
    """Stop trials whose best evaluation is below the median of the others at the same step (after
    five trials and a fifth of the steps)."""
    folder: Path | None = None
    """Where the trials go; default: runs/tune_PRESET_ENV."""
    executor: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: tasks on a Ray cluster (needs the extra `ray`)."""
    address: str = "auto"
    """Address of the Ray cluster: auto (on one of its nodes) or HOST:PORT."""
    gpus: float = 0.0
    """GPUs per run on the Ray cluster; 0.25 puts four runs on one GPU."""
    jobs: int | None = None
    """Trials at the same time; default: as many as cores and memory allow. With 1, the search is
    reproducible: same seed, same trials."""


ParseSettings = Callable[[type[TuneOptions], list[str], str, TuneOptions], TuneOptions]


def parse(
    arguments: list[str], env: str | None, parse_settings: ParseSettings
) -> Callable[[], None]:
    """Check the command line; returns the function that does the work."""
    wants_help = bool({"-h", "--help"} & set(arguments))
    if not arguments or arguments[0].startswith("-"):
        if not wants_help:
            raise UserError(f"missing argument: PRESET, one of {', '.join(presets.AGENTS)}")
        return lambda: print(ABOUT)
    agent, rest = arguments[0], arguments[1:]
    if env is None and not wants_help:
        raise UserError("missing option --env: --env CartPole-v1 or any id of `proxrl train`")
    base = presets.make(agent, BUILT_IN[0].base.env if env is None else env)
    changes = {
        "seed": FIRST_SEED,
        "threads": base.threads or 1,  # side by side is faster than threads within a run
        "logging.tensorboard": False,
    }
    default = TuneOptions(base.override(changes))
    options = parse_settings(TuneOptions, rest, f"proxrl tune {agent}", default)
    space = checked(options)
    return lambda: run(options, space)


def checked(options: TuneOptions) -> tuple[Parameter, ...]:
    """The space of the search; raises `UserError` for the first invalid option."""
    config = validated(options.config)
    if options.trials < 1:
        raise UserError(f"invalid --trials {options.trials}: must be at least 1")
    if config.seed < FIRST_SEED:
        raise UserError(
            f"invalid --seed {config.seed}: must be at least {FIRST_SEED}; trials have the seeds "
            "from it up, and seeds that are reported must not be tuned on"
        )
    require_valid_placement(options)
    space = parsed(options.search)
    if KAPPA in {one.path for one in space} and config.pull_per_sync == 0:
        raise UserError(
            f"invalid --search kappa: {config.agent} has no fixed pull; tune a preset with one "
            "(dqn-pro, rainbow-pro), or name other settings"
        )
    for corner in corners(space, config):
        try:
            validated(corner)
        except UserError as error:
            raise UserError(f"invalid --search, at an end of its range: {error}") from None
    return space


def run(options: TuneOptions, space: Sequence[Parameter]) -> None:
    """Run the command; raises `RunFailed` if no trial finished."""
    from proxrl.studies.estimate import needs_of
    from proxrl.tuning.page import write_page
    from proxrl.tuning.search import Search, job_of
    from proxrl.tuning.table import Show, summary
    from proxrl.tuning.trials import Trials, best, require_optuna

    require_optuna()
    console = Console(soft_wrap=True, markup=False)

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False)

    config = options.config
    folder = options.folder or default_folder(config)
    with connected_to(options) as ray, opened(folder, options, space):
        trials = Trials(folder, config, space, options.prune)
        search = Search(trials, folder, options.trials)
        if not search.is_done:
            jobs = [job_of(0, one, folder) for one in corners(space, config)]
            needs = needs_of(jobs, calibrate=False)
            largest = max(jobs, key=lambda job: job.config.threads)
            executor = executor_for(options, jobs * search.wanted, needs, folder, ray, say)
            title = f"{config.agent} on {config.env}: {', '.join(one.text for one in space)}"
            say(f"{title}\n{summary(trials.all(), options.trials, space)}; in {folder}")
            try:
                with Show(title, search, space) as show, sigterm_as_interrupt():
                    search.run(executor, largest, show)
            except KeyboardInterrupt as stopped:
                text = summary(trials.all(), options.trials, space)
                said = KeyboardInterrupt(f"stopped: {text}; the same command continues it")
                said.signal_number = getattr(stopped, "signal_number", 2)  # type: ignore[attr-defined]
                raise said from None
        found = trials.all()
        say(summary(found, options.trials, space))
        page, command = write_page(folder, config, space, found, say)
        say(f"page (open it in a browser): {page}")
        if best(found) is None:
            raise RunFailed(f"no trial finished: see {page}")
        say(f"train with the best, on seeds that were not tuned on:\n{command}")


@contextmanager
def opened(folder: Path, options: TuneOptions, space: Sequence[Parameter]) -> Iterator[None]:
    """Create and lock the folder; raises `UserError` if it has another search."""
    about = {
        "proxrl": __version__,
        "search": [one.text for one in space],
        "prune": options.prune,
        "config": to_json(options.config),
    }
    _require_same(folder, about)
    with locked(folder, "proxrl tune"):
        unfinished = folder / f"{SEARCH}.writing"
        try:
            write_text(unfinished, json.dumps(about, indent=2) + "\n")
            os.replace(unfinished, folder / SEARCH)
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}") from None
        yield


def _require_same(folder: Path, about: dict[str, Any]) -> None:
    try:
        there = json.loads((folder / SEARCH).read_text())
        config, now = from_json(there["config"]), from_json(about["config"])
        changes = [f"{path} was {a}, is {b}" for path, (a, b) in differences(config, now).items()]
        for name in ("search", "prune"):
            if there[name] != about[name]:
                changes.append(f"--{name} was {_words(there[name])}, is {_words(about[name])}")
    except FileNotFoundError:
        if folder.is_dir() and any(folder.iterdir()):
            raise UserError(
                f"{folder} is neither empty nor a search: choose another --folder"
            ) from None
        return
    except NotADirectoryError:
        raise UserError(f"cannot write to {folder}: it is not a folder") from None
    except OSError as error:
        raise UserError(f"{folder / SEARCH} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(f"{folder / SEARCH} is damaged: choose another --folder") from None
    if changes:
        raise UserError(
            f"{folder} has a search with other settings: {'; '.join(changes)}; "
            "choose another --folder"
        )


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def default_folder(config: RunConfig) -> Path:
    """runs/tune_dqn-pro_CartPole-v1"""
    env = re.sub(r"[^A-Za-z0-9.-]+", "-", config.env)
    return Path("runs") / f"tune_{config.agent}_{env}"
