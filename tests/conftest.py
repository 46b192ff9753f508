"""What every test process needs, before anything else is imported."""

import os
import signal

# One thread of torch each: tests run side by side, and small networks gain nothing from more.
# Child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Started in the background, a shell has SIGINT ignored, and children would inherit that too: tests
# that interrupt them need it to mean something.
signal.signal(signal.SIGINT, signal.default_int_handler)
