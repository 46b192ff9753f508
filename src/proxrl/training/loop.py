"""The training loop: the one place that knows environments, replay and learner.

A run is a function of its config. Everything that its next step depends on is in `Trainer.parts`,
each of which can be saved (`types.Saveable`), and in a few counters: a run that is killed at any
moment and resumed is bit-identical to one that was never killed.
"""

import collections
from collections.abc import Callable

import numpy as np

from proxrl.agents.learner import Learner
from proxrl.agents.noisy import noisy_layers, silence
from proxrl.agents.policy import epsilon_greedy, linear_epsilon
from proxrl.config import RunConfig, to_json
from proxrl.envs import Episodes, FrameStack, NotRestorable
from proxrl.errors import UserError
from proxrl.replay import Gather, ReplayLog, UniformReplay, sampler_of
from proxrl.replay.log import NEW
from proxrl.runs.checkpoint import MALFORMED
from proxrl.runs.folder import RunFolder
from proxrl.training.agent import Agent
from proxrl.training.checkpoint import Checkpointer
from proxrl.training.evaluate import Evaluation, evaluate
from proxrl.training.film import film
from proxrl.training.machine import changed_since, describe_machine
from proxrl.training.metrics import NO_LINES, Interval, RunLogger
from proxrl.training.preflight import Setup, set_up
from proxrl.training.returns import TrainingReturns
from proxrl.training.streams import TRAINING_STREAM, generators_of
from proxrl.types import Array, End, Saveable, State, TimeStep

READ_UPDATES = 256  # updates whose reported values are read together
OF_THE_REPLAY = ("log", "replay", "proximal_replay")  # parts that need the replay's files


