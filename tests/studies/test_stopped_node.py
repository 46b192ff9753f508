"""A node that hangs: its processes are stopped, and continue after the cluster has lost it."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from proxrl.runs.attempts import newest_attempt
from proxrl.runs.folder import RunFolder
from tests.studies.small import (
    LONG_STEPS,
    RUNS,
    assert_same_bits,
    begin,
    run_folders,
    step_of,
    wait_until,
)
from tests.studies.test_cluster import NODE, is_at_work

pytest.importorskip("ray", reason="needs the extra `ray`")
pytestmark = pytest.mark.faults


@pytest.fixture
def impatient() -> Iterator[Any]:
    """A cluster of two nodes that gives one up after seconds without an answer."""
    patience = pytest.MonkeyPatch()
    for name, value in {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_health_check_initial_delay_ms": "2000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "10000",
        "RAY_health_check_failure_threshold": "2",
        "RAY_worker_niceness": "0",
    }.items():
        patience.setenv(name, value)
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    made.add_node(**NODE)
    yield made
    made.shutdown()
    patience.undo()


def processes_of(node: Any) -> list[psutil.Process]:
    """The raylet of a node and everything that it started."""
    (raylet,) = (psutil.Process(info.process.pid) for info in node.all_processes["raylet"])
    return [raylet, *raylet.children(recursive=True)]


def test_a_stopped_node_is_lost_and_its_processes_do_not_write_when_they_continue(
    impatient: Any, tmp_path: Path, long_whole: Path
) -> None:
    folders = run_folders(tmp_path)
    words = ("--executor", "ray", "--address", impatient.address)
    study = begin(tmp_path, *words, steps=LONG_STEPS)
    [other] = [node for node in impatient.list_all_nodes() if node is not impatient.head_node]
    wait_until(lambda: any(is_at_work(one, impatient, other) for one in folders.values()), study)
    victim = next(one for one in folders.values() if is_at_work(one, impatient, other))
    attempts = newest_attempt(victim)
    stopped = processes_of(other)
    for process in stopped:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    assert step_of(victim) < LONG_STEPS, "it was stopped before its end"
    wait_until(lambda: newest_attempt(victim) > attempts, study)
    for process in stopped:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)
    said, _ = study.communicate()
    assert study.returncode == 0, said
    assert "lost its node (" in said
    for name in RUNS:
        assert_same_bits(run_folders(long_whole)[name], folders[name])
        assert not RunFolder(folders[name]).is_locked()
