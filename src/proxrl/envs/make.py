"""From an id to an environment, or one helpful line."""

import contextlib
import importlib
import re
from typing import Any

import gymnasium

from proxrl.config import ProtocolConfig
from proxrl.envs.journal import Environment
from proxrl.errors import UserError, did_you_mean


def make(env: str, protocol: ProtocolConfig, pictures: bool = False) -> Environment:
    """The environment with this id under this protocol; `pictures` if it will be rendered."""
    _import_provider(env)
    if env.startswith(("ale_py:", "minatar.gym:")):
        env = env.split(":", 1)[1]
    if env.startswith("ALE/"):
        _known(env)
        from proxrl.envs.atari import Atari

        return Atari(env, protocol)
    _only_atari(env, protocol)
    if env.startswith("MinAtar/"):
        _known(env)
        from proxrl.envs.minatar import MinAtar

        return MinAtar(env, protocol)
    if protocol.sticky_actions:
        raise UserError(f"protocol.sticky_actions is for Atari and MinAtar, not {env}")
    from proxrl.envs.gym import Gym

    return Gym(env, _made(env, pictures), protocol)


def _import_provider(env: str) -> None:
    """Import what registers this id: ale_py, minatar or the user's own module."""
    name = env.split(":", 1)[-1]
    if name.startswith("ALE/"):
        gymnasium.register_envs(importlib.import_module("ale_py"))
    elif name.startswith("MinAtar/"):
        try:
            provider = importlib.import_module("minatar.gym")
        except ImportError:
            raise UserError(f"{env} needs MinAtar: pip install 'proxrl[minatar]'") from None
        if "MinAtar/Breakout-v1" not in gymnasium.registry:
            provider.register_envs()
    elif ":" in env:
        module = env.split(":", 1)[0]
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(
                f"cannot import {error.name}: {env} names the Python module {module} that "
                "registers the environment"
            ) from None


def _known(env: str) -> None:
    if env in gymnasium.registry and not _is_old_atari(env):
        return
    for provider in ("ALE/", "MinAtar/"):  # for their ids: Breakout-v5 may mean either's
        with contextlib.suppress(UserError):
            _import_provider(provider)
    ids = [name for name in gymnasium.registry if not _is_old_atari(name)]
    game = _game(env)
    same = sorted(name for name in ids if game and _game(name) == game)
    hint = f"; did you mean {' or '.join(same[:3])}?" if same else did_you_mean(env, ids, most=3)
    raise UserError(f"unknown environment {env}{hint or '; see `gymnasium.pprint_registry()`'}")


def _is_old_atari(env: str) -> bool:
    """BreakoutNoFrameskip-v4 and the like, which come without a protocol."""
    known = gymnasium.registry[env]
    return str(known.entry_point).startswith("ale_py") and not env.startswith("ALE/")


def _game(env: str) -> str:
    """The bare name: breakout, of ALE/Breakout-v5 and of BreakoutNoFrameskip-v4."""
    name = re.sub(r"-v\d+$", "", env.split("/")[-1])
    return re.sub(r"(NoFrameskip|Deterministic|-ram)", "", name).lower()


def _only_atari(env: str, protocol: ProtocolConfig) -> None:
    if protocol.frame_skip != 1:
        raise UserError(f"protocol.frame_skip is for Atari (ALE/...), not {env}")
    if protocol.life_loss_terminal:
        raise UserError(f"protocol.life_loss_terminal is for Atari (ALE/...), not {env}")


def _made(env: str, pictures: bool) -> "gymnasium.Env[Any, Any]":
    name = env.split(":", 1)[-1]
    if name in gymnasium.registry:
        _known(name)
    options: dict[str, Any] = {"render_mode": "rgb_array"} if pictures else {}
    try:
        return gymnasium.make(name, disable_env_checker=True, **options)
    except gymnasium.error.UnregisteredEnv:
        _known(name)
        raise
    except (gymnasium.error.Error, ImportError) as error:
        raise UserError(f"cannot make {env}: {str(error).splitlines()[0]}") from None
