"""Zipf keys in Parquet: whole numbers or words, as many rows and distinct keys as asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BLOCK = 5_000_000
EXPONENT = 1.1


def zipf_file(folder: Path, rows: int, distinct: int, kind: str, *, encoded: bool = True) -> Path:
    """A file of `rows` rows whose k-th most common of `distinct` keys is held in proportion to k^-1.1.

    `kind` is "whole" (int64) or "words". `encoded=False` writes plain, uncompressed pages: the file is as large as the
    data.
    """
    path = folder / f"{kind}-{rows}-{distinct}{'' if encoded else '-plain'}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.arange(1, distinct + 1, dtype=np.float64) ** -EXPONENT
    cumulative = np.cumsum(weights / weights.sum())
    names = np.random.default_rng(1).permutation(distinct)
    words = pa.array([f"word-{name:08d}" for name in names]) if kind == "words" else None
    unfinished = path.with_suffix(".unfinished")
    schema = pa.schema([("key", pa.string() if kind == "words" else pa.int64())])
    options = {} if encoded else {"use_dictionary": False, "compression": "NONE"}
    random = np.random.default_rng(2)
    with pq.ParquetWriter(unfinished, schema, **options) as writer:
        for start in range(0, rows, BLOCK):
            drawn = np.searchsorted(cumulative, random.random(min(BLOCK, rows - start)), side="right")
            drawn = np.minimum(drawn, distinct - 1)
            keys = words.take(pa.array(drawn)) if words is not None else pa.array(names[drawn])
            writer.write_table(pa.table({"key": keys}, schema=schema), row_group_size=1_000_000)
    unfinished.replace(path)
    return path
