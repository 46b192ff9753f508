"""States from observations: the last `stack` of them, oldest first, zeros before the episode."""

import numpy as np

from proxrl.types import Array, ObservationSpec


class FrameStack:
    """The state that an agent sees now, in one reused array `state` [stack, *observation]: its
    own, or a row of a batch."""

    def __init__(self, spec: ObservationSpec, state: Array | None = None) -> None:
        self.state = np.zeros(spec.state_shape, dtype=spec.dtype) if state is None else state

    def begin(self, observation: Array) -> None:
        """An episode starts: no history."""
        self.state[:-1] = 0
        self.state[-1] = observation

    def push(self, observation: Array) -> None:
        """A step later."""
        self.state[:-1] = self.state[1:]
        self.state[-1] = observation
