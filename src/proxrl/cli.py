"""The command line: parsing and printing only. torch is imported by the commands that need it."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from proxrl.config import RunConfig, flatten, validated
from proxrl.errors import RunFailed, UserError
from proxrl.training import presets

Options = TypeVar("Options")


# ------------------------------------------------------------------------------------ the commands


@dataclass(frozen=True)
class TrainOptions:
    """Train a preset on an environment. Every setting below can be changed; steps are agent steps,
    updates are gradient updates."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]
    folder: Path | None = None
    """Run folder to make; default: runs/AGENT_ENV_seedN."""


def train(arguments: list[str]) -> None:
    """train a preset: proxrl train dqn-pro --env ALE/Breakout-v5 --seed 1"""
    wants_help = bool({"-h", "--help"} & set(arguments))
    names = ", ".join(presets.AGENTS)
    if not arguments or arguments[0].startswith("-"):
        if not wants_help:
            raise UserError(f"say which preset to train, first: one of {names}")
        print(
            f"usage: proxrl train PRESET --env ID [OPTIONS]\n\nPRESET is one of {names}; "
            "`proxrl train PRESET --env ID --help` explains every setting with its value there."
        )
        return
    agent, rest = arguments[0], arguments[1:]
    env = _value_of("--env", rest)
    if env is None and not wants_help:
        raise UserError(
            "say which environment: --env ALE/Breakout-v5, --env MinAtar/Asterix-v1, "
            "--env CartPole-v1 or any Gymnasium id with discrete actions"
        )
    default = TrainOptions(presets.make(agent, presets.ATARI.env if env is None else env))
    options = _parse(TrainOptions, rest, f"proxrl train {agent}", default)
    config = validated(options.config)
    folder = options.folder or default_folder(config)

    from proxrl.training import run
    from proxrl.training.progress import display_for_terminal

    run.train(config, folder, display_for_terminal())
    _print_finished(folder)


@dataclass(frozen=True)
class ResumeOptions:
    """Continue a run where its newest checkpoint left it, or extend a finished one. Total steps,
    evaluation and logging settings may change; nothing else."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]


def resume(arguments: list[str]) -> None:
    """continue a run, or extend it: proxrl resume RUN --steps 2_000_000"""
    from proxrl.training.folder import RunFolder

    if not arguments or arguments[0].startswith("-"):
        if not {"-h", "--help"} & set(arguments):
            raise UserError("say which run folder to resume, first: proxrl resume RUN")
        print(
            "usage: proxrl resume RUN [--steps N] [--evaluation.* V] [--logging.* V]\n\n"
            + " ".join((ResumeOptions.__doc__ or "").split())
        )
        return
    folder, rest = Path(arguments[0]), arguments[1:]
    default = ResumeOptions(RunFolder(folder).config())
    options = _parse(ResumeOptions, rest, f"proxrl resume {folder}", default)

    from proxrl.training import run
    from proxrl.training.progress import display_for_terminal

    run.resume(folder, options.config, display_for_terminal())
    _print_finished(folder)


@dataclass(frozen=True)
class EvalOptions:
    """Evaluate a run's newest checkpoint: undiscounted, unclipped returns with their protocol."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    episodes: int = 30
    """Episodes to play."""
    epsilon: float | None = None
    """Probability of a random action; default: the run's evaluation.epsilon."""


def evaluate(arguments: list[str]) -> None:
    """score a run: proxrl eval RUN --episodes 30"""
    options = _parse(EvalOptions, arguments, "proxrl eval")
    if options.episodes < 1:
        raise UserError(f"--episodes {options.episodes} cannot be: it must be at least 1")
    _check_epsilon(options.epsilon)

    from proxrl.training.view import evaluate_run

    evaluate_run(options.run, options.episodes, options.epsilon)


@dataclass(frozen=True)
class PlayOptions:
    """Film an episode of a run's newest checkpoint."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    out: Path | None = None
    """Video file to write, .mp4 or .gif; default: RUN/videos/step-N.mp4."""
    epsilon: float | None = None
    """Probability of a random action; default: the run's evaluation.epsilon."""
    max_steps: int = 5_000
    """Agent steps after which the film is cut."""


