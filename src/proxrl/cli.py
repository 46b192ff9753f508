"""The command line: parsing and printing only. torch is imported only by commands that need it.

A command parses its arguments and returns a function that does the work, so that a command line can
be checked without running it: `parse(["plan", "--theory"])`.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from proxrl.config import RunConfig, flatten, validated
from proxrl.config.options import describe_options
from proxrl.errors import RunFailed, UserError
from proxrl.suites import BUILT_IN, presets

Options = TypeVar("Options")
Work = Callable[[], None]


# ------------------------------------------------------------------------------------ the commands


@dataclass(frozen=True)
class TrainOptions:
    """Train a preset on an environment. Steps are agent steps, updates are gradient updates."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]
    folder: Path | None = None
    """Run folder to create; default: runs/AGENT_ENV_seedN."""


def train(arguments: list[str]) -> Work:
    """train a preset: proxrl train dqn-pro --env ALE/Breakout-v5 --seed 1"""
    wants_help = bool({"-h", "--help"} & set(arguments))
    names = ", ".join(presets.AGENTS)
    if not arguments or arguments[0].startswith("-"):
        if not wants_help:
            raise UserError(f"missing argument: PRESET, one of {names}")
        return lambda: print(
            f"usage: proxrl train PRESET --env ID [OPTIONS]\n\nPRESET is one of {names}; "
            "`proxrl train PRESET --env ID --help` lists every setting with its value."
        )
    agent, rest = arguments[0], arguments[1:]
    env = _value_of("--env", rest)
    if env is None and not wants_help:
        raise UserError(
            f"missing option --env: {', '.join(f'--env {one.base.env}' for one in BUILT_IN)} "
            "or any Gymnasium id with discrete actions"
        )
    rule = _value_of("--proximal.rule", rest)
    if wants_help and rule is not None and ":" in rule:
        from proxrl.proximal.rules import rule_kind

        print(
            f"proximal.options of {rule}, KEY=VALUE:\n{describe_options(rule_kind(rule).Options)}\n"
        )
    default = TrainOptions(presets.make(agent, BUILT_IN[0].base.env if env is None else env))
    options = _parse_settings(TrainOptions, rest, f"proxrl train {agent}", default)
    config = validated(options.config)
    folder = options.folder or default_folder(config)

    def work() -> None:
        from proxrl.training import run
        from proxrl.training.progress import display_for_terminal

        run.train(config, folder, display_for_terminal())
        _print_finished(folder)

    return work


@dataclass(frozen=True)
class ResumeOptions:
    """Continue a run from its newest checkpoint, or extend a finished one. Only total steps,
    evaluation and logging settings may change."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]


def resume(arguments: list[str]) -> Work:
    """continue a run, or extend it: proxrl resume RUN --steps 2_000_000"""
    from proxrl.runs.folder import RunFolder

    if not arguments or arguments[0].startswith("-"):
        if not {"-h", "--help"} & set(arguments):
            raise UserError("missing argument: RUN, the folder to resume")
        return lambda: print(
            "usage: proxrl resume RUN [--steps N] [--evaluation.* V] [--logging.* V]\n\n"
            + " ".join((ResumeOptions.__doc__ or "").split())
        )
    folder, rest = Path(arguments[0]), arguments[1:]
    default = ResumeOptions(RunFolder(folder).config())
    options = _parse_settings(ResumeOptions, rest, f"proxrl resume {folder}", default)

    def work() -> None:
        from proxrl.training import run
        from proxrl.training.progress import display_for_terminal

        run.resume(folder, options.config, display_for_terminal())
        _print_finished(folder)

    return work


@dataclass(frozen=True)
class EvalOptions:
    """Evaluate a run's newest checkpoint: undiscounted, unclipped returns with their protocol."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    episodes: int = 30
    """Episodes to play."""
    epsilon: float | None = None
    """Probability of a random action; default: the run's evaluation.epsilon."""


def evaluate(arguments: list[str]) -> Work:
    """evaluate a run: proxrl eval RUN --episodes 30"""
    options = _parse(EvalOptions, arguments, "proxrl eval")
    if options.episodes < 1:
        raise UserError(f"invalid --episodes {options.episodes}: must be at least 1")
    _check_epsilon(options.epsilon)

    def work() -> None:
        from proxrl.training.view import evaluate_run

        evaluate_run(options.run, options.episodes, options.epsilon)

    return work


@dataclass(frozen=True)
class PlayOptions:
    """Record a video of an episode of a run's newest checkpoint."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    out: Path | None = None
    """Video file to write, .mp4 or .gif; default: RUN/videos/step-N.mp4."""
    epsilon: float | None = None
    """Probability of a random action; default: the run's evaluation.epsilon."""
    max_steps: int = 5_000
    """Maximum length of the video in agent steps."""


def play(arguments: list[str]) -> Work:
    """record a video of an episode: proxrl play RUN"""
    options = _parse(PlayOptions, arguments, "proxrl play")
    if options.max_steps < 1:
        raise UserError(f"invalid --max-steps {options.max_steps}: must be at least 1")
    _check_epsilon(options.epsilon)

    def work() -> None:
        from proxrl.training.view import film_run

        film_run(options.run, options.out, options.epsilon, options.max_steps)

    return work


@dataclass(frozen=True)
class RunsOptions:
    """List the runs below a folder with progress, last return and speed."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Folder to search, at any depth."""


def runs(arguments: list[str]) -> Work:
    """list runs: proxrl runs DIR"""
    options = _parse(RunsOptions, arguments, "proxrl runs")

    def work() -> None:
        from proxrl.runs.listing import list_runs

        list_runs(options.folder)

    return work


