"""States from observations: the last `stack` of them, oldest first, zeros before the episode."""

import numpy as np

from proxrl.types import Array, ObservationSpec


class FrameStack:
    """The state that an agent sees now, in one reused array `state` [stack, *observation]."""

    def __init__(self, spec: ObservationSpec) -> None:
        self.state: Array = np.zeros(spec.state_shape, dtype=spec.dtype)

    def begin(self, observation: Array) -> None:
        """An episode starts: no history."""
        self.state[:-1] = 0
        self.state[-1] = observation

    def push(self, observation: Array) -> None:
        """A step later."""
        self.state[:-1] = self.state[1:]
        self.state[-1] = observation