def play(arguments: list[str]) -> None:
    """film an episode: proxrl play RUN"""
    options = _parse(PlayOptions, arguments, "proxrl play")
    if options.max_steps < 1:
        raise UserError(f"--max-steps {options.max_steps} cannot be: it must be at least 1")
    _check_epsilon(options.epsilon)

    from proxrl.training.view import film_run

    film_run(options.run, options.out, options.epsilon, options.max_steps)


@dataclass(frozen=True)
class RunsOptions:
    """List the runs below a folder with progress, last return and speed."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Folder to look in, at any depth."""


def runs(arguments: list[str]) -> None:
    """list runs: proxrl runs DIR"""
    options = _parse(RunsOptions, arguments, "proxrl runs")

    from proxrl.training.view import list_runs

    list_runs(options.folder)


def report(arguments: list[str]) -> None:
    """figures, numbers and one page from run folders: proxrl report DIR"""
    from proxrl.report.command import ReportOptions, make_report

    options = _parse(ReportOptions, arguments, "proxrl report")
    page, summary = make_report(
        options.folder,
        options.out,
        options.baselines,
        options.steps,
        options.resamples,
        say=lambda line: print(f"proxrl: {line}", file=sys.stderr),
    )
    print("\n".join(summary))
    print(f"wrote {page} (open it in a browser), {page.parent}/scores.csv, {page.parent}/figures/")


@dataclass(frozen=True)
class PresetsOptions:
    """List presets, and show where they differ."""


def list_presets(arguments: list[str]) -> None:
    """list presets and where they differ"""
    _parse(PresetsOptions, arguments, "proxrl presets")
    from rich.console import Console
    from rich.table import Table

    columns = {"atari": "ALE/*", "minatar": "MinAtar/*", "classic": "all others"}
    families = list(presets.FAMILIES.items())
    of = {
        agent: [flatten(presets.make(agent, base.env)) for _, base in families]
        for agent in presets.AGENTS
    }
    console = Console()

    def show(title: str, rows: dict[str, list[str]], first: str = "setting") -> None:
        table = Table(first, *(columns[family] for family, _ in families), title=title)
        for name, values in rows.items():
            table.add_row(name, *values)
        console.print(table)

    def settings(agent: str, keep: Callable[[str], bool]) -> dict[str, list[str]]:
        return {
            path: [_shown(column[path]) for column in of[agent]]
            for path in of[agent][0]
            if path not in ("agent", "env", "proximal.c") and keep(path)
        }

    show(
        "presets: X and X-pro differ in proximal.c alone",
        {agent: [f"c = {column['proximal.c']:g}" for column in of[agent]] for agent in of},
        "preset",
    )
    show(
        "dqn: settings that depend on the environment",
        settings("dqn", lambda path: len({str(column[path]) for column in of["dqn"]}) > 1),
    )
    for agent, base in (("rainbow", "dqn"), ("rainbow-full", "rainbow")):

        def differs(path: str, agent: str = agent, base: str = base) -> bool:
            pairs = zip(of[agent], of[base], strict=True)
            return any(one[path] != other[path] for one, other in pairs)

        show(f"{agent}: where it differs from {base}", settings(agent, differs))
    console.print("every setting: proxrl train PRESET --env ID --help", highlight=False)


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def plan(arguments: list[str]) -> None:
    """the tabular twin, PMPI: the paper's Figure 1, or its theorems checked (--theory)"""
    from proxrl.planning import command

    command.run(_parse(command.PlanOptions, arguments, "proxrl plan"))


def study(arguments: list[str]) -> None:
    """every run of a figure as one command, resumable: proxrl study main --scale session"""
    from proxrl.studies import command

    flags = (tyro.conf.FlagCreatePairsOff,)
    command.run(_parse(command.StudyOptions, arguments, "proxrl study", conf=flags))


@dataclass(frozen=True)
class DemoOptions:
    """Train DQN and DQN Pro side by side on MinAtar and compare them."""

    game: str = "MinAtar/Breakout-v1"
    """Environment."""
    steps: int = 200_000
    """Agent steps of each run."""
    seed: int = 0
    """Seed of both runs."""
    folder: Path = Path("runs/demo-session")
    """Where the two runs and the report go; run it again to continue."""