def report(arguments: list[str]) -> Work:
    """make a report with figures from run folders: proxrl report DIR"""
    from proxrl.report.command import ReportOptions, make_report

    options = _parse(ReportOptions, arguments, "proxrl report")

    def work() -> None:
        page, summary = make_report(
            options.folder,
            options.out,
            options.baselines,
            options.steps,
            options.resamples,
            say=lambda line: print(f"proxrl: {line}", file=sys.stderr),
        )
        print("\n".join(summary))
        print(
            f"wrote {page} (open it in a browser), {page.parent}/scores.csv, {page.parent}/figures/"
        )

    return work


@dataclass(frozen=True)
class PresetsOptions:
    """List presets and their differences."""


def list_presets(arguments: list[str]) -> Work:
    """list presets and their differences"""
    _parse(PresetsOptions, arguments, "proxrl presets")
    from proxrl.suites.show import show_presets

    return show_presets


def plan(arguments: list[str]) -> Work:
    """tabular planning (PMPI): the paper's Figure 1, or a check of its theorems (--theory)"""
    from proxrl.planning import command

    options = _parse(command.PlanOptions, arguments, "proxrl plan")

    def work() -> None:
        command.run(options)

    return work


def study(arguments: list[str]) -> Work:
    """run all experiments of a figure, resumable: proxrl study main --scale session"""
    from proxrl.studies import command

    options = _parse(command.StudyOptions, arguments, "proxrl study")
    return lambda: command.run(options)


def tune(arguments: list[str]) -> Work:
    """search for the best kappa or other settings: proxrl tune dqn-pro --env CartPole-v1"""
    from proxrl.tuning import command

    return command.parse(arguments, _value_of("--env", arguments), _parse_settings)


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
    """Folder for the two runs and the report; run the demo again to continue."""


def demo(arguments: list[str]) -> Work:
    """train DQN and DQN Pro side by side on MinAtar, about five minutes"""
    options = _parse(DemoOptions, arguments, "proxrl demo")

    def work() -> None:
        from proxrl.studies.demo import run_demo

        run_demo(options.game, options.steps, options.seed, options.folder)

    return work


COMMANDS: dict[str, Callable[[list[str]], Work]] = {
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
    "tune": tune,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user error prints one line and exits with 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.path.insert(0, "")  # the user's own modules, as `python -m` would find them
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals without Unicode
    try:
        parse(arguments)()
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


def parse(arguments: list[str]) -> Work:
    """Parse a command line and return the function that runs it; raises `UserError`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        return _print_help
    if arguments[0] == "--version":
        return _print_version
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise UserError(f"unknown command {name}: choose from {', '.join(COMMANDS)}")
    return COMMANDS[name](rest)


def _print_help() -> None:
    lines = [f"  {name:<9} {command.__doc__}" for name, command in COMMANDS.items()]
    print(
        "usage: proxrl COMMAND [OPTIONS]\n\nProximal deep reinforcement learning: DQN Pro "
        "and Rainbow Pro.\n\n" + "\n".join(lines) + "\n\nRun `proxrl COMMAND --help` for details."
    )


def _print_version() -> None:
    from proxrl import __version__

    print(f"proxrl {__version__}")


def default_folder(config: RunConfig) -> Path:
    """runs/dqn-pro_ALE-Breakout-v5_seed1"""
    env = re.sub(r"[^A-Za-z0-9.-]+", "-", config.env)
    return Path("runs") / f"{config.agent}_{env}_seed{config.seed}"


def _check_epsilon(epsilon: float | None) -> None:
    if epsilon is not None and not 0 <= epsilon <= 1:
        raise UserError(f"invalid --epsilon {epsilon}: must be in [0, 1]")


def _print_finished(folder: Path) -> None:
    print(f"finished: {folder} (evaluate: proxrl eval {folder}; video: proxrl play {folder})")


def _value_of(option: str, arguments: list[str]) -> str | None:
    """The value of an option, before the rest is parsed."""
    for position, argument in enumerate(arguments):
        if argument == option and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(option + "="):
            return argument.removeprefix(option + "=")
    return None


def _parse_settings(
    kind: type[Options], arguments: list[str], program: str, default: Any
) -> Options:
    """Options with a `RunConfig`: its switches take True, False or no value (True)."""
    switches = {
        path.replace("_", "-")
        for path, value in flatten(default.config).items()
        if isinstance(value, bool)
    }
    explicit: list[str] = []
    for argument, following in pairwise([*arguments, "--"]):
        explicit.append(argument)
        is_switch = argument.removeprefix("--").replace("_", "-") in switches
        if argument.startswith("--") and is_switch and following.startswith("-"):
            explicit.append("True")
    return _parse(kind, explicit, program, default, (tyro.conf.FlagConversionOff,))


def _parse(
    kind: type[Options],
    arguments: list[str],
    program: str,
    default: Any = None,
    conf: tuple[Any, ...] = (tyro.conf.FlagCreatePairsOff,),
) -> Options:
    """Parse options with tyro, booleans as bare flags; its errors become one line."""
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
    """The message in tyro's box (title, message and hints, separated by rules) on one line."""
    inside = "\n".join(line.strip("│╭╮╰╯ ") for line in box.splitlines())
    _, message, *hints = (" ".join(part.split()) for part in re.split("[─-]{4,}", inside))
    message = re.sub(
        r"invalid literal for int\(\) with base 10: ('[^']*')",
        r"\1 is not an integer (write 1_000_000, not 1e6)",
        message,
    )
    near = re.search(r"Perhaps you meant: (--\S+)", " ".join(hints))
    return f"{message}; did you mean {near.group(1)}?" if near else message


def _leave(line: str, code: int) -> None:
    print(line, file=sys.stderr)
    sys.exit(code)
