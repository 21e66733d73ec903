"""PyDP: it has no group-by, so Arrow counts and PyDP decides key by key, with noise, what is released."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
from pydp.algorithms.partition_selection import create_partition_strategy

from peers.runner import DELTA, EPSILON, main


def query(path: str) -> tuple[Any, Any]:
    exact = pq.read_table(path, columns=["key"]).group_by("key").aggregate([([], "count_all")])
    strategy = create_partition_strategy("laplace", EPSILON, DELTA, 1)
    keys, counts = [], []
    for key, count in zip(exact["key"].to_pylist(), exact["count_all"].to_pylist(), strict=True):
        noised = strategy.noised_value_if_should_keep(count)
        if noised is not None:
            keys.append(key)
            counts.append(noised)
    return keys, counts


if __name__ == "__main__":
    main("pydp", "python-dp", query, "unknown keys; exact counts by Arrow, since PyDP has no group-by")
