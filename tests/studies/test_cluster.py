"""Real Ray: two nodes, a worker killed, a node removed; results are bit-identical to `local`."""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import proxrl
from proxrl.errors import RunFailed, UserError
from proxrl.runs.attempts import newest_attempt
from proxrl.runs.folder import RunFolder
from proxrl.studies.definition import parse
from proxrl.studies.expand import expand
from proxrl.studies.storage import StorageProbe, answered, check_storage, probing
from proxrl.training.resources import Requirements
from tests.studies.small import (
    LONG_STEPS,
    RUNS,
    TEXT,
    assert_same_bits,
    begin,
    pid_of,
    run_folders,
    run_study,
    step_of,
    wait_until,
)

pytest.importorskip("ray", reason="needs the extra `ray`")


NODE: dict[str, Any] = {
    "num_cpus": 1,
    "node_ip_address": "127.0.0.2",
    "object_store_memory": 80_000_000,
    "memory": 4_000_000_000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each, on this machine only (Ray replaces 127.0.0.1 by the machine's
    outside address, so the loopback address here is another one)."""
    patience = pytest.MonkeyPatch()
    patience.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for limit in ("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "RAY_raylet_start_wait_time_s"):
        patience.setenv(
            limit, "600"
        )  # Ray's default of half a minute is too short on a busy machine
    patience.setenv("RAY_agent_register_timeout_ms", "600000")
    patience.setenv("RAY_health_check_timeout_ms", "600000")  # a dead node refuses at once
    patience.setenv("RAY_health_check_period_ms", "1000")
    patience.setenv(
        "RAY_worker_niceness", "0"
    )  # Ray's default of 15 is too low next to other tests
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    made.add_node(**NODE)
    yield made
    made.shutdown()
    patience.undo()


def ray_worker_of(folder: Path) -> psutil.Process:
    """The Ray worker that watches a run's process."""
    parent = psutil.Process(pid_of(folder)).parent()
    assert parent is not None
    assert "ray" in parent.name() or any("ray" in word for word in parent.cmdline()), parent
    return parent


def node_of(cluster: Any, folder: Path) -> Any:
    """The node whose raylet started a run's process."""
    above = {process.pid for process in psutil.Process(pid_of(folder)).parents()}
    for node in cluster.list_all_nodes():
        raylets = [info.process.pid for info in node.all_processes["raylet"]]
        if above & set(raylets):
            return node
    return None


def is_at_work(folder: Path, cluster: Any, node: Any) -> bool:
    """Whether the run has a checkpoint and its process is on this node."""
    if step_of(folder) < 200 or not RunFolder(folder).is_locked():
        return False
    try:
        return node_of(cluster, folder) is node
    except psutil.NoSuchProcess:  # it has just ended
        return False


def test_a_study_has_the_bits_of_the_local_one(cluster: Any, tmp_path: Path, whole: Path) -> None:
    words = ("--executor", "ray", "--address", cluster.address, "--seeds", "0")
    done = run_study(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in RUNS[:2]:
        assert_same_bits(run_folders(whole)[name], run_folders(tmp_path)[name])


@pytest.mark.faults
def test_a_killed_worker_and_a_removed_node_cost_time_and_not_a_bit(
    cluster: Any, tmp_path: Path, long_whole: Path
) -> None:
    folders = run_folders(tmp_path)
    words = ("--executor", "ray", "--address", cluster.address)
    study = begin(tmp_path, *words, steps=LONG_STEPS)
    first, second = (folders[name] for name in RUNS[:2])
    wait_until(lambda: step_of(first) >= 200 and step_of(second) >= 200, study)
    ray_worker_of(first).send_signal(signal.SIGKILL)
    attempts = newest_attempt(first)
    wait_until(lambda: newest_attempt(first) > attempts, study)

    [other] = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    later = [folders[name] for name in RUNS[2:]]
    wait_until(lambda: any(is_at_work(one, cluster, other) for one in later), study)
    victim = next(one for one in later if is_at_work(one, cluster, other))
    attempts = newest_attempt(victim)
    cluster.remove_node(other, allow_graceful=False)
    said, _ = study.communicate()
    assert study.returncode == 0, said
    assert newest_attempt(victim) > attempts, "the removed node's run was handed on"
    assert "crashed (" in said, "the killed worker"
    assert "lost its node (" in said, "the removed node"
    assert "4/4" in said
    for name in RUNS:
        assert_same_bits(run_folders(long_whole)[name], folders[name])
        assert not RunFolder(folders[name]).is_locked()


@pytest.mark.faults
def test_ctrl_c_stops_the_clusters_runs_with_a_checkpoint(
    cluster: Any, tmp_path: Path, long_whole: Path
) -> None:
    folders = run_folders(tmp_path)
    options = ("--executor", "ray", "--address", cluster.address, "--seeds", "0")
    study = begin(tmp_path, *options, steps=LONG_STEPS)
    first = folders[RUNS[0]]
    wait_until(lambda: step_of(first) >= 200, study)
    study.send_signal(signal.SIGINT)
    said, _ = study.communicate()
    assert study.returncode == 130, said
    assert "the same command continues it" in said
    assert not RunFolder(first).is_locked(), "it was given the time for its checkpoint"
    assert "stopped at step" in RunFolder(first).run_log.read_text(), "asked to, not killed"
    again = run_study(tmp_path, *options)
    assert again.returncode == 0, again.stdout + again.stderr
    assert_same_bits(run_folders(long_whole)[RUNS[0]], first)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(20))
def test_nodes_killed_at_random_moments_cost_time_and_not_a_bit(
    seed: int, cluster: Any, tmp_path: Path, whole: Path
) -> None:
    """Also while the storage is checked; another node joins for each that is killed."""
    generator = random.Random(seed)
    victims = [cluster.add_node(**NODE)]
    study = begin(tmp_path, "--executor", "ray", "--address", cluster.address)
    killed = 0
    for _ in range(3):
        time.sleep(generator.uniform(0.0, 8.0))
        if study.poll() is not None:
            break
        cluster.remove_node(victims.pop(), allow_graceful=False)
        killed += 1
        victims.append(cluster.add_node(**NODE))
    said, _ = study.communicate()
    assert killed, "the study ended before the first kill: it is too short"
    for node in victims:
        cluster.remove_node(node, allow_graceful=False)
    assert study.returncode == 0, said
    assert "Traceback" not in said
    for name in RUNS:
        assert_same_bits(run_folders(whole)[name], run_folders(tmp_path)[name])


@pytest.mark.faults
def test_a_node_that_joins_with_another_version_is_named_and_not_used(
    cluster: Any, tmp_path: Path, long_whole: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(proxrl.__file__).parent, other / "proxrl")
    module = other / "proxrl" / "__init__.py"
    module.write_text(module.read_text() + '\n__version__ = "9.9.9"\n')
    home = tmp_path / "home"
    words = ("--executor", "ray", "--address", cluster.address)
    study = begin(home, *words, steps=LONG_STEPS)
    wait_until(lambda: any(step_of(one) >= 200 for one in run_folders(home).values()), study)
    path = os.pathsep.join([str(other), os.environ.get("PYTHONPATH", "")])
    stranger = cluster.add_node(**{**NODE, "num_cpus": 4}, env_vars={"PYTHONPATH": path})
    said, _ = study.communicate()
    cluster.remove_node(stranger, allow_graceful=False)
    assert study.returncode == 0, said
    assert "has proxrl 9.9.9, not " in said
    assert "it is not used any more" in said
    assert said.count("9.9.9") <= 4, "only tasks that were already on their way"
    for name in RUNS:
        assert_same_bits(run_folders(long_whole)[name], run_folders(home)[name])


@pytest.fixture
def executor(cluster: Any, tmp_path: Path) -> Iterator[Any]:
    """Connected to both nodes; nothing runs yet."""
    from proxrl.studies.cluster import Cluster, connected

    study = parse("poles", TEXT)
    jobs = expand(study, study.scales["tiny"], tmp_path)
    needs = {job.variant: Requirements(1, 1, None, 1, 1) for job in jobs}
    with connected(cluster.address) as ray:
        yield Cluster(ray, jobs, needs, 0.0, None)


def test_a_node_that_is_killed_before_it_is_asked_is_skipped(
    cluster: Any, executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of nodes still has it when the storage is checked."""
    victim = cluster.add_node(**NODE)
    wait_until(lambda: victim.node_id in {node["NodeID"] for node in executor._nodes()}, None)
    nodes = executor._nodes()
    cluster.remove_node(victim, allow_graceful=False)
    lists = iter([nodes])
    real = executor._nodes
    monkeypatch.setattr(executor, "_nodes", lambda: next(lists, None) or real())
    said: list[str] = []
    executor.require_storage(tmp_path, said.append)
    (line,) = said
    assert line.startswith(f"node {victim.node_id[:8]} (127.0.0.2) has left the cluster")
    monkeypatch.setattr(executor, "_nodes", list)
    with pytest.raises(RunFailed, match="no node of the cluster answers: try again"):
        executor.require_storage(tmp_path, said.append)
    with pytest.raises(RunFailed, match="no nodes at the moment: try again"):
        executor.require_nodes()
    assert list(tmp_path.iterdir()) == [], "no probe is left"


@pytest.mark.parametrize("failures", [3, 99])
def test_a_node_that_fails_to_answer_is_asked_again_and_then_named(
    failures: int, cluster: Any, executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proxrl.studies import cluster as module

    failing = cluster.add_node(**NODE)
    first = failing.node_id
    wait_until(lambda: first in {node["NodeID"] for node in executor._nodes()}, None)
    real, count = module._check_storage, tmp_path / "asked"

    def sometimes(probe: tuple[str, str], node: str) -> tuple[str | None, str]:
        if node != first:
            return real(probe, node)
        with open(count, "a") as file:
            file.write("x")
        if len(count.read_text()) <= failures:
            raise OSError("the disk is asleep")
        return real(probe, node)

    monkeypatch.setattr(module, "_check_storage", sometimes)
    said: list[str] = []
    executor.require_storage(tmp_path, said.append)
    assert len(count.read_text()) == module.PROBES == 4
    if failures < 4:
        assert not said
    else:
        (line,) = said
        assert line.startswith(f"node {first[:8]} (127.0.0.2) does not answer: ")
        assert "the disk is asleep" in line
    cluster.remove_node(failing)


def test_nodes_with_another_version_are_refused_at_the_start(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proxrl.studies import cluster as module

    real = module._check_storage

    def older(probe: tuple[str, str], node: str) -> tuple[str | None, str]:
        return real(probe, node)[0], "0.0.1"

    monkeypatch.setattr(module, "_check_storage", older)
    with pytest.raises(UserError, match=r"several versions of proxrl: \['0\.0\.1', '0\.1\.0'\]"):
        executor.require_storage(tmp_path, print)


def test_the_storage_is_examined_as_a_node_sees_it(tmp_path: Path) -> None:
    with probing(tmp_path) as probe:
        assert check_storage(probe, "node") is None
        assert answered(probe, "node")
        assert not answered(probe, "another node")
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_a_node_that_is_asked_twice_at_a_time_answers_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each rename of the first answer, the whole of another one."""
    replace, inner = os.replace, [False]

    def interrupted(source: Path, target: Path) -> None:
        if not inner[0]:
            inner[0] = True
            assert check_storage(probe, "node") is None
            assert answered(probe, "node")
            inner[0] = False
        replace(source, target)
        assert answered(probe, "node"), "it is never half an answer"

    with probing(tmp_path) as probe:
        assert check_storage(probe, "node") is None
        monkeypatch.setattr(os, "replace", interrupted)
        assert check_storage(probe, "node") is None
        assert answered(probe, "node")
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_storage_that_is_not_shared_is_named(tmp_path: Path) -> None:
    problem = check_storage(StorageProbe(str(tmp_path), "token"), "node")
    assert problem is not None
    assert "must be on storage that all nodes share" in problem


def test_storage_that_shows_something_else_is_named(tmp_path: Path) -> None:
    probe = StorageProbe(str(tmp_path), "token")
    probe.locked.write_text("older")
    problem = check_storage(probe, "node")
    assert problem is not None
    assert "does not show what the driver wrote" in problem


def test_storage_without_locks_is_named(tmp_path: Path) -> None:
    with probing(tmp_path) as probe:
        with open(probe.locked) as file:  # as if the driver's lock were not visible
            path = probe.locked
            content = file.read()
            path.unlink()
            path.write_text(content)
        problem = check_storage(probe, "node")
    assert problem is not None
    assert "does not honour flock" in problem
