"""`proxrl plan`: Figure 1 of the paper in seconds, an adaptive beta compared with the best fixed
one (`--adaptive`), or a check of the theorems claim by claim (`--theory`).

Parsing and printing only. SciPy, Gymnasium and Matplotlib are imported only when needed, so that
`--help` is fast.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from proxrl.errors import UserError

if TYPE_CHECKING:
    from proxrl.paper.planning import Finding
    from proxrl.planning.comparison import Comparison, Problem
    from proxrl.planning.figure import Figure1
    from proxrl.planning.mdp import MDP


@dataclass(frozen=True)
class PlanOptions:
    """Exact planning with a proximal term: Figure 1, an adaptive beta, or the theorems on random
    MDPs.

      proxrl plan
      proxrl plan --env FrozenLake-v1 --noise 0.1 --n 1 3 inf
      proxrl plan --adaptive
      proxrl plan --theory
    """

    env: str | None = None
    """Gymnasium environment with a transition table: FrozenLake-v1, Taxi-v4, CliffWalking-v1, ...;
    default: FrozenLake8x8-v1, or with --adaptive FrozenLake 4x4 and 8x8, Taxi and random MDPs."""
    mdp: Path | None = None
    """An .npz file with transitions [actions, states, states], rewards [actions, states] and
    discount, instead of env."""
    slippery: bool | None = None
    """FrozenLake and CliffWalking: whether moves may slip; default: the environment's default."""
    discount: float | None = None
    """gamma, in [0, 1); default: the file's, or 0.99 for an environment (not in the paper)."""
    n: tuple[int | Literal["inf"], ...] = (1, 3)
    """Applications of the Bellman operator per iteration; one panel each."""
    beta: tuple[float, ...] | None = None
    """Grid of proximal weights in [0, 1]; default: 41 from 0 to 1 (not in the paper)."""
    c: tuple[float, ...] | None = None
    """The grid in terms of c > 0 instead: beta = 1/(1 + c)."""
    noise: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
    """Standard deviations of the evaluation noise, in units of value, with --adaptive in units of
    the span of v* (not in the paper)."""
    noise_kind: Literal["gaussian", "uniform"] = "gaussian"
    """Distribution of the noise (not in the paper)."""
    greedy_error: float = 0.0
    """Greedification error, in units of value: any action within it of the best may be taken."""
    iterations: int = 100
    """Iterations of PMPI before the policy is evaluated."""
    seeds: int = 30
    """Number of runs to average, each with different noise."""
    seed: int = 0
    """First seed."""
    out: Path = Path("runs/plan")
    """Folder for figure1.png, figure1.svg and figure1.csv; with --adaptive, adaptive.*."""
    adaptive: bool = False
    """Compare an adaptive beta with beta = 0 and with the best fixed beta."""
    garnets: int = 100
    """Random MDPs for --adaptive; 0: none."""
    theory: bool = False
    """Check the paper's claims on random MDPs instead of drawing Figure 1."""
    mdps: int = 1000
    """Random MDPs for --theory."""


def run(options: PlanOptions) -> list[Path]:
    """Run the command and print the results; returns the files written."""
    console = Console(markup=False)
    if not console.is_terminal:
        console = Console(width=120, markup=False)  # a pipe has no width
    _require_counts(options)
    if options.theory:
        _theory(options, console)
        return []
    if options.adaptive:
        return _adaptive(options, console)
    return _figure(options, console)


def check(options: PlanOptions) -> None:
    """Raise `UserError` for invalid options, by running one iteration of one seed."""
    _require_counts(options)
    _check_folder(options.out)
    few = replace(
        options,
        iterations=min(1, options.iterations),
        seeds=min(1, options.seeds),
        garnets=min(1, options.garnets),
    )
    compute = _compare if options.adaptive else _compute_figure
    compute(few, lambda done, total: None)


def _require_counts(options: PlanOptions) -> None:
    """Raise `UserError` for a number that is too small, also of what will not be computed."""
    for name, least in (("seeds", 1), ("mdps", 1), ("seed", 0), ("garnets", 0)):
        value = getattr(options, name)
        if value < least:
            how = f"at least {least}" if least else "non-negative"
            raise UserError(f"{name} must be {how}, got {value}")
    if options.theory and options.adaptive:
        raise UserError("--theory and --adaptive cannot be combined")
    for level in options.noise:
        if not 0.0 <= level < math.inf:
            raise UserError(f"a noise level must be finite and non-negative, got {level:g}")


