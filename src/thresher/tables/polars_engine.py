"""Polars: lazy frames are counted by Polars itself, in its streaming engine; frames in memory by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.questions import Question, Values
from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.tables import column_keys
from thresher.tables.arrow_engine import ArrowEngine
from thresher.tables.column_keys import DRAW, UNIT, WEIGHT, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.engine import LazyFrameEngine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.objects import spelled
from thresher.tables.rows import LazyRows
from thresher.tables.time_zones import FIRST_DAY, LAST_DAY


class PolarsFrameEngine(ArrowEngine):
    """A Polars frame in memory. Its text stays in Polars' own layout, which DuckDB reads and Arrow cannot filter."""

    def __init__(self, frame: Any) -> None:
        def is_object(name: str) -> bool:
            return bool(frame.schema[name] == pl.Object)

        def convert(name: str) -> Any:
            return spelled(frame[name].to_list()) if is_object(name) else _in_place(frame.select(name)).column(0)

        super().__init__(frame.columns, convert, untyped=is_object)

    def _forms(self, table: pa.Table) -> pa.Table:
        counted = _as_frame(table).group_by(table.column_names).len(WEIGHT)  # an expression would take twice as long
        return _in_place(counted.cast({WEIGHT: pl.Int64}))

    def _masked(self, table: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
        return _in_place(_as_frame(table).filter(pl.Series(mask)))


def _as_frame(table: pa.Table) -> Any:
    return pl.from_arrow(table, rechunk=False)


def _in_place(frame: Any) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.newest())


class PolarsEngine(LazyFrameEngine):
    """A `polars.LazyFrame`."""

    name = "Polars"
    described = "a lazy Polars frame"

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self._types = frame.collect_schema()

    def _has_no_type(self, column: str) -> bool:
        return bool(self._types[column] == pl.Null)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures.

        Edge cases: Python objects are refused: Polars compares them by methods of their own, which some lack.
        """
        if self._types[column] == pl.Object:
            raise InvalidSetting(
                "unit",
                f"{column!r} holds Python objects, which a lazy Polars frame cannot tell apart",
                hint="Give the frame itself (collect), or cast the column.",
            )
        return bool(self._types[column].is_nested())

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return self._cleaned(self._select(wanted), wanted)

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit, kept in memory."""
        names = value_names(len(wanted))
        # A random permutation of the rows: within a unit, each of its rows is as likely as the others to come first.
        place = pl.int_range(pl.len(), dtype=pl.Int64).shuffle().alias("r")
        first = [*(pl.col(name).get(pl.col("r").arg_min()) for name in names), pl.col("r").min()]
        drawn = self._of_units(wanted, unit).with_columns(place)

        def run() -> Any:
            kept = drawn.group_by(UNIT).agg(*first).collect()
            if self.kind(unit) != "text":
                return kept
            # A unit may be written in several forms: each has chosen its first row, and the first of those is chosen.
            kept = kept.with_columns(pl.col(UNIT).cast(pl.String))
            if kept.select(_ascii(pl.col(UNIT)).all()).item():
                return kept
            return kept.group_by(_nfc(pl.col(UNIT))).agg(*first)

        return self._cleaned(guarded(self.name, run).lazy().select(names), wanted)

    def pairs(self, question: Question, unit: str, most: int) -> LazyRows:
        """Each unit in each of its buckets, at most `most` of them, in memory."""
        found = guarded(self.name, lambda: self._pairs(question, unit, most))
        return LazyRows(self.name, found.lazy().select(key_names(question)), _collect, form="keys")

    def several(self, wanted: Sequence[str], unit: str, most: int) -> LazyRows:
        """Each unit with its values, at most `most` of them, in memory."""
        values = Values(tuple(wanted))
        found = guarded(self.name, lambda: self._pairs(values, unit, most))
        named = dict(zip(key_names(values), value_names(len(wanted)), strict=True))
        return LazyRows(self.name, found.lazy().rename(named), _collect, form="units")

    def _pairs(self, question: Question, unit: str, most: int) -> Any:
        """Distinct u, k0, k1, …, at most `most` rows of a unit."""
        key = pl.col(UNIT)
        # Each form of a value is cleaned once for a unit instead of once for a row.
        forms = self._of_units(question.columns, unit).unique()
        cleaned = forms.with_columns(
            *self._clean_values(question.columns),
            _nfc(key.cast(pl.String)) if self.kind(unit) == "text" else key,
        )
        found = column_keys.pairs(nw.from_native(cleaned).lazy(), question).to_native().collect(engine="streaming")
        # In a random order of all pairs, the first ones of a unit are a uniform choice among its own.
        shuffled = found.sample(fraction=1.0, shuffle=True)
        return shuffled.filter(pl.int_range(pl.len()).over(UNIT) < most)

    def _of_units(self, wanted: Sequence[str], unit: str) -> Any:
        """The rows that have a unit and a value in all columns."""
        named = renamed(wanted, unit).items()
        tests = [test for name, column in named for test in _held(pl.col(name), self.kind(column))]
        return self._select(wanted, unit).filter(*tests)

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named = renamed(wanted, unit)
        both = named | self._filter.named
        frame = self._frame.select(self._on_clock(column, name).alias(name) for name, column in both.items())
        if not self._filter:
            return frame
        clean = [_clean(pl.col(name), kind).alias(name) for name, kind in self._filter.kinds.items()]
        return self._filter.kept(frame.with_columns(*clean), named)

    def _on_clock(self, column: str, name: str) -> Any:
        """A column; instants are times on the wall clock of the zone from here on, but for units."""
        dtype = self._types[column]
        if not isinstance(dtype, pl.Datetime) or dtype.time_zone is None:
            return _dated(pl.col(column), dtype)
        # A wall clock may be a day ahead of UTC, or a day behind.
        instant = _dated(pl.col(column), dtype, more_days=1)
        if name == UNIT:
            return instant  # where a clock goes back an hour, two instants would become one unit
        return _dated(instant.dt.convert_time_zone(self.time_zone).dt.replace_time_zone(None), dtype)

    def _cleaned(self, frame: Any, wanted: Sequence[str]) -> LazyRows:
        names, kinds = value_names(len(wanted)), self._kinds(wanted)
        clean = self._clean_values(wanted)
        draw = pl.col(names[0]).map_batches(_uniform, return_dtype=pl.Float64, is_elementwise=True).alias(DRAW)
        each_row, weighted = frame, "text" in kinds
        if weighted:
            # Text is cleaned after a first count: each form once instead of each row.
            frame = frame.group_by(names).agg(pl.len().cast(pl.Int64).alias(WEIGHT))
        return LazyRows(
            self.name,
            frame.with_columns(*clean),
            _collect,
            weighted,
            nulls=True,
            drawn=lambda: each_row.with_columns(draw).with_columns(*clean),
        )

    def _clean_values(self, wanted: Sequence[str]) -> list[Any]:
        named = zip(value_names(len(wanted)), self._kinds(wanted), strict=True)
        return [_clean(pl.col(name), kind).alias(name) for name, kind in named]


