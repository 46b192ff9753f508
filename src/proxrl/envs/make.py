"""Make an environment from its id, using its suite's factory."""

import contextlib
import difflib
import importlib
import re
from collections.abc import Iterator
from typing import Any

import gymnasium

from proxrl.config import ProtocolConfig
from proxrl.envs import checks
from proxrl.envs.checked import Checked
from proxrl.envs.given import PYTHON, arguments_of, factory_of, made_by
from proxrl.envs.gym import Gym
from proxrl.envs.journal import Environment
from proxrl.errors import UserError, what_raised
from proxrl.figures import without_matplotlibrc
from proxrl.plugins import current_folder, import_module, imported
from proxrl.suites import BUILT_IN, Suite, all_suites, bare_id, suite_of
from proxrl.types import ObservationSpec

VERSION = re.compile(r"-v(\d+)$")
GYMNASIUM = re.compile(r" was raised from the environment creator for .*")
SIMILAR = 0.7  # of the names of two games, for a suggestion
PLAIN = {
    "sticky_actions": 0.0,
    "frame_skip": 1,
    "life_loss_terminal": False,
    "frame_size": 84,
    "grayscale": True,
}


def make(env: str, protocol: ProtocolConfig, pictures: bool = False) -> Environment:
    """The environment with this id under this protocol; set `pictures` to render it."""
    suite = suite_of(env)
    _import_provider(env, suite)
    _require_supported(env, suite, protocol)
    if suite.make is None:
        return _adapted(env, _make_gym(env, pictures), protocol)
    if "," in env:
        raise UserError(f"{env}: environments of suite {suite.name} take no arguments")
    _require_known(bare_id(env))
    function = imported(suite.make, f"make of suite {suite.name}")
    made: Environment | gymnasium.Env[Any, Any]
    with _making(env):
        made = function(bare_id(env), protocol, pictures)
    if isinstance(made, gymnasium.Env):
        return _adapted(env, made, protocol)
    return made if suite in BUILT_IN else Checked(env, made)


def _adapted(env: str, made: "gymnasium.Env[Any, Any]", protocol: ProtocolConfig) -> Gym:
    try:
        return Gym(env, made, protocol)
    except (AttributeError, TypeError) as error:  # spaces that are missing or are not spaces
        raise UserError(f"cannot use {env}: {error}") from error


@contextlib.contextmanager
def _making(env: str) -> Iterator[None]:
    """Name what prevents an environment from being made, also its own exceptions."""
    try:
        with checks.staying():
            yield
    except (UserError, gymnasium.error.UnregisteredEnv):
        raise
    except (gymnasium.error.Error, ImportError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"cannot make {env}: {first}") from None
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
            raise UserError(f"cannot make {env}: {GYMNASIUM.sub('', str(error))}") from error
        raise UserError(f"cannot make {env}: {what_raised('its constructor', error)}") from error


def observation_of(env: str) -> ObservationSpec:
    """The observation spec of an environment under the default protocol."""
    environment = make(env, ProtocolConfig())
    environment.close()
    return environment.observation


def is_known(env: str) -> bool:
    """Whether an environment with this id exists."""
    try:
        _import_provider(env, suite_of(env))
        _require_known(bare_id(env))
    except UserError:
        return False
    return True


def _import_provider(env: str, suite: Suite) -> None:
    """Import the modules that register this id: the suite's provider and the id's `module:`."""
    if suite.provider is not None:
        _import_of_suite(env, suite)
    module, colon, _ = env.split(",")[0].partition(":")
    if colon and module != PYTHON:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(
                f"cannot import {error.name}: {env} is registered by the Python module {module}"
            ) from None
        except ImportError as error:
            raise UserError(f"cannot import {module}, which registers {env}: {error}") from None
        except (ValueError, TypeError):  # an empty or relative name
            raise UserError(f"invalid --env {env}: {module!r} is not a Python module") from None


def _import_of_suite(env: str, suite: Suite) -> None:
    assert suite.provider is not None
    try:
        with without_matplotlibrc():  # which MinAtar imports
            provider = importlib.import_module(suite.provider)
    except ImportError:
        how = f": {suite.install}" if suite.install else f", module {suite.provider}"
        raise UserError(f"{env} needs {suite.title}{how}") from None
    except (Exception, SystemExit) as error:  # of a third party
        raise UserError(f"cannot import {what_raised(suite.provider, error)}") from error
    # Some modules register their environments in this function instead of on import.
    if suite.base.env not in gymnasium.registry and hasattr(provider, "register_envs"):
        provider.register_envs()


def _require_known(env: str) -> None:
    if env in gymnasium.registry and not _bypasses_its_suite(env):
        return
    for suite in all_suites():  # register all ids, for the suggestions
        if suite.provider is not None:
            with contextlib.suppress(UserError):
                _import_of_suite(env, suite)
    ids = [name for name in gymnasium.registry if not _bypasses_its_suite(name)]
    # By their games: most ids share a version or a namespace, which would make them similar.
    near = difflib.get_close_matches(_game(env), {_game(name) for name in ids}, 1, SIMILAR)
    same = [name for name in ids if _game(name) in near]
    space = env.rpartition("/")[0]  # suggestions from the same namespace first, then without one
    same.sort(key=lambda name: (name.rpartition("/")[0] != space, "/" in name, _newest_first(name)))
    hint = f"did you mean {' or '.join(same[:3])}?" if same else "see `gymnasium.pprint_registry()`"
    raise UserError(f"unknown environment {env}; {hint}")


def _bypasses_its_suite(env: str) -> bool:
    """Whether an id belongs to a built-in suite's package but not to the suite, and so would ignore
    its protocol, such as BreakoutNoFrameskip-v4."""
    entry_point = str(gymnasium.registry[env].entry_point)
    packages = [suite for suite in BUILT_IN if suite.provider is not None]
    return any(
        entry_point.startswith(str(suite.provider).split(".")[0]) and not suite.matches(env)
        for suite in packages
    )


def _newest_first(env: str) -> tuple[str, int]:
    version = VERSION.search(env)
    return VERSION.sub("", env), -int(version[1]) if version else 0


def _game(env: str) -> str:
    """The bare name: breakout for ALE/Breakout-v5 and for BreakoutNoFrameskip-v4."""
    name = VERSION.sub("", env.split("/")[-1])
    return re.sub(r"(NoFrameskip|Deterministic|-ram)", "", name).lower()


def _require_supported(env: str, suite: Suite, protocol: ProtocolConfig) -> None:
    for name, plain in PLAIN.items():
        if getattr(protocol, name) != plain and name not in suite.protocol:
            supported = " and ".join(one.title for one in BUILT_IN if name in one.protocol)
            raise UserError(f"protocol.{name} is only supported by {supported}, not by {env}")


def _make_gym(env: str, pictures: bool) -> "gymnasium.Env[Any, Any]":
    whole, options = arguments_of(env)
    factory = factory_of(whole)
    if factory is not None:
        with current_folder(), _making(env):
            return made_by(factory, whole, options, pictures)
    name = bare_id(whole)
    if name in gymnasium.registry or not VERSION.search(name):  # Gymnasium would choose a version
        _require_known(name)
    if pictures:
        options["render_mode"] = "rgb_array"
    try:
        # the entry point of module:ID may be in the current folder; nothing else is looked up there
        place = current_folder() if ":" in env else contextlib.nullcontext()
        with place, _making(env):
            return gymnasium.make(name, disable_env_checker=True, **options)
    except gymnasium.error.UnregisteredEnv:
        _require_known(name)
        raise
