"""Runs benchmarks, one after the other.

    python -m benchmarks                      # those of `make bench`
    python -m benchmarks storage integrity    # some of them

Every one is also a command of its own, with options: `python -m benchmarks.NAME --help`.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

NAMES = ("storage", "integrity", "overhead", "rainbow", "parallel", "throughput")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    accepted.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    options = accepted.parse_args(argv)
    for name in options.names:  # argparse cannot combine choices with "none given"
        if name not in NAMES:
            accepted.error(f"no benchmark {name}: choose from {', '.join(NAMES)}")
    return options


def main(names: Sequence[str]) -> int:
    """The exit code of the first one that fails, or 0."""
    for name in names:
        print(f"\n== benchmarks.{name}", flush=True)
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(arguments().names or NAMES))
