"""`proxrl train` and `proxrl resume`."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from proxrl.commands.parsing import parse_settings, value_of
from proxrl.config import RunConfig, differences, to_json, validated
from proxrl.config.options import describe_options
from proxrl.errors import UserError
from proxrl.plugins import named_code, require_trust, trust_option
from proxrl.suites import BUILT_IN, presets

if TYPE_CHECKING:
    from proxrl.training.run import RunExists

LONGEST_NAME = 120  # characters of a folder's name
ABOUT = """usage: proxrl train PRESET --env ID [OPTIONS]

Train an agent on an environment. Before it starts, a run prints the memory,
disk and time it needs. Stopped or killed, it continues with `proxrl resume`.

  proxrl train dqn-pro --env CartPole-v1
  proxrl train dqn-pro --env MinAtar/Breakout-v1 --seeds 0 1 2
  proxrl train rainbow --env ALE/Breakout-v5 --steps 1_000_000
  proxrl train dqn --env FrozenLake-v1,is_slippery=false
  proxrl train dqn-pro --env CartPole-v1 --proximal.c 0.5 --print-config

PRESET is an agent; `proxrl presets` lists their settings:
  dqn, rainbow, rainbow-full              without the pull
  dqn-pro, rainbow-pro, rainbow-full-pro  with the paper's pull (proximal.c)
  dqn-pro-adaptive, rainbow-pro-adaptive  the pull sets itself (docs/rules.md)
  dqn-authors, dqn-authors-pro,           the authors' settings for Atari
  rainbow-authors, rainbow-authors-pro    (docs/fidelity.md)

ID is any Gymnasium id with discrete actions. Runs go to runs/PRESET_ID_seedN.

`proxrl train PRESET --env ID --help` lists every setting with its value."""
ABOUT_RESUME = """usage: proxrl resume RUN [OPTIONS]

Continue a run from its newest checkpoint, bit-identical to one that was never
stopped, or extend a finished one. Only total steps, evaluation and logging
settings may change.

  proxrl resume RUN
  proxrl resume RUN --steps 100_000

`proxrl runs` lists the runs; `proxrl resume RUN --help` lists the settings."""


@dataclass(frozen=True)
class TrainOptions:
    """Train a preset on an environment. Steps are agent steps, updates are gradient updates."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]
    folder: Path | None = None
    """Run folder to create; default: runs/AGENT_ENV_seedN, with the changed settings."""
    if_exists: Literal["error", "resume", "overwrite"] = "error"
    """If the folder has a run: stop with an error, continue the run, or delete it."""
    seeds: tuple[int, ...] = ()
    """Train one run for each of these seeds, side by side, and make a report."""
    jobs: int | None = None
    """With --seeds, maximum number of runs at the same time; default: as many as fit."""
    print_config: bool = False
    """Print the complete configuration as JSON and stop."""


def train(arguments: list[str]) -> Callable[[], None]:
    """train an agent on an environment"""
    wants_help = bool({"-h", "--help"} & set(arguments))
    names = ", ".join(presets.AGENTS)
    if not arguments or arguments[0].startswith("-"):
        if not wants_help:
            raise UserError(f"missing argument: PRESET, one of {names}")
        return lambda: print(ABOUT)
    agent, rest = arguments[0], arguments[1:]
    presets.require_agent(agent)
    env = value_of("--env", rest)
    if env is None and rest and not rest[0].startswith("-"):
        raise UserError(f"unexpected argument {rest[0]}; did you mean --env {rest[0]}?")
    if env is None and not wants_help:
        raise UserError(
            f"missing option --env: {', '.join(f'--env {one.base.env}' for one in BUILT_IN)} "
            "or any Gymnasium id with discrete actions"
        )
    rule = value_of("--proximal.rule", rest)
    if wants_help and rule is not None and ":" in rule:
        from proxrl.proximal.rules import rule_kind

        print(
            f"proximal.options of {rule}, KEY=VALUE:\n{describe_options(rule_kind(rule).Options)}\n"
        )
    preset = presets.make(agent, BUILT_IN[0].base.env if env is None else env)
    options = parse_settings(TrainOptions, rest, f"proxrl train {agent}", TrainOptions(preset))
    config = validated(options.config)
    if options.print_config:
        return lambda: print(json.dumps(to_json(config), indent=2))
    if options.seeds:
        return _train_seeds(options, config, preset, alone=value_of("--seed", rest) is None)
    if options.jobs is not None:
        raise UserError(f"invalid --jobs {options.jobs}: only with --seeds")
    folder = options.folder or default_folder(config, preset)

    def work() -> None:
        from proxrl.training import run

        try:
            run.train(config, folder, "auto", if_exists=options.if_exists)
        except run.RunExists as error:
            raise UserError(_how_to_go_on(error, folder, config)) from None
        _print_finished(folder, config)

    return work


