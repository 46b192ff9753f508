"""`proxrl eval`, `proxrl play` and `proxrl runs`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tyro

from proxrl.commands.parsing import parse_options
from proxrl.errors import UserError

MOST_EPISODES = 1_000_000


@dataclass(frozen=True)
class EvalOptions:
    """Evaluate a run's newest checkpoint: undiscounted, unclipped returns with their protocol.

    proxrl eval RUN
    proxrl eval RUN --episodes 100 --seed 1 --json
    """

    run: tyro.conf.Positional[Path]
    """Run folder."""
    episodes: int = 30
    """Episodes to play."""
    epsilon: float | None = None
    """Probability of a random action; default: the run's evaluation.epsilon."""
    seed: int | None = None
    """Seed of an independent evaluation; default: the episodes of the run's own evaluation at this
    step (bit-identical unless more are played side by side than in the run)."""
    json: bool = False
    """Print the result as one line of JSON."""
    trust: bool = False
    """Import the modules that the run names (an environment, network or proximal rule given as
    module:name), which executes their code."""


def evaluate(arguments: list[str]) -> Callable[[], None]:
    """evaluate a run"""
    options = parse_options(EvalOptions, arguments, "proxrl eval")
    if not 1 <= options.episodes <= MOST_EPISODES:
        raise UserError(f"invalid --episodes {options.episodes}: must be in [1, {MOST_EPISODES:,}]")
    if options.seed is not None and options.seed < 0:
        raise UserError(f"invalid --seed {options.seed}: must be non-negative")
    _check_epsilon(options.epsilon)

    def work() -> None:
        from proxrl.training.view import evaluate_run

        evaluate_run(
            options.run,
            options.episodes,
            options.epsilon,
            options.seed,
            options.json,
            options.trust,
        )

    return work


@dataclass(frozen=True)
class PlayOptions:
    """Record a video of an episode of a run's newest checkpoint.

    proxrl play RUN
    proxrl play RUN --out episode.gif
    """

    run: tyro.conf.Positional[Path]
    """Run folder."""
    out: Path | None = None
    """Video file to write, .mp4 or .gif; default: RUN/videos/step-N.mp4."""
    epsilon: float | None = None
    """Probability of a random action; default: the run's evaluation.epsilon."""
    max_steps: int = 5_000
    """Maximum length of the video in agent steps."""
    trust: bool = False
    """Import the modules that the run names (an environment, network or proximal rule given as
    module:name), which executes their code."""


def play(arguments: list[str]) -> Callable[[], None]:
    """record a video of an episode"""
    options = parse_options(PlayOptions, arguments, "proxrl play")
    if options.max_steps < 1:
        raise UserError(f"invalid --max-steps {options.max_steps}: must be at least 1")
    _check_epsilon(options.epsilon)

    def work() -> None:
        from proxrl.training.view import film_run

        film_run(options.run, options.out, options.epsilon, options.max_steps, options.trust)

    return work


@dataclass(frozen=True)
class RunsOptions:
    """List the runs below a folder with progress, last return and speed."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Folder to search, at any depth."""


def runs(arguments: list[str]) -> Callable[[], None]:
    """list runs with progress, last return and speed"""
    options = parse_options(RunsOptions, arguments, "proxrl runs")

    def work() -> None:
        from proxrl.runs.listing import list_runs

        list_runs(options.folder)

    return work


def _check_epsilon(epsilon: float | None) -> None:
    if epsilon is not None and not 0 <= epsilon <= 1:
        raise UserError(f"invalid --epsilon {epsilon}: must be in [0, 1]")
