"""What `data` may be, and the engine that counts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables.arrow_engine import ArrowEngine, PolarsFrameEngine
from thresher.tables.error_guard import guarded
from thresher.tables.objects import spelled
from thresher.tables.pandas_columns import holds_objects, pandas_column
from thresher.tables.rows import Engine

ONE_COLUMN = "value"
"""The name of the only column of a list or an array."""


def open_data(data: Any, progress: Progress | None = None) -> Engine:
    """The engine for a frame, a path or glob, an array or a list; `progress` is told how far files are read.

    Frames in memory (pandas, Polars, Arrow, NumPy, lists) go to the embedded DuckDB by reference; lazy and
    distributed ones (Polars lazy, DuckDB relations, Ibis, Dask, Spark) are counted where they are.
    """
    if isinstance(data, str | Path):
        from thresher.tables.files import open_files

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

    if isinstance(data, np.ndarray) and data.dtype != object:
        array = (
            data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
        )  # Arrow reads this order only
        return ArrowEngine([ONE_COLUMN], lambda _: _typed(lambda: pa.array(array), array.dtype.kind in "UT", array))
    if isinstance(data, range):
        return ArrowEngine([ONE_COLUMN], lambda _: pa.array(np.arange(data.start, data.stop, data.step)))
    return ArrowEngine([ONE_COLUMN], lambda _: spelled(data), untyped=lambda _: True)


def _typed(convert: Callable[[], Any], is_text: bool, values: Any) -> Any:
    """A column of a public type as Arrow. Text that UTF-8 cannot write is no value, and must not stop the rest."""
    try:
        return convert()
    except UnicodeError:
        if not is_text:
            raise
    return spelled(values.tolist())


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
    if data.ndim == 1:
        name = data.name if isinstance(data.name, str) else ONE_COLUMN
        return ArrowEngine([name], lambda _: pandas_column(data), untyped=lambda _: holds_objects(data.dtype))
    names = [name for name in data.columns if isinstance(name, str)]
    return ArrowEngine(
        names, lambda name: pandas_column(data[name]), untyped=lambda name: holds_objects(data[name].dtype)
    )


def _eager(frame: Any) -> Engine:
    """Polars, and any other frame in memory that narwhals knows."""
    if frame.implementation.is_polars():
        return PolarsFrameEngine(frame.to_native())
    return ArrowEngine(frame.columns, lambda name: frame.get_column(name).to_arrow())


def _lazy(data: Any, frame: Any) -> Engine:
    kind = frame.implementation
    if kind.is_polars():
        from thresher.tables.polars_engine import PolarsEngine

        return PolarsEngine(data)
    if kind.is_duckdb():
        from thresher.tables.duckdb_engine import RelationEngine

        return RelationEngine(data)
    if kind.is_ibis():
        from thresher.tables.ibis_engine import open_ibis

        return open_ibis(data)
    if kind.is_dask():
        from thresher.tables.dask_engine import DaskEngine

        return DaskEngine(data)
    if kind.is_pyspark() or kind.is_pyspark_connect():
        from thresher.tables.spark_engine import SparkEngine

        return guarded("Spark", lambda: SparkEngine(data))
    raise InvalidSetting("data", f"is a lazy frame of a kind that is not known: {kind.value}", hint="Collect it first.")
