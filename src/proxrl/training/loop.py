"""The training loop: the one place that knows environments, replay and learner.

A run is a function of its config. Everything that it will do next is in `Run`'s parts, and
everything in them that cannot be recomputed is in `Run.save`: killed at any moment and resumed,
it gives the same bits as if it had never been killed.
"""

import collections
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from proxrl.agents.learner import Learner
from proxrl.agents.networks import build_network
from proxrl.agents.noisy import noisy_layers, silence
from proxrl.agents.policy import epsilon_greedy, linear_epsilon
from proxrl.config import RunConfig
from proxrl.envs import Episodes, FrameStack, NotRestorable, make
from proxrl.replay import Gather, PrioritisedReplay, Replay, ReplayLog, UniformReplay
from proxrl.replay.log import NEW, LogState, is_whole
from proxrl.training.checkpoint import Checkpointer
from proxrl.training.evaluate import Evaluation, evaluate, make_scoring_environments
from proxrl.training.folder import RunFolder
from proxrl.training.machine import describe_machine, prepare_process, resolve_device
from proxrl.training.metrics import Interval, Journalist
from proxrl.training.returns import TrainingReturns
from proxrl.training.streams import TRAINING_STREAM, generators_of
from proxrl.types import Array, End, TimeStep

READ_UPDATES = 256  # their reports are read together

Checkpoint = tuple[dict[str, Array], dict[str, Any]]


