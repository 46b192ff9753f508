"""What results depend on besides config and seed: CPU model, libraries, threads, device."""

import ctypes
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

from proxrl.config import RunConfig
from proxrl.errors import UserError
from proxrl.native import library
from proxrl.suites import BUILT_IN, suite_of

CPUINFO = Path("/proc/cpuinfo")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def prepare_process(threads: int) -> None:
    """Set the thread count, and have glibc keep freed memory.

    NumPy's matrix products, of acting, are too small for more than one thread.

    By default glibc returns large freed blocks to the kernel and faults them in again at the next
    update, which costs an eighth of an update's time on 84 x 84 images.
    """
    threadpool_limits(1, user_api="blas")
    torch.set_num_threads(threads)  # last: torch may use the same library
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the largest that glibc takes


@contextmanager
def keeping_threads() -> Iterator[None]:
    """Restore the thread counts of torch and NumPy, which `prepare_process` sets."""
    threads = torch.get_num_threads()
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    counts = [library.num_threads for library in libraries]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        for library, count in zip(libraries, counts, strict=True):
            library.set_num_threads(count)


def resolve_device(name: str) -> torch.device:
    """The torch device for a config's `device` on this machine."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device, there in available.items() if there)
    if not available[name]:
        there = " or ".join(device for device, yes in available.items() if yes)
        raise UserError(f"device {name} is not available here: choose auto or {there}")
    return torch.device(name)


def describe_machine(config: RunConfig) -> dict[str, str]:
    """CPU, device, threads, kernels and versions, recorded in every checkpoint."""
    return {
        "cpu": cpu_model(),
        "device": str(resolve_device(config.device)),
        "threads": str(config.threads),
        "kernels": "torch" if library() is None else "compiled",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("proxrl", "torch", "numpy", "gymnasium")},
        **_optional_versions(*_packages(config.env)),
    }


def _packages(env: str) -> list[str]:
    """The suites' packages, whose versions may affect results."""
    suites = dict.fromkeys((*BUILT_IN, suite_of(env)))
    return [suite.package for suite in suites if suite.package is not None]


def changed_since(before: dict[str, str], now: dict[str, str]) -> str:
    """What differs, for example "CPU model, torch"; empty if nothing does."""
    names = {"cpu": "CPU model", "threads": "thread count", "python": "Python version"}
    return ", ".join(names.get(key, key) for key, value in now.items() if before.get(key) != value)


def cpu_model() -> str:
    if CPUINFO.exists():
        first_core = CPUINFO.read_text().split("\n\n")[0].splitlines()
        pairs = (line.partition(":") for line in first_core)
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        parts = (fields.get(key, "") for key in ("model name", "cpu family", "model", "stepping"))
        return " ".join(parts).strip()
    try:  # macOS
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=True
        )
        return asked.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()


def _optional_versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
