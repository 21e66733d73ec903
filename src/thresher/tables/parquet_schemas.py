"""The one schema of several Parquet files. Each file's own is public, so it may decide; what rows hold may not.

Columns are those of the first file. Whole numbers of several widths are read as 64 bits, floats as doubles, and a
column that has no type in some files, because it has no value there, has that of the others. All other columns must
have the same type in every file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def unified(schemas: Sequence[pa.Schema]) -> tuple[pa.Schema, dict[str, str]]:
    """A schema as which all files can be read, whatever they hold, and the columns that have none, each with a reason.

    Edge cases: the columns that have none are of the first file's type.
    """
    import pyarrow as pa

    fields, problems = [], {}
    for field in schemas[0]:
        places = [schema.get_field_index(field.name) for schema in schemas]
        if -1 in places:
            problems[field.name] = "is not in all files"
            fields.append(field)
            continue
        kinds = [schema.field(place).type for schema, place in zip(schemas, places, strict=True)]
        common = kinds[0]
        for kind in kinds[1:]:
            wider = _common(common, kind)
            if wider is None:
                problems[field.name] = f"has the type {common} in some files and {kind} in others"
                break
            common = wider
        fields.append(pa.field(field.name, common))
    return pa.schema(fields), problems


def alike(schemas: Sequence[pa.Schema]) -> bool:
    """Whether all files have the columns of the first one, of the same types, in any order."""
    return all(
        (place := schema.get_field_index(field.name)) >= 0 and _plain(schema.field(place).type) == _plain(field.type)
        for schema in schemas[1:]
        for field in schemas[0]
    )


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type as which values of both can be read; None if there is none that holds them all."""
    import pyarrow as pa

    if one == other:
        return one
    one, other = _plain(one), _plain(other)
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_uint64(one) or pa.types.is_uint64(other):
        return None
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(one) and pa.types.is_floating(other) else None


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without what changes nothing for who counts: how text is laid out, and where an instant is shown."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz is not None else kind
