"""Frame stacking: the last `stack` observations, oldest first, zero-padded at episode start."""

import numpy as np

from proxrl.types import Array, ObservationSpec


class FrameStack:
    """The current state, in one reused array `state` [stack, *observation]: newly allocated, or a
    row of a batch."""

    def __init__(self, spec: ObservationSpec, state: Array | None = None) -> None:
        self.state = np.zeros(spec.state_shape, dtype=spec.dtype) if state is None else state

    def begin(self, observation: Array) -> None:
        """Start an episode and clear the history."""
        self.state[:-1] = 0
        self.state[-1] = observation

    def push(self, observation: Array) -> None:
        """Append an observation."""
        if len(self.state) > 1:
            self.state[:-1] = self.state[1:]
        self.state[-1] = observation