def _train_seeds(
    options: TrainOptions, config: RunConfig, preset: RunConfig, alone: bool
) -> Callable[[], None]:
    if not alone:
        raise UserError("--seed and --seeds cannot be combined: list all seeds after --seeds")
    if options.if_exists == "overwrite":
        raise UserError("invalid --if-exists overwrite: with --seeds, delete the folder yourself")
    if options.jobs is not None and options.jobs < 1:
        raise UserError(f"invalid --jobs {options.jobs}: must be at least 1")
    if len(set(options.seeds)) < len(options.seeds):
        raise UserError(f"invalid --seeds {' '.join(map(str, options.seeds))}: duplicate seed")
    folder = options.folder or default_folder(config, preset, with_seed=False)

    def work() -> None:
        from proxrl.studies.seeds import train_seeds

        train_seeds(config, preset, options.seeds, folder, options.jobs)

    return work


@dataclass(frozen=True)
class ResumeOptions:
    """Continue a run from its newest checkpoint, or extend a finished one. Only total steps,
    evaluation and logging settings may change."""

    config: Annotated[RunConfig, tyro.conf.arg(name="")]
    trust: bool = False
    """Import the modules that the run names (--env, --network.kind or --proximal.rule given as
    module:name), which executes their code; naming them here again is consent, too."""


def resume(arguments: list[str]) -> Callable[[], None]:
    """continue a run, or extend a finished one"""
    from proxrl.runs.folder import RunFolder

    if not arguments or arguments[0].startswith("-"):
        if not {"-h", "--help"} & set(arguments):
            raise UserError("missing argument: RUN, the folder to resume")
        return lambda: print(ABOUT_RESUME)
    folder, rest = Path(arguments[0]), arguments[1:]
    default = ResumeOptions(RunFolder(folder).config())
    options = parse_settings(ResumeOptions, rest, f"proxrl resume {folder}", default)
    named = named_code(default.config).items()
    trust = options.trust or all(value_of(f"--{path}", rest) == name for path, name in named)
    require_trust(default.config, folder, trust)

    def work() -> None:
        from proxrl.training import run
        from proxrl.training.progress import chosen

        if not run.is_finished(RunFolder(folder), options.config, chosen("auto")):
            run.resume(folder, options.config, "auto", trust)
        _print_finished(folder, options.config)

    return work


# ------------------------------------------------------------------------------------------ folders


def default_folder(config: RunConfig, preset: RunConfig, with_seed: bool = True) -> Path:
    """runs/dqn-pro_ALE-Breakout-v5_seed1, with the settings that differ from the preset's:
    runs/dqn-pro_CartPole-v1_proximal.c=0.5_seed1."""
    changed = {
        path: value
        for path, (_, value) in differences(preset, config).items()
        if path != "seed" and not path.startswith("logging.")
    }
    settings = [f"{path}={_short(value)}" for path, value in changed.items()]
    name = "_".join([config.agent, _short(config.env), *settings])
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]
        name = f"{config.agent}_{_short(config.env)}_{len(settings)}-settings-{digest}"
    return Path("runs") / (f"{name}_seed{config.seed}" if with_seed else name)


def _short(value: Any) -> str:
    """A value as part of a folder's name: 0.5, 64x64, my-module-Env-v0."""
    if isinstance(value, tuple):
        return "x".join(map(_short, value))
    return re.sub(r"[^A-Za-z0-9.=-]+", "-", str(value))


def _how_to_go_on(error: "RunExists", folder: Path, config: RunConfig) -> str:
    """Advice for a folder that has a run already."""
    ways = []
    if error.can_resume:
        options = [f"--{path} {after}" for path, (_, after) in error.changed.items()]
        what = "continue"
        if error.finished:
            what = "extend"
            if config.steps <= error.done:  # nothing would be trained
                options = [one for one in options if not one.startswith("--steps ")]
                options.append(f"--steps {2 * error.done}")
        command = " ".join(["proxrl resume", f"{folder}{trust_option(config)}", *options])
        ways.append(f"{what} it with `{command}`")
    ways += ["start again with --if-exists overwrite", "choose another --folder"]
    return f"{error.what}: {', '.join(ways[:-1])}, or {ways[-1]}"


def _print_finished(folder: Path, config: RunConfig) -> None:
    run = f"{folder}{trust_option(config)}"
    print(f"finished: {folder}\n  evaluate: proxrl eval {run}\n  video:    proxrl play {run}")