def demo(arguments: list[str]) -> None:
    """DQN and DQN Pro side by side on MinAtar, about five minutes"""
    options = _parse(DemoOptions, arguments, "proxrl demo")

    from proxrl.studies.demo import run_demo

    run_demo(options.game, options.steps, options.seed, options.folder)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "demo": demo,
    "train": train,
    "resume": resume,
    "eval": evaluate,
    "play": play,
    "runs": runs,
    "report": report,
    "presets": list_presets,
    "plan": plan,
    "study": study,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake is one line and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.path.insert(0, "")  # the user's own modules, as `python -m` would find them
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without lines and dashes
    try:
        _dispatch(arguments)
    except UserError as error:
        _leave(f"proxrl: {error}", 2)
    except RunFailed as error:
        _leave(f"proxrl: {error}", 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except KeyboardInterrupt as stopped:
        number = getattr(stopped, "signal_number", 2)
        _leave(f"proxrl: {stopped}" if str(stopped) else "proxrl: stopped", 128 + number)


# ----------------------------------------------------------------------------------------- details


def _dispatch(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = [f"  {name:<9} {command.__doc__}" for name, command in COMMANDS.items()]
        print(
            "usage: proxrl COMMAND [OPTIONS]\n\nProximal deep reinforcement learning: DQN Pro "
            "and friends.\n\n" + "\n".join(lines) + "\n\n`proxrl COMMAND --help` says more."
        )
        return
    if arguments[0] == "--version":
        from proxrl import __version__

        print(f"proxrl {__version__}")
        return
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise UserError(f"unknown command {name}: choose from {', '.join(COMMANDS)}")
    COMMANDS[name](rest)


def default_folder(config: RunConfig) -> Path:
    """runs/dqn-pro_ALE-Breakout-v5_seed1"""
    env = re.sub(r"[^A-Za-z0-9.-]+", "-", config.env)
    return Path("runs") / f"{config.agent}_{env}_seed{config.seed}"


def _check_epsilon(epsilon: float | None) -> None:
    if epsilon is not None and not 0 <= epsilon <= 1:
        raise UserError(f"--epsilon {epsilon} cannot be: it must lie in [0, 1]")


def _print_finished(folder: Path) -> None:
    print(f"finished: {folder} (score it: proxrl eval {folder}; film it: proxrl play {folder})")


def _value_of(option: str, arguments: list[str]) -> str | None:
    """The value given to an option, before the rest can be parsed."""
    for position, argument in enumerate(arguments):
        if argument == option and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(option + "="):
            return argument.removeprefix(option + "=")
    return None


def _parse(
    kind: type[Options],
    arguments: list[str],
    program: str,
    default: Any = None,
    conf: tuple[Any, ...] = (tyro.conf.FlagConversionOff,),
) -> Options:
    """Options by tyro; what it finds wrong becomes one line."""
    words: dict[str, Any] = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options: Options = tyro.cli(kind, args=arguments, prog=program, config=conf, **words)
            return options
    except SystemExit as leaving:
        if not leaving.code:
            raise
    raise UserError(f"{_one_line(complaint.getvalue())} (see {program} --help)")


def _one_line(box: str) -> str:
    """The message in tyro's box (title, message and hints, ruled apart), and its nearest option."""
    inside = "\n".join(line.strip("│╭╮╰╯ ") for line in box.splitlines())
    _, message, *hints = (" ".join(part.split()) for part in re.split("[─-]{4,}", inside))
    message = re.sub(
        r"invalid literal for int\(\) with base 10: ('[^']*')",
        r"\1 is not a whole number (write 1_000_000, not 1e6)",
        message,
    )
    near = re.search(r"Perhaps you meant: (--\S+)", " ".join(hints))
    return f"{message}; did you mean {near.group(1)}?" if near else message


def _leave(line: str, code: int) -> None:
    print(line, file=sys.stderr)
    sys.exit(code)