class Run:
    """A run in motion: new, or continued from a checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        checkpoint: Checkpoint | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        arrays, state = checkpoint or ({}, {})
        prepare_process(config.threads)
        self.config = config
        self.folder = folder
        self.device = resolve_device(config.device)
        self.machine = describe_machine(config)
        self.say = say

        environment = make(config.env, config.protocol)
        self.scoring_environments = make_scoring_environments(config)
        spec = environment.observation
        self.episodes = Episodes(
            environment, config.seed, (TRAINING_STREAM,), config.protocol.max_episode_steps
        )
        self.stack = FrameStack(spec)

        self.generators = generators_of(config)
        # A log is named by the step it began at, so that a checkpoint never opens another's.
        rings = (spec, config.replay.capacity, config.checkpoint.period_steps)
        self.log_start: int = state.get("log_start", 0)
        keeps_replay = bool(state) and is_whole(folder.log(self.log_start), *rings)
        if not keeps_replay:
            self.log_start = state.get("step", 0)
            shutil.rmtree(folder.replay, ignore_errors=True)
        self.log = ReplayLog(
            folder.log(self.log_start), *rings, state["log"] if keeps_replay else None
        )
        self.replay = self._make_replay()
        self.proximal_replay = (
            UniformReplay(self._make_gather(), self.generators["proximal"])
            if config.proximal.own_batch
            else None
        )
        network = build_network(spec, environment.actions, config.network, config.seed, config.head)
        self.learner = Learner(network, config, self.device, self.generators.get("noise"))

        self.step = 0
        self.evaluated_step = 0
        self.saved_step = 0
        self.episode_return = 0.0
        self.last_evaluation: Evaluation | None = None
        self.interval = Interval(state.get("interval"))
        self.training_returns = TrainingReturns(
            config.evaluation.training_period_steps,
            state.get("step", 0),
            state.get("training_returns"),
        )
        self.checkpointer = Checkpointer(
            folder.checkpoints, config.checkpoint.keep_all, folder.require_newest
        )
        self.journalist = Journalist(
            folder.path, config, state.get("step", 0), state.get("lengths")
        )
        self._log_states: list[LogState] = [NEW]  # of the newest two durable checkpoints

        if state:
            self._restore(arrays, state, keeps_replay)
        else:
            self._begin(self.episodes.begin())

    def _make_gather(self) -> Gather:
        rules, discount = self.config.replay, self.config.learner.discount
        return Gather(self.log, rules.batch_size, rules.n_step, discount, self.device)

    def _make_replay(self) -> Replay:
        rules, generator = self.config.replay, self.generators["sampling"]
        if rules.sampling == "uniform":
            return UniformReplay(self._make_gather(), generator)
        return PrioritisedReplay(
            self._make_gather(), generator, rules.priority_exponent, rules.importance_exponent
        )

    # ----------------------------------------------------------------------------------- the steps

    def advance(self) -> None:
        """One agent step, and the learning that is due after it (Algorithm 1)."""
        config = self.config
        self.learner.draw_noise()
        action = epsilon_greedy(
            self.learner.online,
            self.stack.state,
            self.epsilon,
            self.episodes.environment.actions,
            self.generators["acting"],
            self.device,
        )
        now = self.episodes.step(action)
        end = self._learning_end(now.end)
        self.log.add(action, self._learning_reward(now.reward), end, now.observation)
        self.step += 1
        self.episode_return += now.reward
        self._follow(now)

        if self.step % config.learner.update_period_steps == 0 and self.is_warm:
            for _ in range(config.learner.updates_per_step):
                self._learn()

    def _learn(self) -> None:
        batch = self.replay.sample()
        own = None if self.proximal_replay is None else self.proximal_replay.sample()
        update = self.learner.update(batch, own)
        self.replay.update(batch.indices, update.priorities)
        self.interval.add_update(update)
        if self.learner.updates % READ_UPDATES == 0:
            self._read_updates()

    def _read_updates(self) -> None:
        """Read what the updates reported, and stop if a loss was not finite. It is read late and
        many at a time, so that a device need not finish one update before the next begins."""
        self.learner.require_finite(*self.interval.read_updates())

    @property
    def epsilon(self) -> float:
        rules = self.config.exploration
        warmup = self.config.replay.warmup_steps
        return linear_epsilon(self.step, warmup, rules.decay_steps, rules.final_epsilon)

    @property
    def is_warm(self) -> bool:
        full = self.log.oldest > 0  # of very short episodes it may hold less than it should
        return full or len(self.replay) >= self.config.replay.warmup_steps

    def _learning_reward(self, reward: float) -> float:
        return max(-1.0, min(1.0, reward)) if self.config.protocol.clip_rewards else reward

    def _learning_end(self, end: End) -> End:
        cut = end == End.TRUNCATED and self.config.protocol.time_limit_terminal
        return End.TERMINATED if cut else end

    def _follow(self, now: TimeStep) -> None:
        """Make the state that the next action is chosen in."""
        if now.game_over:
            self._record_episode()
            self._begin(self.episodes.begin())
        elif now.end != End.NO:  # a life was lost: a new episode for learning, the same game
            self._begin(now, new_game=False)
        else:
            self.stack.push(now.observation)

    def _begin(self, first: TimeStep, new_game: bool = True) -> None:
        if new_game:
            self.episode_return = 0.0
        self.log.begin(first.observation)
        self.stack.begin(first.observation)

    def _record_episode(self) -> None:
        length = len(self.episodes.actions)
        self.interval.add_episode(self.episode_return, length)
        self.training_returns.add(self.step, self.episode_return)
        self.journalist.episode(
            {
                "step": self.step,
                "episode": self.episodes.number,
                "return": self.episode_return,
                "length": length,
            }
        )

    # -------------------------------------------------------------------------------- evaluations

    @property
    def evaluation_is_due(self) -> bool:
        at_interval = self.step % self.config.evaluation.period_steps == 0
        return self.evaluated_step < self.step and (at_interval or self.step >= self.config.steps)

    def evaluate(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Score the agent and write the interval's line."""
        self._read_updates()
        silence(noisy_layers(self.learner.online))
        scored = evaluate(
            self.learner.online,
            self.scoring_environments,
            self.config,
            self.step,
            self.device,
            stop=stop,
        )
        self.last_evaluation = scored
        self.evaluated_step = self.step
        self.journalist.interval(
            {
                "step": self.step,
                "updates": self.learner.updates,
                "train/epsilon": self.epsilon,
                **self.interval.summary(),
                **self.training_returns.take(self.step),
                "eval/mean_return": scored.mean,
                "eval/std_return": scored.standard_deviation,
                "eval/returns": scored.returns,
                "eval/lengths": scored.lengths,
                "protocol": scored.protocol,
            }
        )
        self.interval = Interval()

    # -------------------------------------------------------------------------------- checkpoints

    @property
    def checkpoint_is_due(self) -> bool:
        at_interval = self.step % self.config.checkpoint.period_steps == 0
        return self.saved_step < self.step and (
            at_interval or self.log.full or self.step >= self.config.steps
        )

    def save(self) -> None:
        """Copy everything that the next step depends on; the rest happens in the background."""
        self._read_updates()
        self.checkpointer.wait()
        self.log.protect(self._log_states[0])
        arrays: dict[str, Array] = {
            name: tensor.contiguous().numpy() for name, tensor in self.learner.state().items()
        }
        arrays |= {f"replay.{name}": array for name, array in self.replay.arrays().items()}
        arrays["journal.actions"] = np.array(self.episodes.actions, dtype=np.int16)
        log = self.log.state()
        state = {
            "step": self.step,
            "updates": self.learner.updates,
            "evaluated_step": self.evaluated_step,
            "episode": self.episodes.number,
            "episode_return": self.episode_return,
            "generators": {name: g.bit_generator.state for name, g in self.generators.items()},
            "log": log,
            "log_start": self.log_start,
            "previous_log": self._log_states[-1],
            "interval": self.interval.state(),
            "training_returns": self.training_returns.state(),
            "lengths": self.journalist.lengths(),
            "machine": self.machine,
        }
        self.checkpointer.save(self.step, arrays, state, first=self._sync_files)
        self.saved_step = self.step
        self._log_states = [*self._log_states, log][-2:]
        if self.log.full:  # episodes of a step or two: do not wait for the next checkpoint
            self.checkpointer.wait()
            self.log.protect(self._log_states[0])
        if self.log.full:
            self.log.protect(self._log_states[-1])

    def _sync_files(self) -> None:
        self.log.sync()
        self.journalist.sync()

    def _restore(self, arrays: dict[str, Array], state: dict[str, Any], with_replay: bool) -> None:
        self.step = self.saved_step = state["step"]
        self.evaluated_step = state["evaluated_step"]
        self.episode_return = state["episode_return"]
        for name, generator in self.generators.items():
            generator.bit_generator.state = state["generators"][name]
        actions = arrays["journal.actions"]
        self.learner.load(
            {name: torch.from_numpy(array) for name, array in arrays.items()}, state["updates"]
        )
        changed = [key for key, value in self.machine.items() if state["machine"].get(key) != value]
        if changed:
            self.say(f"another {', '.join(changed)} than before: the bits may differ from here on")
        if not with_replay:
            self.say(
                "the replay is not there any more (a finished run deletes it, unless "
                "checkpoint.keep_replay): it is filled anew before learning goes on, not to the bit"
            )
            self.episodes.number = state["episode"]
            self._begin(self.episodes.begin())
            return
        self.replay.load(
            {
                name.removeprefix("replay."): array
                for name, array in arrays.items()
                if name.startswith("replay.")
            }
        )
        self._log_states = [state["previous_log"], state["log"]]
        self.log.protect(state["previous_log"])
        try:
            self._relive(state["episode"], actions)
        except NotRestorable as error:
            self.say(f"{error}; going on with a new episode, not to the bit")
            self.log.cut()
            self._begin(self.episodes.begin())

    def _relive(self, number: int, actions: Array) -> None:
        """Bring the environment back by its journal, and compare with what the log remembers."""
        recent: collections.deque[TimeStep] = collections.deque(maxlen=self.log.running + 1)
        for now in self.episodes.relive(number, actions.tolist()):
            if now.game_over:
                break  # it went on before: found out below
            if not recent or now.end != End.NO:
                self.stack.begin(now.observation)
            else:
                self.stack.push(now.observation)
            recent.append(now)
        lived = len(self.episodes.actions) == len(actions) and not now.game_over
        for back, now in enumerate(reversed(recent)):
            same = lived and np.array_equal(now.observation, self.log.newest_frame(back))
            if same and back < self.log.running:
                reward = np.float32(self._learning_reward(now.reward))
                same = self.log.newest_step(back)[1] == reward
            if not same:
                raise NotRestorable(
                    f"{self.config.env} is not restorable: episode {number} did not repeat itself "
                    f"at step {len(actions) - back} under the same seed and actions"
                )

    def close(self) -> None:
        """Finish what is in flight and let go of every file."""
        try:
            self.checkpointer.wait()
        finally:
            self.journalist.close()
            self.log.close()
            self.episodes.environment.close()
            for environment in self.scoring_environments:
                environment.close()
