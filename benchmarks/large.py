"""Larger than memory: five gigabytes of Parquet, and how much memory the answer takes."""

from __future__ import annotations

from pathlib import Path

from measurement import Measurement
from tables import DATA, count
from zipf import zipf_file

ROWS = 640_000_000  # of eight bytes, neither encoded nor compressed


def measure() -> list[Measurement]:
    path = zipf_file(DATA, ROWS, 1_000_000, "whole", encoded=False)
    size = Path(path).stat().st_size / 1e9
    answer = count("duckdb", path, "private", 1)
    note = f"{size:.1f} GB on disk, {answer['private']:.0f} s"
    return [Measurement(name="peak memory", value=answer["peak_mb"], unit="MB", target=None, note=note)]
