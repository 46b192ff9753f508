"""Where the runs of a study or a search are executed, and how a signal ends them."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from proxrl.errors import UserError
from proxrl.studies.expand import Job

if TYPE_CHECKING:
    from proxrl.studies.conduct import Executor
    from proxrl.training.resources import Requirements


class Placement(Protocol):
    """The options that say where runs are executed."""

    @property
    def executor(self) -> Literal["local", "ray"]: ...
    @property
    def address(self) -> str: ...
    @property
    def gpus(self) -> float: ...
    @property
    def jobs(self) -> int | None: ...


def require_valid_placement(options: Placement) -> None:
    """Raise a `UserError` for the first invalid option."""
    if options.jobs is not None and options.jobs < 1:
        raise UserError(f"invalid --jobs {options.jobs}: must be at least 1")
    if options.gpus and options.executor == "local":
        raise UserError(f"invalid --gpus {options.gpus:g}: only for --executor ray")
    if options.gpus and not (1e-4 <= options.gpus < 1 or options.gpus in range(1, 1025)):
        raise UserError(
            f"invalid --gpus {options.gpus:g}: must be a share of one GPU (0.25) or a whole number"
        )


def connected_to(options: Placement) -> AbstractContextManager[Any]:
    """Connect to Ray if requested, before anything is written; yields the `ray` module."""
    if options.executor == "local":
        return nullcontext()
    from proxrl.studies.cluster import connected

    return connected(options.address)


def executor_for(
    options: Placement,
    jobs: list[Job],
    needs: "dict[str, Requirements]",
    folder: Path,
    ray: Any,
    say: Callable[[str], None],
) -> "Executor":
    """The executor that the options select; `say` receives what a cluster should know."""
    if options.executor == "local":
        from proxrl.studies.estimate import runs_at_once
        from proxrl.studies.local import Local
        from proxrl.training.resources import available_cores

        cores = available_cores()
        return Local(cores, runs_at_once(jobs, needs, cores, options.jobs))
    from proxrl.studies.cluster import Cluster

    cluster = Cluster(ray, jobs, needs, options.gpus, options.jobs)
    cluster.require_nodes()
    cluster.require_storage(folder, say)
    return cluster


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""

    signal_number = int(signal.SIGTERM)


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_it(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, raise_it)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
