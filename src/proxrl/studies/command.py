"""`proxrl study`: each figure of the paper as one command. Parsing and printing (no torch)."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

from proxrl.config import RunConfig
from proxrl.errors import RunFailed, UserError
from proxrl.extras import require
from proxrl.studies.definition import BUILT_IN, Scale, Study, load
from proxrl.studies.expand import Job, expand, scale_of
from proxrl.studies.listing import print_list
from proxrl.studies.placement import (
    connected_to,
    executor_for,
    require_valid_placement,
    sigterm_as_interrupt,
)

if TYPE_CHECKING:
    from proxrl.studies.board import Board

PLAN_MEMORY = 400_000_000  # bytes; Figure 1 on FrozenLake peaked at 317 MB


@dataclass(frozen=True)
class StudyOptions:
    """Run a study: all runs of a figure, in parallel and resumable, and its report. Repeat the
    command to continue: only missing and unfinished runs are run.

      proxrl study --list
      proxrl study main --scale session --dry-run
      proxrl study main --scale session
      proxrl study main --scale laptop --games Breakout Asterix --seeds 0 1
    """

    study: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="STUDY")]] = None
    """Name of a built-in study (see --list), or a TOML file of your own."""
    scale: str = "session"
    """smoke (a minute), session (2 small games), laptop (5 small games), paper (55 games), or one
    of the study's own."""
    list: bool = False
    """List the built-in studies and stop."""
    dry_run: bool = False
    """Print the runs and the memory, disk and time they need, and stop."""
    games: tuple[str, ...] = ()
    """Only these games of the scale."""
    seeds: tuple[int, ...] = ()
    """Only these seeds of the scale."""
    only: tuple[str, ...] = ()
    """Only these variants of the study."""
    folder: Path | None = None
    """Where the runs go; default: runs/STUDY-SCALE."""
    executor: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: tasks on a Ray cluster (needs the extra `ray`)."""
    address: str = "auto"
    """Address of the Ray cluster: auto (on one of its nodes) or HOST:PORT."""
    gpus: float = 0.0
    """GPUs per run on the Ray cluster; 0.25 puts four runs on one GPU."""
    jobs: int | None = None
    """Maximum number of runs at the same time; default: as many as cores and memory allow."""
    tensorboard: bool = False
    """Write TensorBoard events of every run, which the built-in scales do not: `tensorboard
    --logdir FOLDER`."""
    export: Path | None = None
    """Folder to copy the report's input to afterwards: study.json, and config.json and
    metrics.jsonl of every run (no weights, no replay). Runs that it has in full, and that were
    not started here, are not run again."""


def run(options: StudyOptions) -> None:
    """Run the command; raises `UserError` for a mistake, `RunFailed` at the end if a run failed."""
    if options.list:
        print_list(_console())
        return
    if options.study is None:
        raise UserError(
            f"missing argument: STUDY, one of {', '.join(BUILT_IN)}, or a file (see --list)"
        )
    require_valid_placement(options)
    study = load(options.study)
    run_study(options, study, chosen_scale(options, study))


def chosen_scale(options: StudyOptions, study: Study) -> Scale:
    """The scale that the options select."""
    scale = scale_of(study, options.scale)
    if options.tensorboard:
        scale = replace(scale, settings={**scale.settings, "logging.tensorboard": True})
    return scale


def _console() -> Console:
    """Texts are printed as they are: names may look like markup."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 140  # a pipe has none
    return console


def run_study(options: StudyOptions, study: Study, scale: Scale) -> None:
    """Run one study at one scale, both loaded and checked."""
    console = _console()
    folder = options.folder or Path("runs") / f"{study.name}-{scale.name}"
    if study.plan is not None:
        _plan(study, scale, folder, options)
        return
    jobs = expand(study, scale, folder, options.games, options.seeds, options.only)

    from proxrl.studies.board import Board, require_same
    from proxrl.studies.folder import opened, require_exportable, require_same_study

    require_same_study(folder, study, scale)
    if options.export is not None:
        require_exportable(options.export, study, scale, jobs, folder)
    require_same(jobs)
    _require_one_report(jobs)
    _require_environments(jobs)
    if options.export is not None:
        jobs = _not_exported(console, jobs, folder, options.export)
        if not jobs:
            return
    if not options.dry_run:
        require("report", "the report of a study")
    else:
        from proxrl.studies.dry_run import print_dry_run

        print_dry_run(console, study, scale, Board(jobs), folder, options.executor, options.jobs)
        return
    if options.executor == "ray" and any(job.config.threads == 0 for job in jobs):
        raise UserError(
            f"set threads in scales.{scale.name}: on a cluster it must not depend on the node"
        )
    with connected_to(options) as ray, opened(folder, study, scale):
        board = _conducted(console, study, scale, jobs, folder, options, ray)
        _finish(console, board, folder, options.export)


