"""The data set that every library counts: Zipf keys, one row per person.

Key k, for k from 1 to `DOMAIN`, is drawn with probability proportional to k^-1.1. The support is finite so that a
library without partition selection can be given the public list 1…`DOMAIN`; the libraries that find keys by
themselves are never told it. Columns: `user` (int64, the row number: one row per person) and `key` (int64).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 10_000_000
DOMAIN = 1_000_000
EXPONENT = 1.1
SEED = 20_240
ROW_GROUP = 1_000_000


def make(path: Path, rows: int = ROWS, seed: int = SEED) -> Path:
    """Write `rows` rows to a Parquet file, unless that very file is already there.

    The first n rows do not depend on how many follow them.
    """
    if path.exists() and pq.read_metadata(path).num_rows == rows:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    cumulative = np.cumsum(np.arange(1, DOMAIN + 1, dtype=np.float64) ** -EXPONENT)
    cumulative /= cumulative[-1]
    generator = np.random.default_rng(seed)
    schema = pa.schema([("user", pa.int64()), ("key", pa.int64())])
    unfinished = path.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, schema) as writer:
        for start in range(0, rows, ROW_GROUP):
            users = np.arange(start, min(start + ROW_GROUP, rows), dtype=np.int64)
            keys = np.searchsorted(cumulative, generator.random(len(users)), side="right") + 1
            writer.write_table(pa.table({"user": users, "key": keys.astype(np.int64)}, schema=schema))
    unfinished.replace(path)
    return path


def true_counts(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many people hold each key; index k is key k, index 0 is empty."""
    keys = pq.read_table(path, columns=["key"])["key"].to_numpy()
    return np.bincount(keys, minlength=DOMAIN + 1).astype(np.int64)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    print(make(arguments.path, arguments.rows))
