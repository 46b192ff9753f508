"""Parts of an update of small networks on one CPU core, compiled from C."""

from proxrl.native.call import CHANNELS, FANOUT, PANEL, SIDE, Call
from proxrl.native.library import library

__all__ = ["CHANNELS", "FANOUT", "PANEL", "SIDE", "Call", "library"]
