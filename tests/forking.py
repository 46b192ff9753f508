"""Python processes that start in milliseconds: forks of a server that has imported everything.

Importing torch takes seconds of CPU, and the fast suite starts about a hundred processes. `start`
and `run` start a real process (with its own pid, exit code, signals, working directory, environment
and session) that only skips `exec` and the imports. Processes that it starts with
`subprocess.Popen([sys.executable, "-m", ...])`, as a study starts its runs, are forked as well.

The server has a single thread and computes nothing, so that a fork is equivalent to a new
interpreter; `tests/test_forking.py` checks that results are bit-identical.
"""

import atexit
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
# And every module of proxrl except the optional integrations.
PRELOADED = ("ale_py", "gymnasium.envs.classic_control", "minatar.gym", "matplotlib.pyplot")
OPTIONAL = ("optuna", "optuna.storages._rdb.storage")  # preloaded if installed
LARGEST_REQUEST = 100_000  # bytes


# ------------------------------------------------------------------------------------- for tests


class Process:
    """`python -m MODULE ARGUMENTS...`, forked; used like `subprocess.Popen[str]`."""

    def __init__(self, args: list[str], merge: bool, words: dict[str, Any]) -> None:
        self.args = args
        self.returncode: int | None = None
        self._stdout, errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self._stderr = self._stdout if merge else errors
        self._report, theirs = socket.socketpair()
        with theirs, open(os.devnull) as stdin:
            files = [theirs, stdin, self._stdout, self._stderr]
            request = json.dumps({"args": args, "env": dict(os.environ), **words}).encode()
            assert len(request) < LARGEST_REQUEST
            socket.send_fds(_server(), [request], [file.fileno() for file in files])
        self._lines = self._report.makefile()
        self.pid = self._next_number()

    def _next_number(self) -> int:
        line = self._lines.readline()
        assert line, "the fork server or its child died"
        return int(line)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.returncode = self._next_number()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._next_number()
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """Wait for the end; returns standard output and error."""
        self.wait()
        written = []
        for file in (self._stdout, self._stderr):
            file.seek(0)
            written.append(file.read().decode())
        return written[0], "" if self._stderr is self._stdout else written[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    module: str, *arguments: str, cwd: Path, merge: bool = False, start_new_session: bool = False
) -> Process:
    """Start `python -m module arguments`; `merge` sends its errors to the standard output."""
    words = {"cwd": str(cwd), "start_new_session": start_new_session}
    return Process([sys.executable, "-m", module, *arguments], merge, words)


def run(module: str, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """`start`, and wait for it to end."""
    process = start(module, *arguments, cwd=cwd)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.wait(), stdout, stderr)


@functools.cache
def _server() -> socket.socket:
    """The connection to this process's server, which exits when it is closed."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.forking", str(its.fileno())]
        server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()]
        )

    def end() -> None:
        mine.close()
        server.wait()

    atexit.register(end)
    return mine


# ------------------------------------------------------------------------------------- the server


def serve(requests: socket.socket) -> None:
    for name in (*PRELOADED, *_modules_of_proxrl()):
        importlib.import_module(name)
    for name in OPTIONAL:
        with suppress(ImportError):
            importlib.import_module(name)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a fork would lose {len(threads) - 1} threads"
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _path[:] = sys.path[1:]
    gc.freeze()  # keeps memory pages shared
    while True:
        request, files, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            return
        if os.fork() == 0:
            _keep(json.loads(request), *files)
        for file in files:
            os.close(file)


def _modules_of_proxrl() -> list[str]:
    import proxrl

    names = [module.name for module in pkgutil.walk_packages(proxrl.__path__, "proxrl.")]
    return [name for name in names if not name.endswith("__main__") and "integrations." not in name]


def _keep(request: dict[str, Any], report: int, stdin: int, stdout: int, stderr: int) -> NoReturn:
    """The parent of one process: reports its pid and exit code."""
    child = Forked(**request, stdin=stdin, stdout=stdout, stderr=stderr)
    for file in (stdin, stdout, stderr):
        os.close(file)
    os.write(report, f"{child.pid}\n".encode())
    os.write(report, f"{child.wait()}\n".encode())
    os._exit(0)


_Popen = subprocess.Popen
_path: list[str] = []  # sys.path without the working directory


class Forked(_Popen):  # type: ignore[type-arg]
    """A `subprocess.Popen` in which a `python -m MODULE ...` runs in the fork, without exec.

    A process with other threads (a driver connected to Ray) starts a new interpreter instead: a
    forked child would inherit their locks.
    """

    def __init__(self, args: Sequence[str], *, env: Any = None, **words: Any) -> None:
        alone = len(os.listdir("/proc/self/task")) == 1
        is_safe = list(args[1:2]) == ["-P"]  # does not search its working directory for modules
        command = [args[0], *args[2:]] if is_safe else list(args)
        if alone and command[:2] == [sys.executable, "-m"]:
            words["preexec_fn"] = functools.partial(_become, command, env, is_safe)
        super().__init__(args, env=env, **words)


def _become(args: list[str], env: dict[str, str] | None, is_safe: bool) -> NoReturn:
    """Act as a new interpreter started as `args`; Popen has set files, folder and session."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # Popen waits until its own is closed
    code = 1
    try:
        gc.enable()
        _reset_signals()
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        _open_standard_streams()
        subprocess.Popen = Forked  # type: ignore[misc]
        module = args[2]
        sys.argv = ["-m", *args[3:]]
        sys.path[:] = [*([] if is_safe else [os.getcwd()]), *_path]
        importlib.invalidate_caches()
        if not hasattr(sys.modules.get(module), "__path__"):
            sys.modules.pop(module, None)  # it runs as __main__, and has not been imported
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
        os._exit(code & 0xFF)


def _reset_signals() -> None:
    """Reset signal handlers, as exec and Python's start-up do."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_standard_streams() -> None:
    """New objects for 0, 1 and 2: the parent's may have unflushed data."""
    old = (sys.stdin, sys.stdout, sys.stderr)
    _inherited.extend(old)
    modes = ("r", "w", "w")
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding=its.encoding, errors=its.errors, closefd=False)  # noqa: SIM115
        for number, (mode, its) in enumerate(zip(modes, old, strict=True))
    )
    assert isinstance(sys.stderr, io.TextIOWrapper)
    sys.stderr.reconfigure(line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


_inherited: list[Any] = []  # never collected, so never flushed twice


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    print(leaving.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    from tests import forking  # not __main__: the forks' own main module takes its place

    forking.serve(socket.socket(fileno=int(sys.argv[1])))
