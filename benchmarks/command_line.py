"""The command lines of the benchmarks: a module's docstring is its help."""

import argparse
from pathlib import Path


def parser(file: str, doc: str | None) -> argparse.ArgumentParser:
    """Of the module with this `__file__` and `__doc__`."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{Path(file).stem}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def count(text: str) -> int:
    """The type of an option: a whole number of at least 1; 40_000 is 40000."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number
