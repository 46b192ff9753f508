"""The programs of docs/tools as modules, and reports of invented runs for them."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from proxrl.report.findings import examine
from proxrl.report.runs import find_runs
from proxrl.report.study import gather
from proxrl.report.tables import comparisons_csv
from proxrl.studies.expand import Job
from tests.report.synthetic import write_run

TOOLS = Path(__file__).parents[2] / "docs" / "tools"


def tool(name: str) -> ModuleType:
    """Programs import each other as if each were run by itself, with its folder on the path."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


def write_comparisons(
    root: Path, jobs: Sequence[Job], returns: Callable[[Job, int], float]
) -> Path:
    """A report's comparisons.csv, without its figures: four evaluations per run, of one episode
    each, with the return of a run at a step."""
    for number, job in enumerate(jobs):
        config = job.config.override({"evaluation.period_steps": job.config.steps // 4})
        write_run(root / str(number), config, lambda step, job=job: [returns(job, step)])
    found = find_runs([root], None, None, print)
    findings = examine(gather("runs", found.runs, None, found.about, found.headline, ""), 20)
    (root / "comparisons.csv").write_text(comparisons_csv(findings.comparisons), encoding="utf-8")
    return root
