"""Writes data/rliable.json: the results of rliable 1.2.0 for three synthetic score tables.

50,000 resamples take minutes, so its results were computed once, in a separate environment (rliable
needs arch < 8, and with it pandas < 3):

    python3.11 -m venv rliable-venv
    rliable-venv/bin/pip install rliable==1.2.0 'pandas<3' numpy==2.4.6 scipy==1.17.1
    rliable-venv/bin/python tests/report/rliable_reference.py

It draws from NumPy's global state (its `random_state` is not used), seeded here.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

RESAMPLES = 50_000
TARGET = Path(__file__).parent / "data" / "rliable.json"
THRESHOLDS = [0.1, 0.5, 1.0, 2.0, 4.0]


def tables() -> dict[str, Any]:
    """Scores, runs x games."""
    generator = np.random.default_rng(2022)
    skill = generator.lognormal(0.0, 0.8, 20)
    return {
        "base": skill * generator.lognormal(0.0, 0.3, (5, 20)),
        "pro": 1.15 * skill * generator.lognormal(0.0, 0.3, (5, 20)),
        "few": skill[:4] * generator.lognormal(0.0, 0.3, (3, 4)),
    }


def main() -> None:
    from rliable import library, metrics

    found: dict[str, Any] = {"resamples": RESAMPLES}
    for name, scores in tables().items():
        np.random.seed(0)  # noqa: NPY002

        def aggregates(x: Any) -> Any:
            return np.array(
                [
                    metrics.aggregate_median(x),
                    metrics.aggregate_iqm(x),
                    metrics.aggregate_mean(x),
                    metrics.aggregate_optimality_gap(x),
                ]
            )

        values, intervals = library.get_interval_estimates(
            {name: scores}, aggregates, reps=RESAMPLES
        )
        found[name] = {"values": values[name].tolist(), "intervals": intervals[name].tolist()}
    both = tables()
    np.random.seed(0)  # noqa: NPY002
    chance, interval = library.get_interval_estimates(
        {"pair": (both["pro"], both["base"])}, metrics.probability_of_improvement, reps=2_000
    )
    found["improvement"] = {
        "value": float(chance["pair"]),
        "interval": np.ravel(interval["pair"]).tolist(),
    }
    np.random.seed(0)  # noqa: NPY002
    profile, band = library.create_performance_profile(
        {"pro": both["pro"]}, np.array(THRESHOLDS), reps=RESAMPLES
    )
    found["profile"] = {"value": profile["pro"].tolist(), "band": band["pro"].tolist()}
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
