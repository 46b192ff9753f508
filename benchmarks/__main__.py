"""Runs all benchmarks, one after the other."""

import subprocess
import sys

for name in ("storage", "integrity", "overhead", "rainbow", "parallel", "throughput"):
    print(f"\n== benchmarks.{name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
