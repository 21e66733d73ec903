"""Columns of pandas and Dask frames as Arrow, of types that follow from their dtype alone."""

from __future__ import annotations

from typing import Any

from thresher.tables.objects import spelled


def holds_objects(dtype: Any) -> bool:
    """Whether a dtype says no more than "Python objects", or "categories" that are such objects."""
    categories = getattr(dtype, "categories", None)
    return str(dtype if categories is None else categories.dtype) == "object"


def pandas_column(column: Any) -> Any:
    """A column as Arrow; Python objects as text, each by itself."""
    import pyarrow as pa

    if holds_objects(column.dtype):
        return spelled(column)
    try:
        return pa.Array.from_pandas(column)
    except UnicodeError:  # a text that UTF-8 cannot write is no value
        return spelled(column)