def _figure(options: PlanOptions, console: Console) -> list[Path]:
    from proxrl.planning.figure import save

    _check_folder(options.out)
    with _progress("PMPI iterations") as advance:
        result = _compute_figure(options, advance)
    written = _save(lambda: save(result, options.out), options.out)
    console.print(_best_table(result))
    _print_paths(written, console)
    return written


def _adaptive(options: PlanOptions, console: Console) -> list[Path]:
    from proxrl.planning.comparison import save

    _check_folder(options.out)
    with _progress("% of the comparison") as advance:
        results = _compare(options, advance)
    written = _save(lambda: save(results, options.out), options.out)
    console.print(_comparison_table(results))
    cells = [cell for result in results for cell in result.not_worse.flat]
    near = [cell for result in results for cell in result.near_oracle.flat]
    console.print(
        f"not worse than β = 0 by over two standard errors: {sum(cells)} of {len(cells)} cells; "
        f"within 10% of the oracle: {sum(near)} of {len(near)}",
        highlight=False,
    )
    _print_paths(written, console)
    return written


def _compare(options: PlanOptions, advance: Callable[[int, int], None]) -> "list[Comparison]":
    from proxrl.planning.comparison import compare

    return compare(
        _problems(options),
        n=tuple(math.inf if one == "inf" else one for one in options.n),
        levels=options.noise,
        iterations=options.iterations,
        noise_kind=options.noise_kind,
        progress=advance,
    )


def _problems(options: PlanOptions) -> "tuple[Problem, ...]":
    """The given MDP, or the four default problems."""
    from proxrl.planning.comparison import Problem, problems

    for name in ("beta", "c"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is not allowed with --adaptive, which sets beta itself")
    if options.greedy_error:
        raise UserError("--greedy-error is not allowed with --adaptive")
    if options.env is not None or options.mdp is not None:
        mdp = _mdp(options)
        return (Problem(mdp.name, (mdp,), range(options.seed, options.seed + options.seeds)),)
    if options.slippery is not None:
        raise UserError("--slippery needs --env")
    discount = 0.99 if options.discount is None else options.discount
    return problems(options.seeds, options.seed, options.garnets, discount)


def _save(save: Callable[[], list[Path]], folder: Path) -> list[Path]:
    try:
        return save()
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None


def _print_paths(paths: list[Path], console: Console) -> None:
    for path in paths:
        console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)


def _compute_figure(options: PlanOptions, advance: Callable[[int, int], None]) -> "Figure1":
    from proxrl.planning.bregman import beta_from_c
    from proxrl.planning.figure import BETAS, figure1

    if options.beta is not None and options.c is not None:
        raise UserError("pass either --beta or --c (beta = 1/(1 + c)), not both")
    betas = BETAS if options.beta is None else options.beta
    if options.c is not None:
        betas = tuple(beta_from_c(options.c).tolist())
    return figure1(
        _mdp(options),
        n=tuple(math.inf if one == "inf" else one for one in options.n),
        betas=betas,
        levels=options.noise,
        seeds=options.seeds,
        iterations=options.iterations,
        noise_kind=options.noise_kind,
        greedy_error=options.greedy_error,
        seed=options.seed,
        progress=advance,
    )


def _theory(options: PlanOptions, console: Console) -> None:
    from proxrl.paper.planning import check_theory

    with _progress("random MDPs") as advance:
        findings = check_theory(
            options.mdps, options.seed, lambda done: advance(done, options.mdps)
        )
    verdicts = [finding for finding in findings if finding.row.kind != "outside"]
    outside = [finding for finding in findings if finding.row.kind == "outside"]
    console.print(_claims_table(verdicts, options.mdps))
    console.print(_outside_table(outside))
    kinds = {
        kind: [finding.as_expected for finding in findings if finding.row.kind == kind]
        for kind in ("claim", "refuted", "control", "direction")
    }
    console.print(
        f"claims that hold: {sum(kinds['claim'])} of {len(kinds['claim'])}; "
        f"statements of the paper that fail as printed: {sum(kinds['refuted'])}; "
        f"wrong bounds (controls) that fail: {sum(kinds['control'])} of {len(kinds['control'])}; "
        f"tendencies, reported as a share of cases: {len(kinds['direction'])}",
        highlight=False,
    )
    if not all(finding.as_expected for finding in findings):
        raise SystemExit(1)


def _mdp(options: PlanOptions) -> "MDP":
    from proxrl.planning.mdp import from_file, from_gymnasium

    if options.mdp is not None:
        return from_file(options.mdp, options.discount)
    discount = 0.99 if options.discount is None else options.discount
    settings = {} if options.slippery is None else {"is_slippery": options.slippery}
    return from_gymnasium(options.env or "FrozenLake8x8-v1", discount, **settings)


