"""Runs on a Ray cluster: each a task that starts the run's process on whatever node has room.

Ray places the runs and tells when a worker or a node is gone; it is asked for no retries of its
own, because `conduct` tries again by the same rule as on one machine. A retry finds the run folder
on the shared storage and continues from its checkpoint; if the lost process still lives, on a node
that only the cluster has lost sight of, it gives way (runs/folder.py).
"""

import importlib
import importlib.util
import json
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from proxrl import __version__
from proxrl.config import from_json, to_json
from proxrl.errors import UserError
from proxrl.studies.expand import Job
from proxrl.studies.folder import LOCK
from proxrl.studies.process import Outcome, outcome_of, reason_of, start
from proxrl.studies.storage import StorageProbe, answered, check_storage, probing
from proxrl.training.resources import Requirements

CONNECT_SECONDS = 5.0
PROBE_SECONDS = 120.0
STOP_SECONDS = 300.0
LOOK_SECONDS = 0.5
CAPACITY_SECONDS = 5.0  # between two questions about what the cluster has


class Cluster:
    """An executor: Ray tasks that ask for a run's threads, memory and share of a GPU."""

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
        self._tasks: dict[Any, Job] = {}  # by the reference to its result
        self._marker = Path()  # a file that every node must see
        self._task = self._ray.remote(_run)
        self._capacity = (0.0, 0)  # when to ask again, and the answer

    def require_nodes(self) -> None:
        """A `UserError` if no node could ever take one of the runs."""
        if not any(self._room_on(node) for node in self._nodes()):
            gpu = f", {self._gpus:g} GPU" if self._gpus else ""
            raise UserError(
                f"no node of the cluster can take a run: it needs {self._cpus} CPU{gpu} and "
                f"{self._memory / 1e9:.1f} GB of memory"
            )

    def require_storage(self, folder: Path) -> None:
        """A `UserError` if a node does not share the folder as it must (storage.py)."""
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        nodes = [node["NodeID"] for node in self._nodes()]
        task = self._ray.remote(_check_storage)
        self._marker = folder.absolute() / LOCK
        with probing(folder.absolute()) as probe:
            answers = [
                task.options(
                    num_cpus=0,
                    max_retries=0,
                    scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node, soft=False),
                ).remote(tuple(probe), node)
                for node in nodes
            ]
            try:
                found = self._ray.get(answers, timeout=PROBE_SECONDS)
            except self._ray.exceptions.RayError as error:
                raise UserError(f"cannot reach the cluster's nodes: {_brief(error)}") from None
            problems = [problem for problem, _ in found if problem]
            problems += [
                f"what node {node} writes into {folder} is not seen here"
                for node in nodes
                if not problems and not answered(probe, node)
            ]
        if problems:
            raise UserError(problems[0])
        versions = {version for _, version in found} | {__version__}
        if len(versions) > 1:
            raise UserError(f"the cluster has several versions of proxrl: {sorted(versions)}")

    # ------------------------------------------------------------------------------- as executor

    @property
    def at_once(self) -> int:
        """Runs that all nodes have room for; asked again every few seconds, for nodes come and
        go."""
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
        task = self._task.options(
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

    def ended(self) -> Sequence[tuple[Job, Outcome, str]]:
        if not self._tasks:
            time.sleep(LOOK_SECONDS)
            return []
        tasks = list(self._tasks)
        ready, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=LOOK_SECONDS)
        return [(self._tasks.pop(task), *self._end(task)) for task in ready]

    def stop(self) -> None:
        """By cancelling, which each task passes on to its run as SIGTERM."""
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
            return "crashed", _brief(error)
        return outcome_of(code), reason_of(code)

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _room_on(self, node: dict[str, Any]) -> int:
        """Runs that fit on a node that has nothing else to do."""
        there = node["Resources"]
        room = [there.get("CPU", 0) // self._cpus, there.get("memory", 0) // self._memory]
        if self._gpus:
            room.append(there.get("GPU", 0) / self._gpus)
        return int(min(room))


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The `ray` module, with a cluster behind it."""
    _require_cluster(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")  # 20 are minutes, for a wrong address
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what matters arrives as an exception
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
    """One line if Ray is not installed or nothing listens at the address; within seconds, where
    Ray itself would try for minutes."""
    if importlib.util.find_spec("ray") is None:
        raise UserError("--executor ray needs Ray: pip install 'proxrl[ray]'")
    if address.startswith("ray://"):
        raise UserError(
            "invalid --address ray://...: run this command on a node of the cluster, where "
            "--address auto finds it"
        )
    if address == "auto":
        return  # found, or not, when connecting: there is nothing to wait for
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
    """As Ray's control service does; Ray itself would find out after more than a minute."""
    grpc = importlib.import_module("grpc")
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            return False
    return True


def _brief(error: BaseException) -> str:
    """The kind of a Ray error, or of what caused it, and its first sentence, on one line."""
    error = getattr(error, "cause", None) or error
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first.strip()[:160]}"


# ------------------------------------------------------------------------------------ on the nodes


def _run(config: str, folder: str, home: str, marker: str, version: str) -> int:
    """A task: the run's process, watched; its exit code. The node may have joined after the
    storage was examined."""
    if not os.path.exists(marker):
        raise FileNotFoundError(f"{socket.gethostname()} does not see {marker}: is it shared?")
    if version != __version__:
        raise RuntimeError(f"{socket.gethostname()} has proxrl {__version__}, not {version}")
    process = start(
        from_json(json.loads(config)),
        Path(folder),
        "take-over",
        home if os.path.isdir(home) else None,
    )
    try:
        while True:  # in short waits, because a cancellation arrives between them
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _check_storage(probe: tuple[str, str], node: str) -> tuple[str | None, str]:
    """A task: what is wrong with the folder here, and proxrl's version."""
    return check_storage(StorageProbe(*probe), node), __version__
