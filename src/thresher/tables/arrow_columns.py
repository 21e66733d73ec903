"""Arrow columns as DuckDB reads them: of other types where it must be, and without the values at which it fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thresher.tables.column_kinds import MOST_DIGITS, kind_of_arrow
from thresher.tables.objects import decoded
from thresher.tables.time_zones import INSTANTS

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_ROWS_AT_ONCE = 1 << 14


def readable(values: Any) -> pa.ChunkedArray:
    """An Arrow column in a type that DuckDB reads, without a copy where it reads the column's own type."""
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    kind = column.type
    if pa.types.is_dictionary(kind) and kind_of_arrow(kind) != "text":
        return readable(column.cast(kind.value_type))
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind) and kind.precision <= MOST_DIGITS:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_date64(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms")):
        return dated(column)
    return column


def plain(dtype: pa.DataType) -> pa.DataType:
    """The type as which a column is kept: without extensions and dictionaries, and where DuckDB has none, another.

    Durations become whole numbers: DuckDB fails at one of too many seconds. Decimals of more digits than DuckDB has,
    and of whole tens, become text.
    """
    if isinstance(dtype, pa.BaseExtensionType):
        return plain(dtype.storage_type)
    if pa.types.is_dictionary(dtype):
        return plain(dtype.value_type)
    if pa.types.is_decimal(dtype) and (dtype.precision > MOST_DIGITS or dtype.scale < 0):
        return pa.large_string()
    return pa.int64() if pa.types.is_duration(dtype) else dtype


def unwrapped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column as `plain` has it."""
    dtype = column.type
    if isinstance(dtype, pa.BaseExtensionType):
        return unwrapped(pa.chunked_array([chunk.storage for chunk in column.chunks], dtype.storage_type))
    return column if dtype == plain(dtype) else column.cast(plain(dtype))


def as_unit(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that tells units apart, in a type that DuckDB compares; a dictionary, which it has, stays one."""
    return column if pa.types.is_dictionary(column.type) else unwrapped(column)


def dated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times in seconds or milliseconds that some calendar has, others as nulls: DuckDB fails at one that is too far."""
    microseconds = 1_000_000 if getattr(column.type, "unit", "ms") == "s" else 1_000
    numbers = column.cast(pa.int64())
    first, last = (pa.scalar(instant // microseconds) for instant in INSTANTS)
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return column if pc.all(inside).as_py() in (True, None) else pc.if_else(inside, column, None)


def in_utf_8(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text without what is not UTF-8, which is no value; any other column as it is.

    DuckDB fails at such text only where it stores it, and Python where it reads it. Looking for it takes a fortieth of
    the time in which DuckDB chooses a row for each unit.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(test(kind) for test in _TEXT):
        return column
    return pa.chunked_array([_in_utf_8(chunk) for chunk in column.chunks], column.type)


def _in_utf_8(chunk: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(chunk.type):
        held = _in_utf_8(chunk.dictionary)
        if held is chunk.dictionary:
            return chunk
        return pa.DictionaryArray.from_arrays(chunk.indices, held, ordered=chunk.type.ordered)
    try:
        chunk.validate(full=True)
        return chunk
    except pa.ArrowInvalid:
        pass
    if len(chunk) > _ROWS_AT_ONCE:
        starts = range(0, len(chunk), _ROWS_AT_ONCE)
        return pa.concat_arrays([_in_utf_8(chunk.slice(start, _ROWS_AT_ONCE)) for start in starts])
    octets = chunk.view(pa.binary_view()) if pa.types.is_string_view(chunk.type) else chunk.cast(pa.large_binary())
    return pa.array([decoded(value) for value in octets.to_pylist()], chunk.type)
