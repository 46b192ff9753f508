"""Environments given by a Python program: an id with keyword arguments, a factory or an object.

A config names its environment by a string, so that it can be saved and read again:

| given                                        | string                                         |
|----------------------------------------------|------------------------------------------------|
| "FrozenLake-v1", {"is_slippery": False}      | FrozenLake-v1,is_slippery=false                |
| a function of an importable module           | my_module:make_env                             |
| another function (of a notebook, a closure)  | python:make_env, known to this process only    |
| an object made by `gymnasium.make`           | its id with its keyword arguments              |
| another object                               | python:Name, copied; known to this process     |

What only this process knows can be resumed only after the same call has been made again.
"""

import copy
import inspect
import json
import reprlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from proxrl.errors import UserError
from proxrl.plugins import import_module

PYTHON = "python"  # before the name of an environment that only this process knows
Factory = Callable[..., "gymnasium.Env[Any, Any]"]

_factories: dict[str, Factory] = {}


# --------------------------------------------------------------------------------- given to strings


def name_of(given: Any, arguments: Mapping[str, Any] | None = None) -> str:
    """The string that names this environment in a config; registers what has none of its own."""
    if isinstance(given, str):
        return with_arguments(given, arguments or {})
    if arguments:
        raise UserError("env_kwargs are for an environment id, not for a factory or an object")
    if isinstance(given, gymnasium.Env):
        return _name_of_object(given)
    if callable(given):
        return _name_of_factory(given)
    raise UserError(
        f"invalid environment {given!r:.60}: must be a Gymnasium id, a function that makes an "
        "environment, or a gymnasium.Env"
    )


def with_arguments(env: str, arguments: Mapping[str, Any]) -> str:
    """`FrozenLake-v1,is_slippery=false` for {"is_slippery": False}."""
    for name, value in arguments.items():
        try:
            text = value if isinstance(value, str) else json.dumps(value, default=repr)
            again = _value(text)
            written = not {",", ":"} & set(text) and again == value and type(again) is type(value)
        except (ValueError, RecursionError):  # nested too deeply, or in itself
            written = False
        if not written:
            raise UserError(
                f"env_kwargs: {name} = {reprlib.repr(value):.40} cannot be written in a config: "
                "pass a function that makes the environment instead"
            )
        env += f",{name}={text}"
    return env


def _name_of_factory(make: Factory) -> str:
    name = getattr(make, "__qualname__", type(make).__name__)
    module = getattr(make, "__module__", None) or "__main__"
    if module != "__main__":
        try:
            if getattr(import_module(module), name, None) is make:
                return f"{module}:{name}"
        except ImportError:
            pass  # defined in a program that is not a module
    return _register(name.replace("<locals>.", "").replace("<lambda>", "lambda"), make)


def _name_of_object(made: "gymnasium.Env[Any, Any]") -> str:
    spec = made.spec
    if spec is not None and not spec.additional_wrappers and _is_registered_as(spec):
        try:
            return with_arguments(spec.id, _without_render_mode(spec.kwargs))
        except UserError:
            pass  # arguments that cannot be written: copy the object
    name = _describe(made)
    warnings.warn(
        f"{name} is an environment object, and each environment of the run is a copy of it. To "
        "resume the run in another process, pass a function that makes the environment instead.",
        stacklevel=4,
    )
    return _register(name, _Copies(made))


class _Copies:
    """A factory that copies an object."""

    def __init__(self, made: "gymnasium.Env[Any, Any]") -> None:
        self._made = made

    def __call__(self) -> "gymnasium.Env[Any, Any]":
        try:
            return copy.deepcopy(self._made)
        except Exception as error:  # whatever the parts of an environment raise
            raise UserError(
                f"cannot copy {_describe(self._made)} ({type(error).__name__}: {error}): pass a "
                "function that makes the environment instead"
            ) from None


def _describe(made: "gymnasium.Env[Any, Any]") -> str:
    """TimeLimit-CartPoleEnv"""
    names = [type(made).__name__]
    while isinstance(made, gymnasium.Wrapper):
        made = made.env
        names.append(type(made).__name__)
    plain = {"OrderEnforcing", "PassiveEnvChecker"}
    return "-".join(name for name in names if name not in plain)


def _is_registered_as(spec: gymnasium.envs.registration.EnvSpec) -> bool:
    """Whether `gymnasium.make` with this id makes such an environment, apart from arguments."""
    known = gymnasium.registry.get(spec.id)
    return (
        known is not None
        and known.entry_point == spec.entry_point
        and known.max_episode_steps == spec.max_episode_steps
        and known.additional_wrappers == spec.additional_wrappers
    )


def _without_render_mode(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "render_mode"}


def _register(name: str, make: Factory) -> str:
    _factories[name] = make
    return f"{PYTHON}:{name}"


# -------------------------------------------------------------------------- strings to environments


def arguments_of(env: str) -> tuple[str, dict[str, Any]]:
    """("FrozenLake-v1", {"is_slippery": False}) for `FrozenLake-v1,is_slippery=false`."""
    name, *pairs = env.split(",")
    arguments = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"invalid environment {env:.100}: {pair!r:.100} must be KEY=VALUE")
        try:
            arguments[key] = _value(text)
        except RecursionError:
            raise UserError(
                f"invalid environment {name}: {key} = {text:.20}... is nested too deeply"
            ) from None
    return name, arguments


def factory_of(env: str) -> Factory | None:
    """The factory that `module:function` or `python:name` names; None if it is an id."""
    module, colon, name = env.partition(":")
    if not colon:
        return None
    if module == PYTHON:
        if name not in _factories:
            raise UserError(
                f"{env} was given as a Python object and is unknown in this process: pass it to "
                "presets.make again first, or use an importable function, module:function"
            )
        return _factories[name]
    if name in gymnasium.registry:
        return None
    found = getattr(import_module(module), name, None)
    return found if callable(found) else None


def made_by(
    make: Factory, env: str, arguments: Mapping[str, Any], pictures: bool
) -> "gymnasium.Env[Any, Any]":
    """Call the factory, with a render mode if it is needed and accepted."""
    arguments = dict(arguments)
    if pictures and _accepts(make, "render_mode"):
        arguments["render_mode"] = "rgb_array"
    try:
        made: Any = make(**arguments)
    except TypeError as error:
        raise UserError(f"cannot make {env}: {error}") from None
    if not isinstance(made, gymnasium.Env):
        raise UserError(f"{env} returned {type(made).__name__}: must be a gymnasium.Env")
    found: gymnasium.Env[Any, Any] = made
    return found


def _accepts(make: Factory, name: str) -> bool:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.name == name or one.kind is one.VAR_KEYWORD for one in parameters)


def _value(text: str) -> Any:
    """`false`, `3` and `0.5` as JSON (True, False and None also as in Python), else a string."""
    python = {"True": True, "False": False, "None": None}
    if text in python:
        return python[text]
    try:
        return json.loads(text)
    except ValueError:
        return text
