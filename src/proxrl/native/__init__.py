"""Functions compiled from C for small networks on one CPU core (`kernels.c`)."""

from proxrl.native.library import CHANNELS, PANEL, SIDE, Call, library

__all__ = ["CHANNELS", "PANEL", "SIDE", "Call", "library"]
