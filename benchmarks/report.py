"""Time, memory and page size of a report on a study of the paper's size.

    python -m benchmarks.report
    python -m benchmarks.report --folder FOLDER

1,100 synthetic runs (55 games x 4 agents x 5 seeds) with metrics as long as those of 30M steps,
3,000 lines each, 2.4 GB. They are written first (minutes) and removed, or kept in FOLDER and
reused. Each result is compared with its limit: 60 s, 2 GB, 1 MB.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command_line import parser

SECONDS, BYTES, PAGE_BYTES = 60.0, 2e9, 1e6


def main(folder: Path) -> None:
    from tests.report.synthetic import write_study

    runs = folder / "paper"
    if not runs.exists():
        print(f"writing 1,100 runs to {runs}", flush=True)
        write_study(runs)
    command = [sys.executable, "-m", "proxrl", "report", str(runs), "--baselines", "dopamine"]
    before = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - before
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = used.ru_utime + used.ru_stime
    memory, page = used.ru_maxrss * 1024, (runs / "report" / "index.html").stat().st_size
    print(f"time    {wall:6.1f} s, {busy:.1f} s of one core    ({wall / SECONDS:.2f} of the limit)")
    print(f"memory  {memory / 1e9:6.2f} GB    ({memory / BYTES:.2f} of the limit)")
    print(f"page    {page / 1e6:6.2f} MB    ({page / PAGE_BYTES:.2f} of the limit)")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    accepted = parser(__file__, __doc__)
    accepted.add_argument("--folder", type=Path, help="where the runs are kept (nowhere)")
    return accepted.parse_args(argv)


if __name__ == "__main__":
    folder = arguments().folder
    if folder:
        main(folder)
    else:
        with tempfile.TemporaryDirectory(prefix="proxrl-report-") as scratch:
            main(Path(scratch))
