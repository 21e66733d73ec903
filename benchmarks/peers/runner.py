"""What every library's runner shares. It runs inside the library's environment: standard library and pyarrow only.

A runner is one function from a Parquet file to released (keys, counts). The clock covers reading the file,
counting and everything private, until the released numbers are in this process; not imports, not starting a JVM,
and not the first query, a small one that warms the library up. The best of a few runs counts: other work only
ever adds time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

EPSILON = 1.0
DELTA = 1e-8
RUNS = 3
ENOUGH = 60.0  # seconds after which no further run is started

Query = Callable[[str], tuple[Any, Any]]


def main(name: str, distribution: str, query: Query, note: str) -> None:
    """Run a query and print one line of JSON about it; the released counts go to a Parquet file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--warm-up", required=True, help="a small file of the same kind")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"peer": name, "version": version(distribution), "note": note, "error": None}
    try:
        query(arguments.warm_up)
        times: list[float] = []
        while len(times) < RUNS and sum(times) < ENOUGH:
            begin = time.perf_counter()
            keys, counts = query(arguments.data)
            times.append(time.perf_counter() - begin)
        released = pa.table({"key": pa.array(keys, pa.int64()), "count": pa.array(counts).cast(pa.float64())})
        pq.write_table(released, arguments.output)
        result |= {"seconds": min(times), "runs": len(times), "keys_released": released.num_rows}
        result["memory_mb"] = peak_memory() / 2**20
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    print("\n" + json.dumps(result), flush=True)


def peak_memory() -> int:
    """Bytes that this process and those it started held at their peaks; a runner leads its own session."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == os.getsid(0):
                status = (entry / "status").read_text()
                total += int(status.split("VmHWM:")[1].split()[0]) * 1024
        except (OSError, IndexError):  # it ended meanwhile, or has no memory of its own
            continue
    return total
