"""The description of the machine, with and without what only Linux has."""

from pathlib import Path

import pytest
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

from proxrl import presets
from proxrl.training import machine, resources
from proxrl.training.run import train


def test_the_cpu_model_from_linux() -> None:
    assert machine.cpu_model()


def test_the_cpu_model_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has `sysctl`; elsewhere the processor or architecture must do."""
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "riscv64")
    assert machine.cpu_model() == "riscv64"
    sysctl = tmp_path / "sysctl"
    sysctl.write_text('#!/bin/sh\n[ "$*" = "-n machdep.cpu.brand_string" ] && echo "Apple M9"\n')
    sysctl.chmod(0o755)
    assert machine.cpu_model() == "Apple M9"


def test_a_process_is_prepared_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(machine, "ctypes", None)
    machine.prepare_process(1)


def test_cores_and_memory_without_affinity_and_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(resources.os, "sched_getaffinity")
    monkeypatch.setattr(resources, "CGROUPS", ((tmp_path, "limit", "usage"),))
    assert resources.available_cores() >= 1
    assert resources.available_memory() > 0


def test_training_leaves_the_thread_counts_as_they_were(tmp_path: Path) -> None:
    def counts() -> list[int]:
        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return [torch.get_num_threads(), *(library.num_threads for library in libraries)]

    config = presets.make("dqn", "CartPole-v1", {"steps": 1, "threads": 1})
    with threadpool_limits(2, user_api="blas"):
        torch.set_num_threads(2)
        before = counts()
        train(config.override({"replay.capacity": 2_000}), tmp_path / "run")
        assert counts() == before
        torch.set_num_threads(1)
