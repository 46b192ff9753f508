"""Dependencies, extras and the Makefile's choice of Python."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import torch

from proxrl import extras
from proxrl.errors import UserError
from proxrl.native import library
from tests import forking

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Checked where they are used, with messages of their own.
ELSEWHERE = {
    "optuna",
    "sqlalchemy",
    "minatar",
    "ray",
    "wandb",
    "stable_baselines3",
    "sb3_contrib",
    "tianshou",
    "packaging",
}


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9-]", requirement)[0]


def imports_of(path: Path) -> set[str]:
    """The top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_the_core_needs_torch_and_numpy_only() -> None:
    assert [name_of(one) for one in PROJECT["dependencies"]] == ["numpy", "torch"]


def test_every_import_is_declared_in_an_extra() -> None:
    sources = (ROOT / "src" / "proxrl").rglob("*.py")
    imported = set().union(*map(imports_of, sources))
    known = {module for modules in extras.MODULES.values() for module in modules}
    unknown = imported - sys.stdlib_module_names - known - ELSEWHERE - {"proxrl", "torch", "numpy"}
    assert not unknown, "add them to extras.py and pyproject.toml"
    distributions = packages_distributions()
    for extra, modules in extras.MODULES.items():
        declared = {name_of(one) for one in PROJECT["optional-dependencies"][extra]} - {"proxrl"}
        brought = {name.lower() for module in modules for name in distributions[module]}
        assert declared == brought & declared, extra
        assert len(declared) == len(modules), extra


def test_the_makefile_installs_every_extra_that_tests_need() -> None:
    (installed,) = re.findall(r"--editable '\.\[(.*)\]'", (ROOT / "Makefile").read_text())
    extra = PROJECT["optional-dependencies"]
    assert set(installed.split(",")) | {"train", "atari", "report", "wandb"} >= set(extra)
    assert extra["all"] == ["proxrl[atari,report]"]


def test_proximal_works_with_only_torch_and_numpy(tmp_path: Path) -> None:
    done = forking.run("tests.only_torch", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "weights [0.5, 0.5]"
    for line, name in zip(lines[1:4], ("Agent", "train", "display_for"), strict=True):
        assert line.startswith(name)
        assert line.endswith(": pip install 'proxrl[train]'")
    assert lines[4] == "exit 2"
    assert re.fullmatch(
        r"proxrl: the command line needs \w+: pip install 'proxrl\[train\]'\n", done.stderr
    )


def test_a_missing_module_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require("report", "a report")
    monkeypatch.setitem(extras.MODULES, "report", ("matplotlib", "nowhere_to_be_found"))
    with pytest.raises(UserError, match=r"^a report needs nowhere_to_be_found: pip .*\[report\]'"):
        extras.require("report", "a report")
    unknown = ModuleNotFoundError("No module named 'other'", name="other")
    assert extras.explain(unknown, "this") is unknown


def test_the_c_code_was_compiled_where_it_can_be() -> None:
    """Its build is optional: a mistake in it would only make training slower."""
    compiler = shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0])
    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    has_avx2 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    if compiler is None or not headers or not has_avx2:
        pytest.skip("no C compiler, no Python.h, or a CPU without AVX2")
    assert library() is not None


# ---------------------------------------------------------------------------------- the Makefile


def python_at(folder: Path, name: str, works: bool) -> None:
    """A `python` that records its name and creates no environment, or fails (as pyenv's shims)."""
    script = folder / name
    script.write_text(f"#!/bin/sh\n[ {int(works)} = 1 ] || exit 127\necho {name} $* >> used\n")
    script.chmod(0o755)


def make_install(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`make install` that stops before pip, with the Pythons in `folder` only."""
    makefile = (ROOT / "Makefile").read_text()
    assert "$(PIP) install" in makefile
    (folder / "Makefile").write_text(makefile.replace("$(PIP) install", "true"))
    (needed,) = re.findall(r"^\$\(VENV\)/.installed: (.*)$", makefile, re.MULTILINE)
    for name in needed.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for tool in ("make", "sh", "touch", "true", "mkdir"):
        found = next(
            Path(place) / tool for place in ("/bin", "/usr/bin") if Path(place, tool).exists()
        )
        (folder / tool).symlink_to(found)
    (folder / ".venv").mkdir()
    return subprocess.run(
        [str(folder / "make"), "install", *arguments],
        cwd=folder,
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_takes_the_newest_python_that_works(tmp_path: Path) -> None:
    for name, works in (("python3.13", False), ("python3.12", True), ("python3.11", True)):
        python_at(tmp_path, name, works)
    done = make_install(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "with python3.12" in done.stdout
    assert (tmp_path / "used").read_text().splitlines()[-1] == "python3.12 -m venv .venv"


def test_make_takes_the_python_that_is_named(tmp_path: Path) -> None:
    for name in ("python3.12", "mine"):
        python_at(tmp_path, name, works=True)
    done = make_install(tmp_path, "PYTHON=mine")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "used").read_text() == "mine -m venv .venv\n"


def test_make_says_what_it_needs_if_there_is_no_python(tmp_path: Path) -> None:
    done = make_install(tmp_path)
    assert done.returncode != 0
    assert "proxrl needs Python 3.11, 3.12 or 3.13" in done.stderr
    assert "PYTHON=/path/to/python" in done.stderr
    assert not os.listdir(tmp_path / ".venv")


def test_the_check_of_a_python_accepts_the_supported_versions_only() -> None:
    (check,) = re.findall(r"^SUPPORTED := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    supported = {
        minor
        for minor in range(8, 16)
        if eval(check.split("sys.exit(not ")[1].removesuffix(")"), {"sys": Version(minor)})
    }
    named = {
        int(found.group(1))
        for one in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", one))
    }
    assert supported == named


class Version:
    """Stands for `sys`."""

    def __init__(self, minor: int) -> None:
        self.version_info = (3, minor, 1)
