"""Supported versions of other libraries: the ranges of the extras in `pyproject.toml`."""

from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

EXTRAS = {"stable-baselines3": "sb3", "sb3-contrib": "sb3", "tianshou": "tianshou"}


def require(package: str) -> None:
    """Raise `ImportError` unless a supported version is installed."""
    try:
        needed = _requirement(package)
    except ModuleNotFoundError as error:  # `packaging`, which the extras bring
        extra = EXTRAS[package]
        raise ImportError(f"{package} needs {error.name}: pip install 'proxrl[{extra}]'") from None
    fits = f"proxrl {metadata.version('proxrl')} works with {package} {needed.specifier}"
    remedy = f"pip install '{package}{needed.specifier}'"
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ImportError(f"{package} is not installed ({fits}): {remedy}") from None
    if not needed.specifier.contains(installed, prereleases=True):
        raise ImportError(f"{package} {installed} is not supported ({fits}): {remedy}")


def _requirement(package: str) -> "Requirement":
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        requirements = metadata.requires("proxrl") or []
    except metadata.PackageNotFoundError:
        raise ImportError("proxrl itself is not installed: pip install proxrl") from None
    for requirement in map(Requirement, requirements):
        if canonicalize_name(requirement.name) == canonicalize_name(package):
            return requirement
    raise LookupError(f"no extra of proxrl requires {package}")