def _held(column: Any, kind: Kind | None) -> list[Any]:
    """The tests that a row has a value in a column."""
    tests = [column.is_not_null()]
    if kind == "floats":
        tests.append(column.is_not_nan())
    if kind == "text":
        tests.append(_composable(column.cast(pl.String)))
    return tests


def _dated(column: Any, dtype: Any, more_days: int = 0) -> Any:
    """A column of dates or times of the years 1 to 9999, others as nulls: Polars panics at some of them."""
    if dtype == pl.Date:
        a_day = 1
    elif dtype == pl.Datetime and dtype.time_unit != "ns":  # 64 bits of nanoseconds hold the years 1678 to 2262
        a_day = 86_400 * {"ms": 10**3, "us": 10**6}[dtype.time_unit]
    else:
        return column
    first, last = (FIRST_DAY - more_days) * a_day, (LAST_DAY + 1 + more_days) * a_day - 1
    return pl.when(column.to_physical().is_between(first, last)).then(column)


def _clean(column: Any, kind: Kind) -> Any:
    if kind == "text":
        text = column.cast(pl.String)
        return pl.when(_composable(text)).then(_nfc(_without_nul(text)))
    if kind == "floats":
        number = column.cast(pl.Float64)
        return pl.when(number == 0).then(0.0).when(number.is_not_nan()).then(number)
    types: dict[Kind, Any] = {"whole numbers": pl.Int64, "decimals": pl.String, "times": pl.Datetime("us")}
    return column.cast(types[kind]) if kind in types else column


def _composable(text: Any) -> Any:
    """Whether text has no more marks in a row than Thresher normalises."""
    # Most text is short, and is not searched.
    long = pl.when(text.str.len_bytes() >= LEAST_BYTES).then(text)
    return ~_without_nul(long).str.contains(TOO_MANY_MARKS).fill_null(False)


def _nfc(text: Any) -> Any:
    """Text in NFC. Most text is ASCII, which NFC leaves as it is: to normalise it takes longer than to count it."""
    return pl.when(~_ascii(text)).then(text).str.normalize("NFC").fill_null(text)


def _ascii(text: Any) -> Any:
    return text.str.len_bytes() == text.str.len_chars()


def _without_nul(text: Any) -> Any:
    return text.str.replace_all("\x00", "", literal=True)


def _uniform(rows: Any) -> Any:
    """A random number for each row."""
    return pl.Series(np.random.default_rng().random(len(rows)))


def _collect(frame: Any) -> pa.Table:
    return frame.collect(engine="streaming").to_arrow()
