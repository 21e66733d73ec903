"""What `data` may be, and the engine that counts it."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables.arrow_engine import ArrowEngine
from thresher.tables.engine import Engine
from thresher.tables.error_guard import guarded
from thresher.tables.files import open_files
from thresher.tables.objects import arrow_column, holds_objects, spelled
from thresher.tables.sql_text import Selection
from thresher.tables.time_zones import UTC

ONE_COLUMN = "value"
"""The name of the only column of a list or an array."""

LAZY_ENGINES = {
    "polars": "polars_engine:PolarsEngine",
    "duckdb": "duckdb_engine:RelationEngine",
    "ibis": "ibis_engine:IbisEngine",
    "dask": "dask_engine:DaskEngine",
    "pyspark": "spark_engine:SparkEngine",
    "pyspark[connect]": "spark_engine:SparkEngine",
}
"""For lazy and distributed frames, as `narwhals.Implementation` names them, the module and class of their engine.

The module, and with it the engine's library, is imported when such a frame is given.
"""


def open_data(
    data: Any,
    progress: Progress | None = None,
    time_zone: str = UTC,
    format: str | None = None,
    selection: Selection | None = None,
) -> Engine:
    """The engine for a frame, a path or glob, an array or a list, or a database with a selection of its rows.

    `progress` is called while files are read.

    `format` says what files are whose names do not say it.

    Frames in memory (pandas, Polars, Arrow, NumPy, lists) go to the embedded DuckDB by reference; lazy and
    distributed ones (Polars lazy, DuckDB relations, Ibis, Dask, Spark) are counted where they are.
    """
    native = nw.to_native(data, pass_through=True)
    engine = _database(native, selection)
    if isinstance(native, str | Path):
        engine = engine or open_files(native, progress, format)
    elif format is not None:
        raise InvalidSetting("format", "is for files", hint="Leave it out: the data says itself what it is.")
    else:
        engine = engine or _in_memory(native) or _frame(native)
    engine.time_zone = time_zone
    return engine


def _database(data: Any, selection: Selection | None) -> Engine | None:
    """The engine for rows of a database; None for any other data, for which nothing can be selected."""
    from thresher.tables.sql_sources import is_database, open_database

    if is_database(data):
        return open_database(data, selection)
    if selection is not None:
        raise InvalidSetting(
            selection.setting,
            f"is for databases, not for {'a file' if isinstance(data, str | Path) else type(data).__name__}",
            hint="Leave it out, or give a database's address or connection as data.",
        )
    return None


def _in_memory(data: Any) -> Engine | None:
    """The engine for what narwhals need not look at; None for any other data."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return ArrowEngine(data.column_names, data.column)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return ArrowEngine([ONE_COLUMN], lambda _: data)
    if isinstance(data, range):
        return ArrowEngine([ONE_COLUMN], lambda _: pa.array(np.arange(data.start, data.stop, data.step)))
    if isinstance(data, list | tuple):
        return ArrowEngine([ONE_COLUMN], lambda _: spelled(data), untyped=lambda _: True, objects=lambda _: data)
    if isinstance(data, np.ndarray):
        return _series(_plain_array(data), ONE_COLUMN)
    if nw.dependencies.is_pandas_series(data):
        return _series(data, data.name if isinstance(data.name, str) else ONE_COLUMN)
    if nw.dependencies.is_pandas_dataframe(data):
        # Not through narwhals, which refuses frames that have a name twice, even where another column is asked about.
        names = [name for name in data.columns if isinstance(name, str)]
        return ArrowEngine(
            names,
            lambda name: arrow_column(data[name]),
            untyped=lambda name: holds_objects(data[name].dtype),
            objects=lambda name: data[name],
        )
    return None


def _series(values: Any, name: str) -> Engine:
    return ArrowEngine(
        [name],
        lambda _: arrow_column(values),
        untyped=lambda _: holds_objects(values.dtype),
        objects=lambda _: values,
    )


def _plain_array(array: Any) -> Any:
    """An array of one dimension in the machine's byte order, which is the only one that Arrow reads."""
    if array.ndim != 1 or array.dtype.names:
        raise InvalidSetting(
            "data", "must be an array of one dimension", hint="Give a data frame if there are several columns."
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _frame(data: Any) -> Engine:
    """The engine for any other frame that narwhals knows."""
    frame = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(frame, nw.Series):
        return ArrowEngine([frame.name or ONE_COLUMN], lambda _: frame.to_arrow())
    if isinstance(frame, nw.DataFrame):
        if frame.implementation.is_polars():
            from thresher.tables.polars_engine import PolarsFrameEngine

            return PolarsFrameEngine(data)
        return ArrowEngine(frame.columns, lambda name: frame.get_column(name).to_arrow())
    if hasattr(frame, "__arrow_c_stream__"):
        from thresher.tables.loaded_engine import ArrowRows, LoadedEngine

        return LoadedEngine(ArrowRows(frame))
    if not isinstance(frame, nw.LazyFrame):
        raise InvalidSetting(
            "data",
            f"must be a table, not {type(data).__name__}",
            hint="Give a pandas, Polars, PyArrow, DuckDB, Ibis, Dask or Spark frame, the path of a CSV, JSON lines or "
            "Parquet file, an array or a list, an address of a database or a connection; or a subclass of Population. "
            "Of a dict of columns, pyarrow.table makes a table.",
        )
    kind = frame.implementation.value
    if kind not in LAZY_ENGINES:
        raise InvalidSetting("data", f"is a lazy frame of a kind that is not known: {kind}", hint="Collect it first.")
    engine: type[Engine] = pkgutil.resolve_name(f"thresher.tables.{LAZY_ENGINES[kind]}")
    return guarded(engine.name, lambda: engine.open(data))
