"""On Ray, a search gives the trials that it gives on this machine, pruned ones included."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.tuning.small import OPTIONS

pytest.importorskip("optuna")
pytest.importorskip("ray", reason="needs the extra `ray`")
pytestmark = pytest.mark.slow
WORDS = ["tune", "dqn-pro", "--env", "CartPole-v1", "--trials", "9", "--jobs", "1", *OPTIONS]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of one node on this machine."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "600")
    from ray.cluster_utils import Cluster

    node = {
        "num_cpus": 1,
        "node_ip_address": "127.0.0.2",
        "object_store_memory": 80_000_000,
        "memory": 4_000_000_000,
        "include_dashboard": False,
    }
    cluster = Cluster(initialize_head=True, head_node_args=node)
    yield cluster.address
    cluster.shutdown()


def test_a_search_on_ray_has_the_same_trials(address: str, tmp_path: Path) -> None:
    here = forking.run("proxrl", *WORDS, "--folder", "here", cwd=tmp_path)
    assert here.returncode == 0, here.stdout + here.stderr
    ray = ["--executor", "ray", "--address", address, "--folder", "there"]
    there = forking.run("proxrl", *WORDS, *ray, cwd=tmp_path)
    assert there.returncode == 0, there.stdout + there.stderr
    assert "pruned at step" in there.stderr
    one, other = (tmp_path / name / "report" / "trials.csv" for name in ("here", "there"))
    assert one.read_bytes() == other.read_bytes()
