"""Polars lazy frames: counted by Polars itself, in its streaming engine."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from thresher.errors import InvalidSetting
from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.tables.column_keys import WEIGHT, value_names
from thresher.tables.column_kinds import Kind, kind_of_narwhals, not_read
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows
from thresher.tables.time_zones import UTC

if TYPE_CHECKING:
    import pyarrow as pa


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first of the year 1 and the last of 9999, in days since 1970."""


class PolarsEngine:
    """A `polars.LazyFrame`."""

    name = "Polars"

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        self._frame = frame
        self._schema = guarded(self.name, lambda: nw.from_native(frame).collect_schema())
        self._time_zone = UTC

    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._schema)

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the frame's schema."""
        import polars as pl

        if self._frame.collect_schema()[column] == pl.Null:
            return "nothing"
        return kind_of_narwhals(self._schema[column])

    def untyped(self, column: str) -> bool:
        """The schema is public."""
        return False

    def reading(self, kinds: Mapping[str, Kind]) -> NoReturn:
        """Not here: the caller can cast where the data is."""
        raise not_read(kinds, "a lazy Polars frame")

    def on_clock(self, time_zone: str) -> PolarsEngine:
        """The same rows, with instants on the wall clock of this zone."""
        engine = copy.copy(self)
        engine._time_zone = time_zone
        return engine

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures.

        Edge cases: Python objects are refused: Polars compares them by methods of their own, which some lack.
        """
        import narwhals as nw

        if self._schema[column] == nw.Object:
            raise InvalidSetting(
                "unit",
                f"{column!r} holds Python objects, which a lazy Polars frame cannot tell apart",
                hint="Give the frame itself, as frame.collect(), or cast the column.",
            )
        return bool(self._schema[column].is_nested())

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return self._cleaned(self._select(wanted), wanted)

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit, kept in memory."""
        import polars as pl

        names = value_names(len(wanted))
        # A random permutation of the rows: within a unit, each of its rows is as likely as the others to come first.
        place = pl.int_range(pl.len(), dtype=pl.Int64).shuffle().alias("r")
        first = [*(pl.col(name).get(pl.col("r").arg_min()) for name in names), pl.col("r").min()]
        held = self._held(self._select(wanted, unit), [*wanted, unit])
        texts = [
            name for name, column in zip([*names, "u"], [*wanted, unit], strict=True) if self.kind(column) == "text"
        ]
        drawn = held.filter(*(_composable(pl.col(name).cast(pl.String)) for name in texts)).with_columns(place)

        def run() -> Any:
            kept = drawn.group_by("u").agg(*first).collect()
            if self.kind(unit) != "text":
                return kept
            # A unit may be written in several forms: each has chosen its first row, and the first of those is chosen.
            kept = kept.with_columns(pl.col("u").cast(pl.String))
            ascii = kept["u"].str.len_bytes() == kept["u"].str.len_chars()  # which NFC leaves as it is
            return kept if ascii.all() else kept.group_by(pl.col("u").str.normalize("NFC")).agg(*first)

        return self._cleaned(guarded(self.name, run).lazy().select(names), wanted)

    def close(self) -> None:
        """Nothing is kept open."""

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        import polars as pl

        named = dict(zip(value_names(len(wanted)), wanted, strict=True))
        if unit is not None:
            named["u"] = unit
        return self._frame.select(self._on_clock(pl.col(old), old).alias(new) for new, old in named.items())

    def _on_clock(self, column: Any, name: str) -> Any:
        """A column; instants are times on the wall clock of the zone from here on."""
        import polars as pl

        dtype = self._frame.collect_schema()[name]
        column = _dated(column, dtype)
        if not isinstance(dtype, pl.Datetime) or dtype.time_zone is None:
            return column
        return column.dt.convert_time_zone(self._time_zone).dt.replace_time_zone(None)

    def _held(self, frame: Any, columns: Sequence[str]) -> Any:
        """The rows that have a value in all columns of a frame, which hold what these columns do."""
        import polars as pl

        for name, column in zip(frame.collect_schema().names(), columns, strict=True):
            value = pl.col(name)
            frame = frame.filter(
                value.is_not_null() & value.is_not_nan() if self.kind(column) == "floats" else value.is_not_null()
            )
        return frame

    def _cleaned(self, frame: Any, wanted: Sequence[str]) -> LazyRows:
        import polars as pl

        names = value_names(len(wanted))
        kinds = [kind for column in wanted if (kind := self.kind(column)) is not None]
        weighted = "text" in kinds
        if weighted:
            # Text is cleaned after a first count: each form once instead of each row.
            frame = frame.group_by(names).agg(pl.len().cast(pl.Int64).alias(WEIGHT))
        clean = [_clean(pl.col(name), kind).alias(name) for name, kind in zip(names, kinds, strict=True)]
        return LazyRows(self.name, frame.with_columns(*clean), _collect, weighted, nulls=True)


def _dated(column: Any, dtype: Any) -> Any:
    """A column without days before the year 1 or after 9999: Polars would panic at some that no calendar has."""
    import polars as pl

    if dtype == pl.Date:
        first, last = _FIRST_DAY, _LAST_DAY
    elif dtype == pl.Datetime and dtype.time_unit != "ns":  # 64 bits of nanoseconds hold the years 1678 to 2262
        a_day = 86_400 * {"ms": 10**3, "us": 10**6}[dtype.time_unit]
        # A day less at both ends where a zone may move the clock.
        inside = 0 if dtype.time_zone is None else 1
        first, last = (_FIRST_DAY + inside) * a_day, (_LAST_DAY + 1 - inside) * a_day - 1
    else:
        return column
    return pl.when(column.to_physical().is_between(first, last)).then(column)


def _clean(column: Any, kind: Kind) -> Any:
    import polars as pl

    if kind == "text":
        text = column.cast(pl.String)
        return pl.when(_composable(text)).then(_without_nul(text).str.normalize("NFC"))
    if kind == "whole numbers":
        return column.cast(pl.Int64)
    if kind == "floats":
        number = column.cast(pl.Float64)
        return pl.when(number == 0).then(0.0).when(number.is_not_nan()).then(number)
    if kind == "decimals":
        return column.cast(pl.String)
    if kind == "times":
        return column.cast(pl.Datetime("us"))
    return column


def _composable(text: Any) -> Any:
    """Whether text has no more marks in a row than Thresher normalises."""
    import polars as pl

    # Most text is short, and is not searched.
    long = pl.when(text.str.len_bytes() >= LEAST_BYTES).then(text)
    return ~_without_nul(long).str.contains(TOO_MANY_MARKS).fill_null(False)


def _without_nul(text: Any) -> Any:
    return text.str.replace_all("\x00", "", literal=True)


def _collect(frame: Any) -> pa.Table:
    return frame.collect(engine="streaming").to_arrow()