class Trainer:
    """A run in progress: new, or continued from a checkpoint's `state`."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        state: State | None = None,
        say: Callable[[str], None] = lambda line: None,
        setup: Setup | None = None,
    ) -> None:
        setup = setup or set_up(config)
        self.config = config
        self.folder = folder
        self.device = setup.device
        self.machine = describe_machine(config)
        self.say = say
        self.scoring_environments = setup.scoring_environments
        self._film_environment = setup.film_environment
        self._lent_environments = False  # to an agent

        self.step = 0
        self.evaluated_step = 0
        self.saved_step = 0
        self.episode_return = 0.0
        self.last_evaluation: Evaluation | None = None

        spec = setup.environment.observation
        self.stack = FrameStack(spec)
        self.episodes = Episodes(
            setup.environment, config.seed, (TRAINING_STREAM,), config.protocol.max_episode_steps
        )
        self.generators = generators_of(config)
        self.log, self._log_start, with_replay = self._open_log(state)
        self._log_states: list[State] = [{**NEW}]  # in the newest two durable checkpoints
        self.replay = sampler_of(config.replay)(
            self._make_gather(), self.generators["sampling"], config.replay
        )
        self.learner = Learner(
            setup.network,
            config,
            self.device,
            self.generators.get("noise"),
            self.generators.get("rule"),
        )
        self._values = self.learner.online.of_state()  # for acting
        self.interval = Interval()
        self.training_returns = TrainingReturns(
            config.evaluation.training_period_steps, state["step"] if state else 0
        )
        self.checkpointer = Checkpointer(
            folder.checkpoints, config.checkpoint.keep_all, folder.require_newest
        )
        self.logger = RunLogger(folder.path, config, state["step"] if state else 0)

        self.parts: dict[str, Saveable] = {
            "learner": self.learner,
            "log": self.log,
            "replay": self.replay,
            "episodes": self.episodes,
            "generators": self.generators,
            "interval": self.interval,
            "training_returns": self.training_returns,
            "logger": self.logger,
        }
        self.proximal_replay: UniformReplay | None = None
        if config.proximal.own_batch:
            self.proximal_replay = UniformReplay(self._make_gather(), self.generators["proximal"])
            self.parts["proximal_replay"] = self.proximal_replay

        if state is None:
            self.logger.load(NO_LINES)
            self._begin(self.episodes.begin())
        else:
            self.load(state, with_replay)

    def _open_log(self, state: State | None) -> tuple[ReplayLog, int, bool]:
        """The log, the step at which it was started, and whether it belongs to the checkpoint.

        A log is named after that step, so that a checkpoint never opens another one's log.
        """
        spec = self.episodes.environment.observation
        rings = (spec, self.config.replay.capacity, self.config.checkpoint.period_steps)
        start: int = state["log_start"] if state else 0
        if state and self.folder.log(start).exists():
            return ReplayLog(self.folder.log(start), *rings, reopen=True), start, True
        start = state["step"] if state else 0
        self.folder.remove_replay()  # of no checkpoint
        return ReplayLog(self.folder.log(start), *rings), start, False

    def _make_gather(self) -> Gather:
        rules, discount = self.config.replay, self.config.learner.discount
        return Gather(self.log, rules.batch_size, rules.n_step, discount, self.device)

    # ----------------------------------------------------------------------------------- the steps

    def advance(self) -> None:
        """One agent step, and the learning that is due after it (Algorithm 1)."""
        config = self.config
        self.learner.draw_noise()
        action = epsilon_greedy(
            self._values,
            self.stack.state,
            self.epsilon,
            self.episodes.environment.actions,
            self.generators["acting"],
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
        """Read the values that updates reported, and stop if a loss was not finite. Reading many at
        a time avoids a device synchronisation after every update."""
        losses, values = self.interval.read_updates()
        self.learner.require_finite(losses, values)
        if self.logger.update_period:
            self._log_updates(losses, values)

    def _log_updates(self, losses: list[float], values: list[float]) -> None:
        """Log every n-th of the updates just read, at the agent step after which it was made."""
        rules, last = self.config.learner, self.learner.updates
        newest = self.step // rules.update_period_steps * rules.update_period_steps
        first = last - len(losses) + 1
        for number, (loss, value) in enumerate(zip(losses, values, strict=True), start=first):
            if number % self.logger.update_period == 0:
                phases = -(-last // rules.updates_per_step) + (-number // rules.updates_per_step)
                step = newest - phases * rules.update_period_steps
                self.logger.update(step, {"loss": loss, "mean_value": value})

    @property
    def epsilon(self) -> float:
        rules = self.config.exploration
        warmup = self.config.replay.warmup_steps
        return linear_epsilon(self.step, warmup, rules.decay_steps, rules.final_epsilon)

    @property
    def is_warm(self) -> bool:
        full = self.log.oldest > 0  # with very short episodes, at fewer transitions than capacity
        return full or len(self.replay) >= self.config.replay.warmup_steps

    @property
    def training_return(self) -> float | None:
        """Mean return of the training episodes since the last evaluation; None if none ended."""
        return self.interval.tallies["episode_return"].mean

    def _learning_reward(self, reward: float) -> float:
        return max(-1.0, min(1.0, reward)) if self.config.protocol.clip_rewards else reward

    def _learning_end(self, end: End) -> End:
        cut = end == End.TRUNCATED and self.config.protocol.time_limit_terminal
        return End.TERMINATED if cut else end

    def _follow(self, now: TimeStep) -> None:
        """Update the state in which the next action is chosen."""
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
        self.logger.episode(
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
        """Evaluate the agent and write the interval's line."""
        self._read_updates()
        self.learner.require_finite_weights()
        silence(noisy_layers(self.learner.online))
        scored = evaluate(
            self.learner.online,
            self.scoring_environments,
            self.config,
            self.step,
            self.device,
            stop=stop,
        )
        self._film(stop)
        self.last_evaluation = scored
        self.evaluated_step = self.step
        self.logger.interval(
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
            },
            {
                "train/learning_rate": self.learner.learning_rate,
                "train/kappa": self.learner.learning_rate
                / self.config.c
                * self.config.updates_per_sync,
            },
        )
        self.interval.clear()

    def _film(self, stop: Callable[[], bool]) -> None:
        """Write a video if one is due: which ones are depends on the step only."""
        rules, environment = self.config.evaluation, self._film_environment
        number = -(-self.step // rules.period_steps)  # of the evaluation
        if environment is None or number % rules.video:
            return

        def play(watch: Callable[[Array], None], stop: Callable[[], bool]) -> Evaluation:
            network, step, device = self.learner.online, self.step, self.device
            return evaluate(
                network,
                [environment],
                self.config,
                step,
                device,
                episodes=1,
                stop=stop,
                watch=watch,
            )

        out = self.folder.videos / f"step-{self.step}.mp4"
        film(play, out, self.config.protocol.frame_skip, stop=stop)

    # -------------------------------------------------------------------------------- checkpoints

    @property
    def checkpoint_is_due(self) -> bool:
        at_interval = self.step % self.config.checkpoint.period_steps == 0
        return self.saved_step < self.step and (
            at_interval or self.log.full or self.step >= self.config.steps
        )

    def state(self) -> State:
        return {
            "step": self.step,
            "evaluated_step": self.evaluated_step,
            "episode_return": self.episode_return,
            "log_start": self._log_start,
            "previous_log": self._log_states[-1],
            "machine": self.machine,
            "config": to_json(self.config),
            **{name: part.state() for name, part in self.parts.items()},
        }

    def load(self, state: State, with_replay: bool = True) -> None:
        """Continue from `state`; without its files, the replay is refilled."""
        try:
            self._load_parts(state, with_replay)
            changed = changed_since(state["machine"], self.machine)
        except UserError:
            raise
        except MALFORMED as error:
            raise UserError(
                f"the checkpoint of {self.folder.path} at step {state['step']:,} does not hold the "
                f"state of this run ({type(error).__name__}: {error!s:.80})"
            ) from error
        if changed:
            self.say(f"{changed} changed since the checkpoint; results may not be bit-identical")
        if not with_replay:
            self.say(
                "the replay was deleted (finished runs keep it only with checkpoint.keep_replay): "
                "it is refilled before training resumes; not bit-identical"
            )
            self._begin(self.episodes.begin())
            return
        try:
            self._relive()
        except NotRestorable as error:
            self.say(f"{error}; continuing with a new episode, not bit-identical")
            self.log.cut()
            self._begin(self.episodes.begin())

    def _load_parts(self, state: State, with_replay: bool) -> None:
        self.step = self.saved_step = state["step"]
        self.evaluated_step = state["evaluated_step"]
        self.episode_return = state["episode_return"]
        for name, part in self.parts.items():
            if with_replay or name not in OF_THE_REPLAY:
                part.load(state[name])
        if with_replay:
            self._log_states = [state["previous_log"], state["log"]]
            if "checksums" in state:
                self.log.remember(state["log"], state["checksums"])
            self.log.protect(state["previous_log"])

    def save(self) -> None:
        """Copy the state; it is written in the background."""
        self._read_updates()
        self.checkpointer.wait()
        self.log.protect(self._log_states[0])
        state = self.state()

        def prepare() -> None:
            """In the background: training does not change what the state refers to."""
            self.log.sync()
            self.logger.sync()
            state["checksums"] = self.log.checksums(state["log"])

        self.checkpointer.save(self.step, state, first=prepare)
        self.saved_step = self.step
        self._log_states = [*self._log_states, state["log"]][-2:]
        if self.log.full:  # very short episodes: free space before the next checkpoint
            self.checkpointer.wait()
            self.log.protect(self._log_states[0])
        if self.log.full:
            self.log.protect(self._log_states[-1])

    def _relive(self) -> None:
        """Restore the environment by replaying its actions, and compare with the log."""
        number, actions = self.episodes.number, self.episodes.actions
        recent: collections.deque[TimeStep] = collections.deque(maxlen=self.log.running + 1)
        for now in self.episodes.relive(number, actions):
            if now.game_over:
                break  # the original did not end here: detected below
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

    def agent(self) -> Agent:
        """The current agent, which takes over the scoring environments."""
        self._lent_environments = True
        return Agent(self.learner.online, self.config, self.scoring_environments, self.step)

    def close(self) -> None:
        """Wait for the checkpoint being written and close all files."""
        try:
            self.checkpointer.wait()
        finally:
            self.logger.close()
            self.log.close()
            self.episodes.environment.close()
            if self._film_environment is not None:
                self._film_environment.close()
            if not self._lent_environments:
                for environment in self.scoring_environments:
                    environment.close()
