"""Tumult Analytics on Spark: keys are found first, then counted, as its documentation does it."""

from __future__ import annotations

import warnings
from typing import Any

from tmlt.analytics import AddOneRow, ApproxDPBudget, KeySet, QueryBuilder, Session
from tmlt.analytics.utils import cleanup

from peers import spark
from peers.runner import DELTA, EPSILON, main

warnings.simplefilter("ignore")


def query(path: str) -> tuple[Any, Any]:
    rows = spark.start().read.parquet(path).select("key")
    session = Session.from_dataframe(ApproxDPBudget(EPSILON, DELTA), "rows", rows, AddOneRow())
    keys = session.evaluate(QueryBuilder("rows").get_groups(["key"]), ApproxDPBudget(EPSILON / 2, DELTA))
    counts = QueryBuilder("rows").groupby(KeySet.from_dataframe(keys)).count()
    released = session.evaluate(counts, session.remaining_privacy_budget).toPandas()
    return released["key"], released["count"]


if __name__ == "__main__":
    main("tumult", "tmlt.analytics", query, "unknown keys; half of epsilon selects them, half counts")
    cleanup()
