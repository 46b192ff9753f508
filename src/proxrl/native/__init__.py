"""Parts of an update of small networks on one CPU core, and of the replay, compiled from C."""

from proxrl.native.call import CHANNELS, FANOUT, SIDE, STEP, Call, backward_room
from proxrl.native.loading import functions, library

__all__ = ["CHANNELS", "FANOUT", "SIDE", "STEP", "Call", "backward_room", "functions", "library"]
