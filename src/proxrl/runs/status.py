"""The one vocabulary for the state of a run: `proxrl runs`, a study's table and the report use it.

| status    | meaning                                                                       |
|-----------|-------------------------------------------------------------------------------|
| waiting   | part of a study that is being run; not started, or to be continued            |
| running   | a process holds the folder's lock                                             |
| stopped   | no process trains it; `proxrl resume` continues it                            |
| finished  | all steps are trained and the last evaluation is recorded                     |
| failed    | it stopped with a diagnosis (failure.txt), or a study gave up on it           |
| corrupt   | config.json or metrics.jsonl cannot be read                                   |
| duplicate | the same config as another run of the report, which uses that one             |
"""

from typing import Literal

from proxrl.config import RunConfig
from proxrl.runs.folder import RunFolder

Status = Literal["waiting", "running", "stopped", "finished", "failed", "corrupt", "duplicate"]


def status_of(place: RunFolder, config: RunConfig, evaluated_step: int) -> Status:
    """The status of a readable run whose last recorded evaluation was at `evaluated_step`."""
    if evaluated_step >= config.steps:
        return "finished"
    if place.is_locked():
        return "running"
    return "failed" if place.failure.exists() else "stopped"
