"""What `data` may be, and the engine that counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher.analytics.rounds import Progress
from thresher.errors import InvalidSetting
from thresher.populations.arrow_engine import ArrowEngine, PolarsFrameEngine
from thresher.populations.guarding import guarded
from thresher.populations.rows import Engine

ONE_COLUMN = "value"
"""The name of the only column of a list or an array."""


def open_data(data: Any, progress: Progress | None = None) -> Engine:
    """The engine for a frame, a path or glob, an array or a list; `progress` is told how far files are read.

    Frames in memory (pandas, Polars, Arrow, NumPy, lists) go to the embedded DuckDB by reference; lazy and
    distributed ones (Polars lazy, DuckDB relations, Ibis, Dask, Spark) are counted where they are.
    """
    if isinstance(data, str | Path):
        from thresher.populations.files import open_files

        return open_files(data, progress)
    if isinstance(data, np.ndarray | list | tuple | range):
        return _one_column(data)
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return ArrowEngine(data.column_names, data.column)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return ArrowEngine([ONE_COLUMN], lambda _: data)
    return _frame(data)


def _one_column(data: Any) -> Engine:
    import pyarrow as pa

    if isinstance(data, np.ndarray) and (data.ndim != 1 or data.dtype.names):
        raise InvalidSetting(
            "data", "must be an array of one dimension", hint="Give a data frame if there are several columns."
        )

    def read(_: str) -> Any:
        plain_array = isinstance(data, np.ndarray) and data.dtype != object
        if plain_array and not data.dtype.isnative:  # Arrow reads this machine's order of bytes only
            return pa.array(data.astype(data.dtype.newbyteorder("=")))
        return pa.array(data) if plain_array else pa.array(list(data), from_pandas=True)

    return ArrowEngine([ONE_COLUMN], read)


def _frame(data: Any) -> Engine:
    import narwhals as nw

    pandas = nw.dependencies.get_pandas()
    if pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series):
        return _pandas(data)
    frame = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(frame, nw.Series):
        return ArrowEngine([frame.name or ONE_COLUMN], lambda _: frame.to_arrow())
    if isinstance(frame, nw.DataFrame):
        return _eager(frame)
    if isinstance(frame, nw.LazyFrame):
        return _lazy(data, frame)
    raise InvalidSetting(
        "data",
        f"must be a table, not {type(data).__name__}",
        hint="Give a pandas, Polars, PyArrow, DuckDB, Ibis, Dask or Spark frame, the path of a CSV, JSON lines or "
        "Parquet file, an array or a list; or a subclass of thresher.Population.",
    )


def _pandas(data: Any) -> Engine:
    """pandas itself instead of narwhals, which refuses frames that have a name twice, even in other columns."""
    import pyarrow as pa

    if data.ndim == 1:
        name = data.name if isinstance(data.name, str) else ONE_COLUMN
        return ArrowEngine([name], lambda _: pa.Array.from_pandas(data))
    names = [name for name in data.columns if isinstance(name, str)]
    return ArrowEngine(names, lambda name: pa.Array.from_pandas(data[name]))


def _eager(frame: Any) -> Engine:
    """Polars, and any other frame in memory that narwhals knows."""
    if frame.implementation.is_polars():
        return PolarsFrameEngine(frame.to_native())
    return ArrowEngine(frame.columns, lambda name: frame.get_column(name).to_arrow())


def _lazy(data: Any, frame: Any) -> Engine:
    kind = frame.implementation
    if kind.is_polars():
        from thresher.populations.polars_engine import PolarsEngine

        return PolarsEngine(data)
    if kind.is_duckdb():
        from thresher.populations.duckdb_engine import RelationEngine

        return RelationEngine(data)
    if kind.is_ibis():
        from thresher.populations.ibis_engine import IbisEngine

        return IbisEngine(data)
    if kind.is_dask():
        from thresher.populations.dask_engine import DaskEngine

        return DaskEngine(data)
    if kind.is_pyspark() or kind.is_pyspark_connect():
        from thresher.populations.spark_engine import SparkEngine

        return guarded("Spark", lambda: SparkEngine(data))
    raise InvalidSetting("data", f"is a lazy frame of a kind that is not known: {kind.value}", hint="Collect it first.")
