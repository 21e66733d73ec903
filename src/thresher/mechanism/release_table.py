"""The Arrow table of a release: its columns, the bucket types that it may hold, and its columns as JSON values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.privacy.intervals import intervals

if TYPE_CHECKING:
    import pyarrow as pa

COUNT = "count"
NUMBERS = (COUNT, "estimate", "lower", "upper")
"""The columns that follow the columns of the bucket. All others follow from the count."""
_NUMBER_TYPES = ("int64", "double", "int64", "int64")
_LARGEST_COUNT = 1 << 53
"""Neither JSON readers nor float estimates hold larger whole numbers exactly."""


def bucket_columns(buckets: Any, columns: tuple[str, ...]) -> list[pa.Array]:
    """Buckets as one Arrow array a column, each of a type that can be stored."""
    import pyarrow as pa

    if isinstance(buckets, pa.Table):
        arrays = [buckets.column(index) for index in range(buckets.num_columns)]
    elif len(columns) == 1:
        arrays = [buckets]
    else:
        arrays = [[bucket[index] for bucket in buckets] for index in range(len(columns))]
    if len(arrays) != len(columns):
        raise InvalidSetting("columns", f"names {len(columns)} columns, buckets have {len(arrays)}")
    return [_storable(array, name) for array, name in zip(arrays, columns, strict=True)]


def _storable(values: Any, column: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        array = array.cast(_storable_type(array.type))
        return pc.add(array, 0.0) if pa.types.is_floating(array.type) else array  # -0.0 is counted as 0.0
    except (pa.ArrowException, TypeError, OverflowError):
        # The engine's message may quote a value; ours must not.
        raise InvalidSetting(
            column,
            "holds buckets of a type that cannot be released",
            hint="Use text, whole numbers, floats, booleans, dates or times; cast anything else to text first.",
        ) from None


def _storable_type(kind: pa.DataType) -> pa.DataType:
    """The type in which buckets of this type are stored; `TypeError` if there is none."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    text = (types.is_null, types.is_string, types.is_large_string, types.is_string_view, types.is_decimal)
    stored: list[tuple[tuple[Callable[[pa.DataType], bool], ...], pa.DataType]] = [
        (text, pa.string()),
        ((types.is_boolean,), pa.bool_()),
        ((types.is_integer,), pa.int64()),
        ((types.is_floating,), pa.float64()),
        ((types.is_date,), pa.date32()),
    ]
    for tests, stored_type in stored:
        if any(test(kind) for test in tests):
            return stored_type
    raise TypeError


def sorted_counts(keys: list[pa.Array], counts: NDArray[np.int64], columns: tuple[str, ...]) -> pa.Table:
    """Buckets with their sampled counts, in the order of a release: by count, largest first, then by bucket."""
    import pyarrow as pa

    table = pa.table([*keys, pa.array(counts)], names=[*columns, COUNT])
    return table.sort_by([(COUNT, "descending"), *((name, "ascending") for name in columns)]).combine_chunks()


def with_numbers(counted: pa.Table, rate: float, threshold: int, confidence: float) -> pa.Table:
    """The same rows with the numbers that follow from their counts."""
    import pyarrow as pa

    counts = counted[COUNT].to_numpy()
    numbers = (counts / rate, *intervals(rate, threshold, counts, confidence))
    for name, values in zip(NUMBERS[1:], numbers, strict=True):
        counted = counted.append_column(name, pa.array(values))
    return counted


def holds_counts_alone(table: pa.Table) -> bool:
    """Whether a table has the counts of a release's rows, and not yet the numbers that follow from them."""
    return bool(table.column_names) and table.column_names[-1] == COUNT


def check_counts(counts: Any) -> NDArray[np.int64]:
    """Sampled counts as an array, after a check that they are whole numbers that a float can hold exactly."""
    array = np.asarray(counts)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidSetting("counts", "must be whole numbers")
    if array.size and not (int(array.min()) >= 0 and int(array.max()) <= _LARGEST_COUNT):
        raise InvalidSetting("counts", "must be from 0 to 2^53")
    return array.astype(np.int64)


def check_table(table: Any) -> None:
    """Require what holds for the rows of every release: bucket columns of known types, then the four numbers.

    Guarantee: no name and no bucket is there twice, and nothing is missing.
    Edge cases: the count may be there alone.
    """
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        raise InvalidSetting("table", f"must be an Arrow table, not {type(table).__name__}")
    names, types = table.column_names, [str(kind) for kind in table.schema.types]
    last = 1 if holds_counts_alone(table) else len(NUMBERS)
    keys = names[:-last]
    if tuple(names[-last:]) != NUMBERS[:last] or tuple(types[-last:]) != _NUMBER_TYPES[:last] or not keys:
        raise InvalidSetting("table", f"must have a bucket's columns, then {', '.join(NUMBERS)}")
    if len({*keys, *NUMBERS}) != len(keys) + len(NUMBERS):
        raise InvalidSetting("table", "must not have two columns of one name")
    for name in keys:
        kind = table.schema.field(name).type
        if not _is_stored(kind):
            raise InvalidSetting(name, "holds buckets of a type that cannot be released")
        if pa.types.is_floating(kind):
            values = table[name].to_numpy()
            if np.any(np.isnan(values) | (np.signbit(values) & (values == 0))):
                raise InvalidSetting(name, "must not hold a bucket that is no number, nor a zero with a sign")
    if any(column.null_count for column in table.columns):
        raise InvalidSetting("table", "must not have missing values")
    if table.num_rows > 1 and table.select(keys).group_by(keys).aggregate([]).num_rows != table.num_rows:
        raise InvalidSetting("table", "must not have the same bucket twice")


def _is_stored(kind: pa.DataType) -> bool:
    try:
        return bool(_storable_type(kind) == kind)
    except TypeError:
        return False


def columns_to_json(table: pa.Table) -> list[list[Any]]:
    """The columns as plain values: dates as days and times as microseconds since 1970, infinite floats as text."""
    import pyarrow as pa

    columns: list[list[Any]] = []
    for array in table.columns:
        if pa.types.is_temporal(array.type):
            array = array.cast(pa.int64() if pa.types.is_timestamp(array.type) else pa.int32())
        values = array.to_pylist()
        if pa.types.is_floating(array.type):
            values = [value if math.isfinite(value) else repr(value) for value in values]
        columns.append(values)
    return columns


def column_from_json(values: list[Any], kind: str) -> pa.Array:
    """Read one column that `columns_to_json` wrote; `kind` is its Arrow type as text."""
    import pyarrow as pa

    if kind.startswith("timestamp"):
        zone = kind.partition("tz=")[2].rstrip("]") or None
        return pa.array(values, pa.int64()).cast(pa.timestamp("us", zone))
    if kind == "double":
        return pa.array([float(value) for value in values], pa.float64())
    if kind == "date32[day]":
        return pa.array(values, pa.int32()).cast(pa.date32())
    return pa.array(values, {"string": pa.string(), "int64": pa.int64(), "bool": pa.bool_()}[kind])
