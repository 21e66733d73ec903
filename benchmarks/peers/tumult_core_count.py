"""Tumult Core, the layer below Tumult Analytics: one measurement that selects keys and counts them."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

from sympy import Rational
from tmlt.core.domains.spark_domains import SparkDataFrameDomain
from tmlt.core.measurements.aggregations import create_partition_selection_measurement
from tmlt.core.utils.cleanup import cleanup

from peers import spark
from peers.runner import DELTA, EPSILON, main

warnings.simplefilter("ignore")


def query(path: str) -> tuple[Any, Any]:
    rows = spark.start().read.parquet(path).select("key")
    measurement = create_partition_selection_measurement(
        SparkDataFrameDomain.from_spark_schema(rows.schema),
        epsilon=Rational(Fraction(EPSILON)),
        delta=Rational(Fraction(DELTA)),
    )
    released = measurement(rows).toPandas()
    return released["key"], released["count"]


if __name__ == "__main__":
    main("tumult-core", "tmlt.core", query, "unknown keys; geometric noise and a threshold in one step")
    cleanup()
