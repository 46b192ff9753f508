"""A trained agent: `Agent.load(folder)`, `predict`, `evaluate`."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proxrl.agents.networks import QNetwork, build_network
from proxrl.agents.noisy import draw_noise, noisy_layers, silence
from proxrl.config import RunConfig, validated
from proxrl.envs import Environment
from proxrl.errors import UserError
from proxrl.plugins import require_trust
from proxrl.runs.checkpoint import require_same_settings
from proxrl.runs.folder import CONFIG, RunFolder
from proxrl.training.environments import scoring_environment, side_by_side
from proxrl.training.evaluate import Evaluation, evaluate
from proxrl.training.export import export_network
from proxrl.training.machine import keeping_threads, prepare_process, resolve_device
from proxrl.training.resources import available_cores
from proxrl.training.streams import independent_seed
from proxrl.types import Array


class Agent:
    """The online network of a run, ready to act."""

    def __init__(
        self, network: QNetwork, config: RunConfig, environments: list[Environment], step: int
    ) -> None:
        self.network = network.requires_grad_(False)
        self.config = config
        self.step = step  # agent steps of training
        self.environment = environments[0]  # with the evaluation protocol
        self._environments = environments  # for evaluating episodes side by side
        self.device = next(network.parameters()).device
        self._generator = np.random.default_rng(config.seed)

    def __repr__(self) -> str:
        return f"<Agent {self.config.agent} on {self.config.env} at step {self.step:,}>"

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str = "auto",
        pictures: bool = False,
        trust: bool = False,
    ) -> "Agent":
        """Load the newest checkpoint of a run folder.

        `pictures`: enable rendering. `trust`: import the modules that the run's config names, if
        any (an environment, network or proximal rule given as module:name); that executes code.
        """
        place = RunFolder(folder)
        config = place.config()
        require_trust(config, folder, trust)
        try:
            validated(config)
        except UserError as error:
            raise UserError(f"{place.path / CONFIG}: {error}") from None
        state = place.newest_checkpoint(
            say=lambda line: print(line, file=sys.stderr),
            check=lambda state: require_same_settings(state, config, place.path / CONFIG),
        )
        if state is None:
            raise UserError(f"{place.path} has no checkpoint yet: train it first")
        environment = scoring_environment(config, pictures)
        spec, actions = environment.observation, environment.actions
        network = build_network(spec, actions, config.network, config.seed, config.head)
        try:
            weights = {
                name.removeprefix("online."): torch.from_numpy(array)
                for name, array in state["learner"].items()
                if name.startswith("online.")
            }
            network.load_state_dict(weights)
        except (RuntimeError, KeyError, TypeError, AttributeError):
            # Edited, and the checkpoint is of a version that cannot tell; or forged.
            raise UserError(f"{place.path / CONFIG} does not fit the checkpoint") from None
        return cls(network.to(resolve_device(device)), config, [environment], state["step"])

    def predict(self, observation: Any, deterministic: bool = True) -> tuple[Any, None]:
        """(action, None) as in Stable-Baselines3, for one observation or a batch of them.

        Observations and actions are those of the environment itself; a batch is an array with one
        more dimension, or a list if observations are not arrays. With frame stacking (Atari) an
        observation is [stack, *frame].

        If not deterministic, act as in training: epsilon-greedy with the run's final epsilon, and
        new noise in noisy layers.
        """
        states, is_batch = self._states(observation)
        noisy = noisy_layers(self.network)
        if deterministic:
            silence(noisy)
        else:
            draw_noise(noisy, self._generator)
        with torch.inference_mode():
            actions = self.network(torch.from_numpy(states).to(self.device)).argmax(1).cpu().numpy()
        if not deterministic:
            explores = self._generator.random(len(actions)) < (
                self.config.exploration.final_epsilon
            )
            random = self._generator.integers(self.environment.actions, size=len(actions))
            actions = np.where(explores, random, actions)
        actions = actions + self.environment.first_action
        return (actions if is_batch else int(actions[0])), None

    def q_values(self, observation: Any) -> Array:
        """Action values, [actions], or [batch, actions] for a batch; inputs as in `predict`. Noisy
        layers use their means."""
        states, is_batch = self._states(observation)
        silence(noisy_layers(self.network))
        with torch.inference_mode():
            values: Array = self.network(torch.from_numpy(states).to(self.device)).cpu().numpy()
        return values if is_batch else values[0]

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the network as .onnx, .pt2 (torch.export) or .pt (TorchScript).

        Its input are states [batch, stack, *shape] of the environment's dtype (an observation
        encoded as for the network), its output action values [batch, actions]. An action is the
        index of the largest value, plus the environment's first action.
        """
        silence(noisy_layers(self.network))
        export_network(self.network, self.environment.observation, Path(path))

    def evaluate(
        self,
        episodes: int | None = None,
        epsilon: float | None = None,
        watch: Callable[[Array], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        seed: int | None = None,
    ) -> Evaluation:
        """Undiscounted, unclipped returns with their protocol.

        By default with the random draws of the run's own evaluation at this step, whose episodes
        it repeats (bit-identically unless more are played side by side: `evaluation.episodes` is
        then smaller than `evaluation.environments`); with a `seed`, an independent score.
        """
        if episodes is not None and episodes < 1:
            raise UserError(f"invalid episodes {episodes}: must be at least 1")
        if epsilon is not None and not 0 <= epsilon <= 1:
            raise UserError(f"invalid epsilon {epsilon}: must be in [0, 1]")
        config = self.config
        if seed is not None:
            config = replace(config, seed=independent_seed(config.seed, seed))
        silence(noisy_layers(self.network))
        count = side_by_side(self.config, episodes) if watch is None else 1
        while len(self._environments) < count:
            self._environments.append(scoring_environment(self.config))
        with keeping_threads():
            prepare_process(config.threads or available_cores())
            return evaluate(
                self.network,
                self._environments[:count],
                config,
                self.step,
                self.device,
                episodes,
                epsilon,
                stop,
                watch,
            )

    def _states(self, observation: Any) -> tuple[Array, bool]:
        """States for the network, [batch, stack, *shape], and whether the input is a batch."""
        spec, encode = self.environment.observation, self.environment.encode
        one = self.environment.raw_shape if spec.stack == 1 else spec.state_shape
        if one is None:
            is_batch = isinstance(observation, list)
        else:
            observation = np.asarray(observation)
            is_batch = observation.ndim == len(one) + 1
            if observation.shape[int(is_batch) :] != one:
                raise UserError(
                    f"an observation of {self.config.env} has shape {one}, got {observation.shape}"
                )
        several = observation if is_batch else [observation]
        if spec.stack == 1:
            several = [encode(raw) for raw in several]
        states = np.array(several, spec.dtype).reshape((len(several), *spec.state_shape))
        return states, is_batch
