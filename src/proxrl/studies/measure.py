"""Measures the resources of runs in a separate process: `python -m proxrl.studies.measure`.

Counting weights and timing updates need torch, which the driver of a study does not import. Configs
are read as JSON from standard input; the result is the last line of output.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proxrl.config import RunConfig, from_json, to_json
from proxrl.errors import RunFailed, UserError
from proxrl.training.resources import Requirements, available_cores


def measure(wanted: Sequence[tuple[RunConfig, bool]]) -> list[Requirements]:
    """The requirements of each config, timed if requested; raises `UserError` if one cannot run."""
    if not wanted:
        return []
    question = [{"config": to_json(config), "timed": timed} for config, timed in wanted]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "proxrl.studies.measure"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RunFailed(f"cannot measure the requirements of the runs: {last}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    if "error" in answer:
        raise UserError(answer["error"])
    return [Requirements(**one) for one in answer["needs"]]


def _measured(config: RunConfig, timed: bool) -> Requirements:
    from proxrl.training.preflight import requirements, seconds_of, set_up

    config = replace(config, threads=config.threads or available_cores())
    setup = set_up(config)
    needs = requirements(config, setup)
    if timed:
        needs = needs._replace(seconds=seconds_of(config, setup, config.steps))
    return needs


def main() -> None:
    wanted = [(from_json(one["config"]), one["timed"]) for one in json.load(sys.stdin)]
    try:
        answer: dict[str, Any] = {
            "needs": [_measured(config, timed)._asdict() for config, timed in wanted]
        }
    except UserError as error:
        answer = {"error": str(error)}
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
