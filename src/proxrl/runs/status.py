"""The status of a run, as `proxrl runs`, the table of a study and the report show it.

| status    | meaning                                                                       |
|-----------|-------------------------------------------------------------------------------|
| waiting   | in a study that is running: not started yet, or about to be continued         |
| running   | a process holds the folder's lock                                             |
| stopped   | no process trains it; `proxrl resume` continues it                            |
| finished  | all steps are done and the last evaluation is recorded                        |
| failed    | stopped with an error (failure.txt), or given up by a study after retries     |
| corrupt   | config.json or metrics.jsonl cannot be read                                   |
| duplicate | same config as another run, which the report uses instead                     |
| mixed     | its protocol changed between two attempts: in no statistic of a report        |
"""

from typing import Literal

from proxrl.config import RunConfig
from proxrl.runs.folder import RunFolder

Status = Literal[
    "waiting", "running", "stopped", "finished", "failed", "corrupt", "duplicate", "mixed"
]


def status_of(place: RunFolder, config: RunConfig, evaluated_step: int) -> Status:
    """The status of a readable run whose last recorded evaluation was at `evaluated_step`."""
    if place.is_locked():
        return "running"
    if place.failure.exists():  # perhaps after the last evaluation, in its checkpoint
        return "failed"
    return "finished" if evaluated_step >= config.steps else "stopped"
