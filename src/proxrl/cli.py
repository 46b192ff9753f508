"""The command line: parsing, printing, and what must be set before torch is imported, which only
commands that need it do.

A command parses its arguments and returns a function that does the work, so that a command line can
be checked without running it: `parse(["plan", "--theory"])`.
"""

import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from proxrl.commands.completion import completion
from proxrl.commands.parsing import parse_options, parse_settings, value_of
from proxrl.commands.train import resume, train
from proxrl.commands.view import evaluate, play, runs
from proxrl.errors import RunFailed, UserError, did_you_mean, printable
from proxrl.extras import explain, require

Work = Callable[[], None]
NUMBER = re.compile(r"[+-]?[0-9][0-9_]*(\.[0-9_]*)?([eE][+-]?[0-9]+)?")
MOST_DIGITS = 40  # characters of a number
SPINS = 10_000  # rounds that a thread waits for the others before it sleeps
LONGEST_WORD = 250  # characters: longer ones are shortened in error messages


# ------------------------------------------------------------------------------------ the commands


def report(arguments: list[str]) -> Work:
    """make a report from runs and logs: pages, figures, scores"""
    require("report", "proxrl report")
    from proxrl.report.command import ReportOptions, make_report

    options = parse_options(ReportOptions, arguments, "proxrl report")

    def work() -> None:
        page, summary = make_report(
            options.folders,
            options.out,
            options.baselines,
            options.steps,
            options.resamples,
            lambda line: print(f"proxrl: {printable(line)}", file=sys.stderr),
            options.env,
            options.agent,
            options.layout,
        )
        print("\n".join(summary))
        print(f"wrote {page} (open it in a browser), scores.csv and figures")

    return work


@dataclass(frozen=True)
class PresetsOptions:
    """List presets and their differences."""


def list_presets(arguments: list[str]) -> Work:
    """list the agents and their settings in each suite"""
    parse_options(PresetsOptions, arguments, "proxrl presets")
    from proxrl.suites.show import show_presets

    return show_presets


def plan(arguments: list[str]) -> Work:
    """tabular planning (PMPI): the paper's Figure 1 and its theorems"""
    require("report", "proxrl plan")
    from proxrl.planning import command

    options = parse_options(command.PlanOptions, arguments, "proxrl plan")

    def work() -> None:
        command.run(options)

    return work


def study(arguments: list[str]) -> Work:
    """run all experiments of a figure of the paper, or your own"""
    from proxrl.studies import command

    options = parse_options(command.StudyOptions, arguments, "proxrl study")
    return lambda: command.run(options)


def tune(arguments: list[str]) -> Work:
    """search for the best pull, or other settings, with Optuna"""
    require("report", "proxrl tune")
    from proxrl.tuning import command

    return command.parse(arguments, value_of("--env", arguments), parse_settings)


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
    """Folder for the two runs and the report; run the demo again to continue. Another game or seed
    needs another folder."""


def demo(arguments: list[str]) -> Work:
    """train DQN and DQN Pro side by side: about five minutes"""
    options = parse_options(DemoOptions, arguments, "proxrl demo")

    def work() -> None:
        from proxrl.studies.demo import run_demo

        run_demo(options.game, options.steps, options.seed, options.folder)

    return work


COMMANDS: dict[str, Callable[[list[str]], Work]] = {
    "demo": demo,
    "train": train,
    "resume": resume,
    "runs": runs,
    "eval": evaluate,
    "play": play,
    "report": report,
    "study": study,
    "tune": tune,
    "presets": list_presets,
    "plan": plan,
    "completion": completion,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user error prints one line and exits with 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals without Unicode
    limit_spinning()
    try:
        parse(arguments)()
    except UserError as error:
        _leave(f"proxrl: {error}", 2)
    except RunFailed as error:
        _leave(f"proxrl: {error}", 1)
    except ModuleNotFoundError as error:
        missing = explain(error, "this command")
        if missing is error:
            raise
        _leave(f"proxrl: {missing}", 2)
    except BrokenPipeError:  # before OSError
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # a name that is too long, a read-only or full file system
        where = f" ({str(error.filename)[:80]})" if error.filename else ""
        _leave(f"proxrl: {error.strerror or error}{where}", 2)
    except KeyboardInterrupt as stopped:
        number = getattr(stopped, "signal_number", 2)
        _leave(f"proxrl: {stopped}" if str(stopped) else "proxrl: stopped", 128 + number)


# ----------------------------------------------------------------------------------------- details


def limit_spinning() -> None:
    """Let threads that wait for one another sleep early, unless the user decides otherwise.

    By default libgomp, which torch uses, spins for 300,000 rounds. While other processes keep the
    cores busy, a waiting thread then takes the core that the others need: at times a run of two
    threads became ten times slower (docs/results.md). Results do not depend on it. libgomp reads it
    when torch is imported; processes of a study on this machine inherit it.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = str(SPINS)


def parse(arguments: list[str]) -> Work:
    """Parse a command line and return the function that runs it; raises `UserError`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        return _print_help
    option = ""
    for before, argument in pairwise(["proxrl", *arguments]):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            raise UserError(f"empty value after {argument.removesuffix('=') or before}")
        if "\0" in argument:
            raise UserError(f"invalid argument after {before}: it contains a null character")
        value = argument
        if argument.startswith("--"):
            option, _, value = argument.partition("=")
        if option and NUMBER.fullmatch(value) and not _is_representable(value):
            raise UserError(f"invalid {option} {value[:20]}...: too large, or too many digits")
    if arguments[0] == "--version":
        return _print_version
    name, rest = arguments[0], arguments[1:]
    if name == "help":
        return parse([*rest[:1], "--help"])
    if name not in COMMANDS:
        near = did_you_mean(name, COMMANDS) or f": choose from {', '.join(COMMANDS)}"
        raise UserError(f"unknown command {name}{near}")
    return COMMANDS[name](rest)


def _is_representable(number: str) -> bool:
    """Whether a number that was typed is not rounded to infinity, and no accident."""
    return len(number) <= MOST_DIGITS and math.isfinite(float(number.replace("_", "")))


def _print_help() -> None:
    print(
        "usage: proxrl COMMAND [OPTIONS]\n\n"
        "Proximal deep reinforcement learning: DQN Pro and Rainbow Pro.\n\n"
        + "\n".join(f"  {name:<11} {command.__doc__}" for name, command in COMMANDS.items())
        + "\n\nFor example:\n"
        "  proxrl train dqn-pro --env CartPole-v1   # a minute or two\n"
        "  proxrl runs                              # what there is\n"
        "  proxrl report runs                       # a page with learning curves\n"
        "\nRun `proxrl COMMAND --help` for details."
    )


def _print_version() -> None:
    from proxrl import __version__

    print(f"proxrl {__version__}")


def _leave(line: str, code: int) -> None:
    line = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: word[0][:40] + "...", line)
    print(printable(line), file=sys.stderr)
    sys.exit(code)
