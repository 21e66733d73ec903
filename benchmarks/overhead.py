"""What privacy adds to a group-by of ten million rows on each engine, and to one of a thousand rows.

`python benchmarks/run.py overhead` takes three minutes. Plain and private counts take turns in one process. Compare the
processor times in the notes where the machine is not quiet.
"""

from __future__ import annotations

from measurement import Measurement
from tables import DATA, count, ratio
from zipf import zipf_file

ROWS, REPEATS = 10_000_000, 7
TINY_ROWS, TINY_REPEATS = 1_000, 40
TARGET_MS = 15.0
ENGINES = {
    "relation": "DuckDB table",
    "duckdb": "Parquet, DuckDB",
    "polars": "Parquet, Polars",
    "frame": "Polars frame",
    "memory": "Arrow table",
}
DATA_SETS = (("whole", 100, "100 whole numbers"), ("words", 100, "100 words"), ("words", 100_000, "100,000 words"))


def ratios() -> list[Measurement]:
    """Private ÷ plain of ten million rows."""
    rows = []
    for kind, keys, what in DATA_SETS:
        path = zipf_file(DATA, ROWS, keys, kind)
        for engine, name in ENGINES.items():
            rows.append(ratio(engine, path, f"{name}: {what}", repeats=REPEATS, peaks=False))
    return rows


def fixed_costs() -> list[Measurement]:
    """Private − plain of a thousand rows: what does not grow with rows."""
    rows = []
    for kind, what in (("whole", "whole numbers"), ("words", "words")):
        path = zipf_file(DATA, TINY_ROWS, 5, kind)
        for engine, name in ENGINES.items():
            both = count(engine, path, "both", TINY_REPEATS)
            more, busy = (1000 * (both[f"private{each}"] - both[f"plain{each}"]) for each in ("", "_busy"))
            note = f"a thousand {what}, plan given; {busy:.1f} ms of processor time"
            rows.append(
                Measurement(name=f"{name}: fixed cost, {what}", value=more, unit="ms", target=TARGET_MS, note=note)
            )
    return rows


def measure() -> list[Measurement]:
    return [*ratios(), *fixed_costs()]
