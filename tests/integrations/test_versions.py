"""Missing or unsupported libraries are named, with the supported versions."""

import importlib
import sys
from importlib import metadata

import pytest

from proxrl.integrations.versions import require

MODULES = {
    "stable-baselines3": "proxrl.integrations.stable_baselines3",
    "sb3-contrib": "proxrl.integrations.sb3_contrib",
    "tianshou": "proxrl.integrations.tianshou",
}


def pretend(monkeypatch: pytest.MonkeyPatch, package: str, version: str | None) -> None:
    real = metadata.version

    def pretended(name: str) -> str:
        if name != package:
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", pretended)


@pytest.mark.parametrize("package", MODULES)
def test_the_installed_versions_are_supported(package: str) -> None:
    require(package)


@pytest.mark.parametrize("package", MODULES)
@pytest.mark.parametrize("version", ["1.2.0", "99.0"])
def test_importing_with_an_unsupported_version_names_the_supported_ones(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str
) -> None:
    pretend(monkeypatch, package, version)
    monkeypatch.delitem(sys.modules, MODULES[package], raising=False)
    with pytest.raises(
        ImportError, match=rf"{package} {version} is not supported.*>=2\..*pip install"
    ):
        importlib.import_module(MODULES[package])


def test_a_missing_library_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, "tianshou", None)
    with pytest.raises(ImportError, match=r"tianshou is not installed .*pip install 'tianshou"):
        require("tianshou")


def test_without_the_extra_its_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "packaging"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "packaging", None)
    with pytest.raises(ImportError, match=r"pip install 'proxrl\[sb3\]'"):
        require("stable-baselines3")


def test_a_library_without_an_extra_is_an_internal_error() -> None:
    with pytest.raises(LookupError, match="no extra"):
        require("keras")


def test_sources_without_an_installation_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    with pytest.raises(ImportError, match="proxrl itself is not installed"):
        require("tianshou")
