"""Callbacks: what a program can watch while a run trains, and how it can stop it.

    class StopAt(Callback):
        def on_evaluation(self, run):
            return run.last_evaluation.mean < 475  # False stops the run

    train(config, "runs/cartpole", callbacks=[StopAt()])

A callback sees the `Trainer`: `run.step`, `run.config`, `run.folder`, `run.episode_return`,
`run.training_return`, `run.last_evaluation`. It must not change it; callbacks that only read leave
every bit of the run as it is. A stopped run saves a checkpoint first, so that `resume` continues it
bit-identically to a run that was never stopped. The progress displays are callbacks too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxrl.training.loop import Trainer


class Callback:
    """Override what you need. A method that returns False stops the run after a checkpoint."""

    def on_step(self, run: "Trainer") -> bool | None:
        """After every agent step, and the learning that was due after it."""

    def on_evaluation(self, run: "Trainer") -> bool | None:
        """After an evaluation: `run.last_evaluation` has its returns."""

    def on_checkpoint(self, run: "Trainer") -> bool | None:
        """After the state was copied for a checkpoint, which is written in the background."""


class Callbacks:
    """Several callbacks as one. `stopped` is True once one of them has returned False."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks
        self.stopped = False

    def on_step(self, run: "Trainer") -> None:
        for callback in self._callbacks:
            self._heed(callback.on_step(run))

    def on_evaluation(self, run: "Trainer") -> None:
        for callback in self._callbacks:
            self._heed(callback.on_evaluation(run))

    def on_checkpoint(self, run: "Trainer") -> None:
        for callback in self._callbacks:
            self._heed(callback.on_checkpoint(run))

    def _heed(self, answer: bool | None) -> None:
        if answer is not None and not answer:
            self.stopped = True
