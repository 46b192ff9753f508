"""Training returns per period of agent steps, the measure of Dopamine's published curves.

A Dopamine iteration is 250,000 agent steps; its value is the mean return, undiscounted and
unclipped, of its training episodes. Here an episode belongs to the period in which it ended, and
periods end at multiples of `evaluation.training_period_steps`; Dopamine's end with the first
episode that ends after that many steps (docs/fidelity.md, A10).
"""

from proxrl.types import State

KEY = "train/period_returns"


class TrainingReturns:
    """The current period, and those completed since the last line of metrics.jsonl.

    Only whole periods are recorded: one that was entered midway (because the setting was changed on
    resuming, or the checkpoint is from an older version) is skipped.
    """

    def __init__(self, period: int, step: int = 0) -> None:
        self._period = period
        self._completed: list[tuple[int, float | None, int]] = []
        self._begin(step - step % period + period, whole=step % period == 0)

    def add(self, step: int, episode_return: float) -> None:
        """An episode ended at `step`."""
        self._close(step - 1)
        self._total += episode_return
        self._count += 1

    def take(self, step: int) -> dict[str, list[tuple[int, float | None, int]]]:
        """For the line of metrics.jsonl at `step`: (last step, mean return, episodes) of each
        period completed since the last line; nothing if there is none."""
        self._close(step)
        completed, self._completed = self._completed, []
        return {KEY: completed} if completed else {}

    def state(self) -> State:
        return {
            "period": self._period,
            "end": self._end,
            "whole": self._whole,
            "total": self._total,
            "count": self._count,
            "completed": list(self._completed),
        }

    def load(self, state: State) -> None:
        """Continue from `state`; if its period differs, with the next whole one."""
        self._completed = [tuple(one) for one in state["completed"]]
        if state["period"] == self._period:
            self._whole, self._end = bool(state["whole"]), int(state["end"])
            self._total, self._count = float(state["total"]), int(state["count"])

    def _begin(self, end: int, whole: bool = True) -> None:
        self._end, self._whole = end, whole
        self._total, self._count = 0.0, 0

    def _close(self, step: int) -> None:
        """Complete the periods that ended by `step`."""
        while self._end <= step:
            if self._whole:
                mean = self._total / self._count if self._count else None
                self._completed.append((self._end, mean, self._count))
            self._begin(self._end + self._period)
