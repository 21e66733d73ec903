"""The paper's rule against the exact plan at the same (epsilon, delta): how much smaller the error, how much is found.

And how far simulated errors are from the expected ones, as scores that should look standard normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thresher.lab.data import Floats
from thresher.lab.experiments import mechanisms
from thresher.lab.experiments.runner import Row
from thresher.lab.experiments.statistics import normal_scores


def compared(rows: Sequence[Row]) -> list[Row]:
    """Sample-and-threshold under both rules, cell by cell; ratios are exact ÷ paper, None where one of the two is 0."""
    by_cell: dict[tuple[str, int, float], dict[str, Row]] = {}
    for row in rows:
        if row["mechanism"] == mechanisms.THRESHOLD:
            by_cell.setdefault((row["dataset"], row["buckets"], row["epsilon"]), {})[row["rule"]] = row
    found: list[Row] = []
    for (dataset, buckets, epsilon), pair in sorted(by_cell.items()):
        joined: Row = {"dataset": dataset, "buckets": buckets, "epsilon": epsilon}
        for field in ("mae", "recall"):
            joined[f"{field}_paper"], joined[f"{field}_exact"] = pair["paper"][field], pair["exact"][field]
            joined[f"{field}_ratio"], joined[f"{field}_ratio_se"] = _ratio(pair, field)
        found.append(joined)
    return found


def _ratio(pair: dict[str, Row], field: str) -> tuple[float | None, float | None]:
    """Exact ÷ paper, and its standard error to first order; the two were drawn independently."""
    if not (pair["paper"][field] and pair["exact"][field]):
        return None, None
    ratio = pair["exact"][field] / pair["paper"][field]
    return ratio, ratio * math.hypot(*(pair[rule][f"{field}_se"] / pair[rule][field] for rule in ("paper", "exact")))


def scores(rows: Sequence[Row], mechanism: str, repetitions: int) -> Floats:
    """The normal scores of a mechanism's simulated errors around the expected ones.

    Edge cases: where all repetitions agree there is no spread to measure by, and the row is left out.
    """
    chosen = [
        row
        for row in rows
        if row["mechanism"] == mechanism and row["mae_expected"] is not None and row["mae_se"] > 1e-9 * row["mae"]
    ]
    simulated, errors, expected = (
        np.array([row[name] for row in chosen]) for name in ("mae", "mae_se", "mae_expected")
    )
    return normal_scores(simulated, errors, expected, repetitions)
