"""One thread of torch per test process: tests run side by side, and small networks gain nothing."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; child processes inherit
