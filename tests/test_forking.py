"""Forked processes behave like new interpreters: same results, signals and exit codes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proxrl.envs import make
from tests import forking
from tests.end_to_end.runs import assert_same_bits, begin, live
from tests.end_to_end.victim import SCENARIOS


@pytest.mark.faults
def test_a_killed_and_resumed_fork_has_the_bits_of_a_killed_and_resumed_interpreter(
    tmp_path: Path,
) -> None:
    name, faults = "rainbow", [("write", "3"), ("finish",)]
    for fault, code in zip(faults, (-signal.SIGKILL, 0), strict=True):
        executed = begin(name, tmp_path / "executed", *fault)
        forked = live(name, tmp_path / "forked", *fault)
        _, stderr = executed.communicate()
        assert (executed.returncode, stderr) == (code, forked.stderr)
        assert forked.returncode == code
    config = SCENARIOS[name]
    spec = make(config.env, config.protocol).observation
    assert_same_bits(config, tmp_path / "executed", tmp_path / "forked", spec)


PROBE = """
import atexit, json, os, signal, subprocess, sys, threading, time

if sys.argv[1] == "late":
    threading.Thread(target=lambda: (time.sleep(0.2), print("a thread is waited for"))).start()
    atexit.register(print, "exit functions run")
    sys.exit(7)
if sys.argv[1] == "message":
    sys.exit("a message")
if sys.argv[1] == "raise":
    raise ZeroDivisionError("an error")
if sys.argv[1] == "parent":
    print("once, and not again by the child")
    signal.signal(signal.SIGTERM, lambda *_: None)
    words = [sys.executable, "-m", "probe", "child"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={"ONLY": "this"}, cwd="sub", start_new_session=True)
    said, _ = child.communicate("words for the child")
    about = json.loads(said)
    assert about.pop("pid") == child.pid
    assert about.pop("ppid") == os.getpid()
    print(about, child.returncode)
if sys.argv[1] == "child":
    environment = {name: value for name, value in os.environ.items() if name == "ONLY"}
    print(json.dumps({
        "pid": os.getpid(), "ppid": os.getppid(), "leads": os.getsid(0) == os.getpid(),
        "folder": os.path.basename(os.getcwd()), "environment": environment,
        "size": len(os.environ) < 5, "heard": sys.stdin.read(), "path": sys.path[0] == os.getcwd(),
        "files": sorted(os.listdir("/proc/self/fd"))[:3], "name": __name__, "argv": sys.argv[1:],
        "terminates": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "threads": threading.active_count(), "main": sys.modules["__main__"].__file__[-8:],
    }))
    sys.exit(3)
"""


@pytest.mark.parametrize("what", ["late", "message", "raise", "parent"])
def test_a_fork_behaves_like_a_new_interpreter(what: str, tmp_path: Path) -> None:
    """Exit codes, threads, atexit functions, children with files, folder and session."""
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "probe.py").write_text(PROBE)
    words = [sys.executable, "-m", "probe", what]
    executed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    forked = forking.run("probe", what, cwd=tmp_path)
    assert (forked.returncode, forked.stdout) == (executed.returncode, executed.stdout)
    assert forked.stderr.splitlines()[-1:] == executed.stderr.splitlines()[-1:]
    if what == "parent":
        assert executed.returncode == 0, executed.stderr


def test_a_fork_starts_without_threads_or_open_files_of_its_server(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        'import os\nprint(os.listdir("/proc/self/task") == [str(os.getpid())])\n'
        'print([name for name in os.listdir("/proc/self/fd") if int(name) > 2][1:])\n'
    )
    done = forking.run("bare", cwd=tmp_path)
    assert done.stdout.split("\n") == ["True", "[]", ""], "the one that lists is open"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
def test_a_signal_ends_a_fork_as_it_ends_any_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "sleeper.py").write_text("import time\nwhile True: time.sleep(1)")
    process = forking.start("sleeper", cwd=tmp_path)
    assert process.poll() is None
    os.kill(process.pid, number)
    assert process.wait() == -number
