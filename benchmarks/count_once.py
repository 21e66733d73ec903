"""One engine counting one file, plainly and privately in turn, in a process of its own; prints one JSON line.

`python benchmarks/count_once.py ENGINE FILE REPEATS WHAT`, where WHAT is "both" (interleaved, for the ratio), "plain"
or "private" (alone, for the peak of memory). Plain is the best exact group-by that the engine itself has, on a
connection that is open already.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import thresher as th
from measurement import peak_mb

PLAN = th.plan(epsilon=1.0, delta=1e-8)


def duckdb_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import duckdb

    connection = duckdb.connect(":memory:", config={"preserve_insertion_order": False})

    def plain() -> Any:
        return connection.sql(f"SELECT key, count(*) AS n FROM '{path}' GROUP BY key").to_arrow_table()

    return plain, lambda: th.histogram(path, "key", plan=PLAN)


def relation_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A table of DuckDB's own, in memory."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"preserve_insertion_order": False})
    connection.execute(f"CREATE TABLE rows AS FROM '{path}'").fetchall()

    def plain() -> Any:
        return connection.sql("SELECT key, count(*) AS n FROM rows GROUP BY key").to_arrow_table()

    return plain, lambda: th.histogram(connection.table("rows"), "key", plan=PLAN)


def polars_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import polars as pl

    def plain() -> Any:
        return pl.scan_parquet(path).group_by("key").len().collect()

    return plain, lambda: th.histogram(pl.scan_parquet(path), "key", plan=PLAN)


def frame_actions(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A Polars frame in memory."""
    import polars as pl

    frame = pl.read_parquet(path)
    return lambda: frame.group_by("key").len(), lambda: th.histogram(frame, "key", plan=PLAN)


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


ENGINES = {
    "duckdb": duckdb_actions,
    "relation": relation_actions,
    "polars": polars_actions,
    "frame": frame_actions,
    "spark": spark_actions,
    "memory": memory_actions,
}


def main(engine: str, path: str, repeats: int, what: str) -> None:
    plain, private = ENGINES[engine](path)
    actions = {"plain": plain, "private": private}
    wanted = list(actions) if what == "both" else [what]
    seconds: dict[str, list[float]] = {name: [] for name in wanted}
    busy: dict[str, list[float]] = {name: [] for name in wanted}
    for repeat in range(repeats + 1):
        for name in wanted:
            start, start_busy = time.perf_counter(), time.process_time()
            actions[name]()
            if repeat:  # the first warms caches and compilers
                seconds[name].append(time.perf_counter() - start)
                busy[name].append(time.process_time() - start_busy)
    print(json.dumps({"seconds": _least(seconds), "busy": _least(busy), "peak_mb": peak_mb()}))


def _least(taken: dict[str, list[float]]) -> dict[str, float]:
    return {name: min(times) for name, times in taken.items() if times}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