def _conducted(
    console: Console,
    study: Study,
    scale: Scale,
    jobs: list[Job],
    folder: Path,
    options: StudyOptions,
    ray: Any,
) -> "Board":
    """Run what is missing or unfinished; returns the final board."""
    from proxrl.studies.adopt import adopt
    from proxrl.studies.board import Board
    from proxrl.studies.conduct import conduct
    from proxrl.studies.estimate import needs_of, require_disk
    from proxrl.studies.table import Show, summary

    adopted = adopt(jobs, folder)
    if adopted:
        console.print(f"finished runs copied from studies next to {folder}: {adopted}")
    board = Board(jobs)
    if not board.of("waiting"):
        console.print(f"all {len(jobs)} runs in {folder} are finished")
        return board
    waiting = [entry.job for entry in board.of("waiting")]
    needs = needs_of(waiting, calibrate=False)
    executor = executor_for(options, waiting, needs, folder, ray, console.print)
    title = study.title
    if study.scales:  # not `proxrl train --seeds`
        title = f"{study.name} at scale {scale.name}: {title}"
    console.print(f"{title}\n{summary(board)}; in {folder}")
    try:
        require_disk(board, needs, executor.at_once, folder)
        with Show(title) as show, sigterm_as_interrupt():
            conduct(board, executor, show)
    except KeyboardInterrupt as stopped:
        line = f"stopped: {summary(board)}; the same command continues it"
        try:
            _export(console, [entry.job for entry in board.of("finished")], folder, options.export)
        except (UserError, OSError) as error:
            line += f"; {error}"
        said = KeyboardInterrupt(line)
        said.signal_number = getattr(stopped, "signal_number", 2)  # type: ignore[attr-defined]
        raise said from None
    return board


def _not_exported(console: Console, jobs: list[Job], folder: Path, out: Path) -> list[Job]:
    """The jobs without those that an earlier export has in full."""
    from proxrl.studies.folder import complete_in

    there = set(complete_in(out, jobs, folder))
    if there:
        console.print(
            f"{len(there)} of {len(jobs)} runs are complete in {out} and are not run again; "
            f"the report of all: proxrl report {out}"
        )
    return [job for job in jobs if job not in there]


def _export(console: Console, jobs: list[Job], folder: Path, out: Path | None) -> None:
    """Export these runs, if requested."""
    from proxrl.studies.folder import export

    if out is not None and jobs:
        number = export(jobs, folder, out)
        console.print(f"exported {'1 run' if number == 1 else f'{number} runs'} to {out}")


def _finish(console: Console, board: "Board", folder: Path, out: Path | None) -> None:
    """Print the failures, export, make the report."""
    from proxrl.runs.folder import RunFolder

    failed = board.of("failed")
    for entry in failed:
        console.print(f"{entry.job.name} failed; the end of its log:")
        for line in RunFolder(entry.job.folder).log_tail():
            console.print(f"    {line}")
    _export(console, list(board.entries), folder, out)
    if board.of("finished"):
        from proxrl.report.command import make_report

        page, words = make_report(folder, say=console.print)
        console.print("\n".join(words))
        console.print(f"report (open it in a browser): {page}")
        if out is not None:
            console.print(f"of all runs that were ever exported there: proxrl report {out}")
    if failed:
        raise RunFailed(
            f"{len(failed)} of {len(board.entries)} runs failed, first {failed[0].job.name}: "
            "fix the cause (restore damaged files, or delete the run's folder), then the same "
            "command retries them"
        )


def _plan(study: Study, scale: Scale, folder: Path, options: StudyOptions) -> None:
    """Run a planning study: no runs, one experiment."""
    from proxrl.planning import command
    from proxrl.runs.study_file import STUDY
    from proxrl.studies.folder import (
        export_files,
        opened,
        require_exportable,
        require_same_study,
    )
    from proxrl.training.amounts import gigabytes

    usual = StudyOptions()
    for name in ("games", "seeds", "only", "executor", "jobs", "tensorboard"):
        if getattr(options, name) != getattr(usual, name):
            raise UserError(f"invalid --{name}: {study.name} is a planning study and has no runs")
    chosen = command.PlanOptions(**{**(study.plan or {}), **scale.plan}, out=folder)
    require_same_study(folder, study, scale)
    if options.export is not None:
        require_exportable(options.export, study, scale, [], folder)
    if options.dry_run:
        command.check(chosen)
        differs = [
            f"{field.name} = {getattr(chosen, field.name)}"
            for field in fields(chosen)
            if field.name != "out" and getattr(chosen, field.name) != field.default
        ]
        print(
            f"{study.name}: no runs; `proxrl plan`{' with ' * bool(differs)}{', '.join(differs)}: "
            f"seconds, less than {gigabytes(PLAN_MEMORY)} of memory, a few hundred kB in {folder}"
        )
        return
    with opened(folder, study, scale):
        written = command.run(chosen)
        if options.export is not None:
            export_files([*written, folder / STUDY], options.export)
            print(f"exported to {options.export}")


def _require_one_report(jobs: list[Job]) -> None:
    """Raise a `UserError` before anything runs if the report would be rejected at the end."""
    from proxrl.report.protocol import asked_of

    first = dict(asked_of(jobs[0].config))
    same: dict[RunConfig, Job] = {}
    for job in jobs:
        if job.config in same:
            raise UserError(f"{same[job.config].name} and {job.name} are the same run: keep one")
        same[job.config] = job
        for setting, value in asked_of(job.config):
            if value != first[setting]:
                raise UserError(
                    f"{setting} is {first[setting]} in {jobs[0].name} and {value} in {job.name}: "
                    "runs with different protocols cannot be in one report; make two studies"
                )


def _require_environments(jobs: list[Job]) -> None:
    """Raise a `UserError` if an environment is unknown or its package is missing; of a suite with a
    list of games, only one is created."""
    from proxrl.envs import make
    from proxrl.suites import suite_of

    seen = set()
    for job in jobs:
        suite = suite_of(job.config.env)
        key = suite.name if suite.games else job.config.env
        if key not in seen:
            seen.add(key)
            make(job.config.env, job.config.protocol).close()
