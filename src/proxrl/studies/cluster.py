"""Runs on a Ray cluster: each is a task that starts the run's process on any node with room.

Ray schedules the runs and reports lost workers and nodes; its own retries are off, because
`conduct` retries by the same rule as on one machine. A retry continues from the checkpoint in the
run folder on the shared storage; if the old process is still alive on a node that the cluster has
lost contact with, it stops (runs/folder.py).
"""

import importlib
import importlib.util
import json
import logging
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from proxrl import __version__
from proxrl.config import from_json, to_json
from proxrl.errors import RunFailed, UserError
from proxrl.runs.attempts import NODE, newest_attempt, node_of
from proxrl.studies.expand import Job
from proxrl.studies.folder import LOCK
from proxrl.studies.process import Outcome, outcome_of, reason_of, start
from proxrl.studies.storage import StorageProbe, answered, check_storage, probing
from proxrl.training.resources import Requirements

CONNECT_SECONDS = 5.0
PROBE_SECONDS = 120.0
PROBES = 4  # times that a node is asked
STOP_SECONDS = 300.0
LOOK_SECONDS = 0.5
CAPACITY_SECONDS = 5.0  # between two queries of the cluster's resources


class Cluster:
    """An executor: Ray tasks that request a run's threads, memory and share of a GPU."""

    def __init__(
        self,
        ray: Any,  # the module, connected
        jobs: Sequence[Job],
        needs: dict[str, Requirements],
        gpus: float,
        max_jobs: int | None,
    ) -> None:
        self._ray = ray
        self._needs, self._gpus, self._max_jobs = needs, gpus, max_jobs
        self._cpus = max(job.config.threads for job in jobs)
        self._memory = max(one.memory for one in needs.values())
        self._tasks: dict[Any, Job] = {}  # by reference to the result
        self._marker = Path()  # a file that every node must see
        self._task = self._ray.remote(_run)
        self._capacity = (0.0, 0)  # time of the next query, last result
        errors = ray.exceptions
        self._lost = (errors.NodeDiedError, errors.TaskUnschedulableError, errors.ObjectLostError)
        self._unfit: set[str] = set()  # nodes that joined and cannot take part
        self._attempts: dict[Job, int] = {}  # before it was started
        self._next_look = 0.0
        self._places: dict[Any, str] = {}  # of tasks, once there are unfit nodes

    def require_nodes(self) -> None:
        """Raise a `UserError` if no node is large enough for a run."""
        nodes = self._nodes()
        if not nodes:
            raise RunFailed("the cluster has no nodes at the moment: try again")
        if not any(self._room_on(node) for node in nodes):
            gpu = f", {self._gpus:g} GPU" if self._gpus else ""
            raise UserError(
                f"no node of the cluster is large enough: a run needs {self._cpus} CPU{gpu} and "
                f"{self._memory / 1e9:.1f} GB of memory"
            )

    def require_storage(self, folder: Path, say: Callable[[str], None]) -> None:
        """Raise a `UserError` if a node does not share the folder properly (storage.py), or has
        another version of proxrl. Nodes that leave meanwhile are skipped, those that do not answer
        are named; `RunFailed` if none answers."""
        self._marker = folder.absolute() / LOCK
        with probing(folder.absolute()) as probe:
            answers = self._ask_nodes(probe, say)
            problems = [problem for problem, _ in answers.values() if problem]
            problems += [
                f"files that node {node} writes to {folder} are not visible here"
                for node in answers
                if not problems and not answered(probe, node)
            ]
        if problems:
            raise UserError(problems[0])
        if not answers:
            raise RunFailed("no node of the cluster answers: try again")
        versions = {version for _, version in answers.values()} | {__version__}
        if len(versions) > 1:
            raise UserError(f"the cluster has several versions of proxrl: {sorted(versions)}")

    def _ask_nodes(
        self, probe: StorageProbe, say: Callable[[str], None]
    ) -> dict[str, tuple[str | None, str]]:
        """(problem, version) of each node that answers, each asked separately."""
        task = self._ray.remote(_check_storage)
        answers: dict[str, tuple[str | None, str]] = {}
        failures: dict[str, str] = {}
        asked: dict[str, str] = {}  # name by id
        for _ in range(PROBES):
            now = {node["NodeID"]: _node_name(node) for node in self._nodes()}
            asked.update(now)
            questions = {
                node: task.options(
                    num_cpus=0,
                    max_retries=0,
                    scheduling_strategy=_only_on(node),
                ).remote(tuple(probe), node)
                for node in now
                if node not in answers
            }
            if not questions:
                break
            self._ray.wait(
                list(questions.values()), num_returns=len(questions), timeout=PROBE_SECONDS
            )
            for node, question in questions.items():
                try:
                    answers[node] = self._ray.get(question, timeout=0)
                except self._ray.exceptions.RayError as error:
                    failures[node] = _brief(error)
        alive = {node["NodeID"] for node in self._nodes()}
        for node in asked.keys() - answers.keys():
            if node in alive:
                say(f"{asked[node]} does not answer: {failures.get(node, 'it has just joined')}")
            else:
                say(f"{asked[node]} has left the cluster: skipped")
        return answers

    # ------------------------------------------------------------------------------- as executor

    @property
    def at_once(self) -> int:
        """Number of runs that fit on all nodes; updated every few seconds, as nodes come and go."""
        if self._max_jobs is not None:
            return self._max_jobs
        now = time.monotonic()
        if now >= self._capacity[0]:
            room = sum(self._room_on(node) for node in self._nodes())
            self._capacity = (now + CAPACITY_SECONDS, max(1, room))
        return self._capacity[1]

    def has_room(self, job: Job) -> bool:
        return len(self._tasks) < self.at_once

    def start(self, job: Job) -> None:
        place = self._fit_node() if self._unfit else None
        task = self._task.options(
            scheduling_strategy=_only_on(place) if place else "DEFAULT",
            name=job.name,
            num_cpus=max(1, job.config.threads),
            num_gpus=self._gpus,
            memory=self._needs[job.variant].memory,
            max_retries=0,
        ).remote(
            json.dumps(to_json(job.config)),
            str(job.folder.absolute()),
            os.getcwd(),
            str(self._marker),
            __version__,
        )
        self._tasks[task] = job
        self._attempts[job] = newest_attempt(job.folder)
        if place:
            self._places[task] = place

    def _fit_node(self) -> str | None:
        """The node with the most room, without those that cannot take part."""
        used = Counter(self._places.get(task) for task in self._tasks)
        room = {one["NodeID"]: self._room_on(one) - used[one["NodeID"]] for one in self._nodes()}
        return max(room, key=lambda node: room[node], default=None)

    def ended(self) -> Sequence[tuple[Job, Outcome, str]]:
        if not self._tasks:
            time.sleep(LOOK_SECONDS)
            return []
        tasks = list(self._tasks)
        ready, pending = self._ray.wait(tasks, num_returns=len(tasks), timeout=LOOK_SECONDS)
        ends = [(self._tasks.pop(task), *self._end(task)) for task in ready]
        return [*ends, *self._on_dead_nodes(pending)]

    def _on_dead_nodes(self, tasks: Sequence[Any]) -> list[tuple[Job, Outcome, str]]:
        """Runs on nodes that have left the cluster. Ray itself does not report them as long as the
        connection to a process that hangs is open."""
        if time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + CAPACITY_SECONDS
        alive = {node["NodeID"] for node in self._nodes()} | self._unfit
        lost: list[tuple[Job, Outcome, str]] = []
        for task in tasks:
            job = self._tasks[task]
            node = node_of(job.folder)
            is_new = newest_attempt(job.folder) > self._attempts[job]
            if is_new and node and node not in alive:
                lost.append((self._tasks.pop(task), "lost", f"node {node[:8]} does not answer"))
        return lost

    def stop_run(self, job: Job) -> None:
        (task,) = (task for task, its in self._tasks.items() if its == job)
        self._ray.cancel(task, force=False)

    def stop(self) -> None:
        """Cancel the tasks; each sends its run SIGTERM."""
        tasks = list(self._tasks)
        for task in tasks:
            self._ray.cancel(task, force=False)
        if tasks:
            self._ray.wait(tasks, num_returns=len(tasks), timeout=STOP_SECONDS)
        self._tasks.clear()

    def _end(self, task: Any) -> tuple[Outcome, str]:
        try:
            code = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            unfit = getattr(error, "cause", None)
            if isinstance(unfit, UnfitNode):
                self._unfit.add(unfit.node)
                self._capacity = (0.0, 0)  # without it
                return "lost", f"{unfit}; it is not used any more"
            lost = isinstance(error, self._lost)
            return "lost" if lost else "crashed", _brief(error)
        return outcome_of(code), reason_of(code)

    def _nodes(self) -> list[dict[str, Any]]:
        try:
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
            return [node for node in nodes if node["NodeID"] not in self._unfit]
        except self._ray.exceptions.RayError as error:
            raise RunFailed(f"lost contact with the cluster: {_brief(error)}; try again") from None

    def _room_on(self, node: dict[str, Any]) -> int:
        """Number of runs that fit on an idle node."""
        there = node["Resources"]
        room = [there.get("CPU", 0) // self._cpus, there.get("memory", 0) // self._memory]
        if self._gpus:
            room.append(there.get("GPU", 0) / self._gpus)
        return int(min(room))


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The `ray` module, connected to a cluster."""
    _require_cluster(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")  # the default of 20 takes minutes
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # errors arrive as exceptions
    ray = importlib.import_module("ray")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"no Ray cluster at --address {address}: {_brief(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_cluster(address: str) -> None:
    """Raise a `UserError` if Ray is not installed or nothing listens at the address: within
    seconds, where Ray itself would try for minutes."""
    if importlib.util.find_spec("ray") is None:
        raise UserError("--executor ray needs Ray: pip install 'proxrl[ray]'")
    if address.startswith("ray://"):
        raise UserError(
            "invalid --address ray://...: run this command on a node of the cluster, where "
            "--address auto finds it"
        )
    if address == "auto":
        return  # connecting fails fast
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"invalid --address {address}: must be auto or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no Ray cluster at --address {address}: {error}") from None
    if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks_grpc(address):
        raise UserError(f"no Ray cluster at --address {address}: something else listens there")


def _speaks_grpc(address: str) -> bool:
    """Whether it is a gRPC service, as Ray's is; Ray itself would need more than a minute."""
    grpc = importlib.import_module("grpc")
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            return False
    return True


def _only_on(node: str) -> Any:
    """The strategy of a Ray task that must run on this node."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def _node_name(node: dict[str, Any]) -> str:
    """A node in messages: node 3f2a19c4 (10.0.0.7)."""
    return f"node {node['NodeID'][:8]} ({node['NodeManagerAddress']})"


def _brief(error: BaseException) -> str:
    """Type and first line of a Ray error, or of its cause."""
    error = getattr(error, "cause", None) or error
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first.strip()[:160]}"


# ------------------------------------------------------------------------------------ on the nodes


class UnfitNode(RuntimeError):
    """The node has other storage or another version."""

    def __init__(self, problem: str, node: str = "") -> None:
        ray = importlib.import_module("ray")
        self.node = node or ray.get_runtime_context().get_node_id()
        super().__init__(problem, self.node)

    def __str__(self) -> str:
        return str(self.args[0])


def _run(config: str, folder: str, home: str, marker: str, version: str) -> int:
    """A task: run the process and return its exit code. The node may have joined after the storage
    was checked."""
    if not os.path.exists(marker):
        raise UnfitNode(f"{socket.gethostname()} does not see {marker}: is it shared?")
    if version != __version__:
        raise UnfitNode(f"{socket.gethostname()} has proxrl {__version__}, not {version}")
    os.environ[NODE] = importlib.import_module("ray").get_runtime_context().get_node_id()
    process = start(
        from_json(json.loads(config)),
        Path(folder),
        "take-over",
        home if os.path.isdir(home) else None,
    )
    try:
        while True:  # short waits: a cancellation arrives between them
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _check_storage(probe: tuple[str, str], node: str) -> tuple[str | None, str]:
    """A task: check the folder on this node; returns the problem, if any, and proxrl's version."""
    return check_storage(StorageProbe(*probe), node), __version__
