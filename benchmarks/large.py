"""Larger than memory: gigabytes of Parquet, and an Arrow stream whose rows are kept, and the memory that answers take.

`python benchmarks/large.py` is the stream, in a process of its own; it prints one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import thresher as th
from measurement import Measurement, peak_mb
from tables import DATA, count
from thresher.questions import Values
from thresher.tables import Table
from zipf import zipf_file

ROWS = 640_000_000  # of eight bytes, neither encoded nor compressed
STREAMED_ROWS, BATCH, KEYS = 320_000_000, 1_000_000, 100_003
LIMIT = "500MB"
"""What the embedded engine may use for the rows of the stream; by default it is most of the machine's memory."""


def stream() -> pa.RecordBatchReader:
    """Rows that are made while they are read."""
    schema = pa.schema([("key", pa.int64())])
    pool = np.random.default_rng(1).integers(0, 1 << 40, BATCH)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(STREAMED_ROWS // BATCH):
            yield pa.record_batch([pa.array((pool + number * 104_729) % KEYS)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def count_stream() -> dict[str, float]:
    """One count of the stream in this process, which starts with nothing else in its memory."""
    start = time.perf_counter()
    with Table(stream()) as table:
        table._engine._own.execute(f"SET memory_limit = '{LIMIT}'")  # type: ignore[attr-defined]
        released = len(table.ask(Values(("key",)), th.plan(epsilon=1, delta=1e-8)))
    return {"seconds": time.perf_counter() - start, "released": released, "peak_mb": peak_mb()}


def measure() -> list[Measurement]:
    path = zipf_file(DATA, ROWS, 1_000_000, "whole", encoded=False)
    size = Path(path).stat().st_size / 1e9
    answer = count("duckdb", path, "private", 1)
    note = f"{size:.1f} GB on disk, {answer['private']:.0f} s"
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    kept = json.loads(done.stdout.strip().splitlines()[-1])
    kept_note = (
        f"{STREAMED_ROWS * 8 / 1e9:.1f} GB of rows that are kept, {kept['seconds']:.0f} s; the engine is limited to "
        f"{LIMIT}, {kept['released']:,} of {KEYS:,} values released"
    )
    return [
        Measurement(name="Parquet: peak memory", value=answer["peak_mb"], unit="MB", target=None, note=note),
        Measurement(name="Arrow stream: peak memory", value=kept["peak_mb"], unit="MB", target=None, note=kept_note),
    ]


if __name__ == "__main__":
    print(json.dumps(count_stream()))
