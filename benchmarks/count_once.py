"""One engine counting one file, plainly and privately in turn, in a process of its own; prints one JSON line.

`python benchmarks/count_once.py ENGINE FILE REPEATS WHAT`, where WHAT is "both" (interleaved, for the ratio), "plain"
or "private" (alone, for the peak of memory).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import thresher as th

PLAN = th.plan(epsilon=1.0, delta=1e-8)


def duckdb_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import duckdb

    def plain() -> Any:
        connection = duckdb.connect(":memory:")
        connection.execute("SET preserve_insertion_order = false")
        return connection.sql(f"SELECT key, count(*) AS n FROM '{path}' GROUP BY key").to_arrow_table()

    return plain, lambda: th.histogram(path, "key", plan=PLAN)


def polars_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import polars as pl

    def plain() -> Any:
        return pl.scan_parquet(path).group_by("key").len().collect()

    return plain, lambda: th.histogram(pl.scan_parquet(path), "key", plan=PLAN)


def spark_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from thresher.tables.spark_java import provide_java

    provide_java()
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return (
        lambda: session.read.parquet(path).groupBy("key").count().toArrow(),
        lambda: th.histogram(session.read.parquet(path), "key", plan=PLAN),
    )


def memory_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Rows in memory as Arrow: the fastest exact group-by we know there is Arrow's own."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).combine_chunks()
    return (
        lambda: table.group_by("key").aggregate([([], "count_all")]),
        lambda: th.histogram(table, "key", plan=PLAN),
    )


ENGINES = {"duckdb": duckdb_actions, "polars": polars_actions, "spark": spark_actions, "memory": memory_actions}


def main(engine: str, path: str, repeats: int, what: str) -> None:
    plain, private = ENGINES[engine](path)
    actions = {"plain": plain, "private": private}
    wanted = list(actions) if what == "both" else [what]
    seconds: dict[str, list[float]] = {name: [] for name in wanted}
    for repeat in range(repeats + 1):
        for name in wanted:
            start = time.perf_counter()
            actions[name]()
            if repeat:  # the first warms caches and compilers
                seconds[name].append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": {name: min(times) for name, times in seconds.items() if times}, "peak_mb": peak}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