def _check_folder(folder: Path) -> None:
    """Fail before the computation, not after it."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise UserError(f"cannot write to {folder}: {existing} is not a writable directory")


def _best_table(result: "Figure1") -> Table:
    first, last = result.betas[0], result.betas[-1]
    table = Table(
        title=f"{result.mdp}: ‖V* − V^π‖∞ after {result.iterations} iterations of PMPI\n"
        f"γ = {result.discount:g}, {result.noise_kind} noise, mean ± standard error, "
        f"{result.seeds} seed{'s' * (result.seeds > 1)}, {len(result.betas)} betas"
    )
    columns = ("n", "noise", "best β", "error at best β", f"at β = {first:g}", f"at β = {last:g}")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("U-shape")
    table.add_column("β = 1 best")
    standstill = {1: "yes", 0: "undecided", -1: "no"}
    for panel, n in enumerate(result.n):
        for level, noise in enumerate(result.levels):
            cells = [
                _error(result.mean[panel, level, at], result.standard_error[panel, level, at])
                for at in (result.best[panel, level], 0, -1)
            ]
            table.add_row(
                "∞" if n == math.inf else f"{n:g}",
                f"{noise:g}",
                f"{result.betas[result.best[panel, level]]:.3g}",
                *cells,
                "yes" if result.is_u_shaped[panel, level] else "no",
                standstill[int(result.standstill[panel, level])],
                end_section=level == len(result.levels) - 1,
            )
    return table


def _comparison_table(results: "list[Comparison]") -> Table:
    from proxrl.planning.comparison import BETAS, TIE

    first = results[0]
    table = Table(
        title=f"‖V* − V^π‖∞ / span of v* after {first.iterations} iterations of PMPI, "
        f"{first.noise_kind} noise, mean ± standard error"
    )
    table.add_column("problem")
    for column in ("n", "noise", "β = 0", "oracle", "its β", "adaptive", "ratio"):
        table.add_column(column, justify="right")
    for result in results:
        for panel, n in enumerate(result.n):
            for level, noise in enumerate(result.levels):
                at = panel, level
                cells = {
                    name: _error(mean[at], result.standard_error[name][at])
                    for name, mean in result.mean.items()
                }
                oracle = result.mean["oracle"][at]
                ratio = f"{result.mean['adaptive'][at] / oracle:.2f}" if oracle > TIE else "–"
                good = result.near_oracle[at] and result.not_worse[at]
                table.add_row(
                    result.problem.name,
                    "∞" if n == math.inf else f"{n:g}",
                    f"{noise:g}",
                    *(cells["beta_0"], cells["oracle"]),
                    f"{BETAS[result.best_beta()[at]]:.3g}",
                    *(cells["adaptive"], ratio),
                    style="" if good else "bold",
                    end_section=level == len(result.levels) - 1,
                )
    return table


def _error(mean: float, standard_error: float) -> str:
    return f"{mean:.4f}" if math.isnan(standard_error) else f"{mean:.4f} ± {standard_error:.4f}"


def _claims_table(findings: "list[Finding]", mdps: int) -> Table:
    table = Table(title=f"the paper's claims on {mdps:,} random MDPs (tolerance 1e-10)")
    table.add_column("claim")
    table.add_column("what")
    table.add_column("verdict")
    table.add_column("worst margin", justify="right", no_wrap=True)
    for finding in findings:
        style = "" if finding.as_expected else "bold red"
        if finding.row.kind != "claim" and finding.as_expected:
            style = "dim"
        table.add_row(
            finding.row.id,
            finding.row.text,
            finding.verdict,
            f"{finding.worst + 0.0:.1e}",
            style=style,
        )
    return table


def _outside_table(findings: "list[Finding]") -> Table:
    table = Table(title="outside Theorem 1's assumptions: measured only (sup norm)")
    table.add_column("what")
    table.add_column("measured")
    table.add_column("largest ratio", justify="right", no_wrap=True)
    for finding in findings:
        table.add_row(finding.row.text, finding.verdict, f"{1.0 - finding.worst:.4f}")
    return table


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal (stderr); otherwise a line every 10%."""
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        tenths = set[int]()

        def line(done: int, total: int) -> None:
            tenth = 10 * done // total
            if tenth not in tenths and tenth > 0:
                tenths.add(tenth)
                console.print(f"{done:,}/{total:,} {what}", highlight=False)

        yield line
        return
    columns = (
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)
