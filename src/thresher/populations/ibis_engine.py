"""Ibis tables: counted by the database behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from thresher.errors import InvalidSetting
from thresher.populations.columns import value_names
from thresher.populations.duckdb_engine import counted_once
from thresher.populations.guarding import guarded
from thresher.populations.kinds import Kind, kind_of_narwhals, not_read
from thresher.populations.rows import LazyRows

if TYPE_CHECKING:
    import pyarrow as pa


class IbisEngine:
    """An Ibis table.

    Edge cases: text is counted on the DuckDB backend only; other databases have no normaliser that Ibis can call.
    """

    name = "Ibis"

    def __init__(self, table: Any) -> None:
        import narwhals as nw

        self._table = table
        self._schema = guarded(self.name, lambda: nw.from_native(table).collect_schema())

    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._schema)

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the table's schema."""
        dtype = self._table.schema()[column]
        if dtype.is_null():
            return "nothing"
        return "text" if dtype.is_uuid() else kind_of_narwhals(self._schema[column])

    def untyped(self, column: str) -> bool:
        """The schema is public."""
        return False

    def reading(self, kinds: Mapping[str, Kind]) -> NoReturn:
        """Not here: the caller can cast where the data is."""
        raise not_read(kinds, "an Ibis table")

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return guarded(self.name, lambda: self._cleaned(self._select(wanted), wanted))

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit.

        Chosen values are counted at once and their counts kept in memory, since many databases refuse new tables.
        """
        import ibis

        names = value_names(len(wanted))

        def run() -> LazyRows:
            drawn = self._held(self._select(wanted, unit), [*wanted, unit]).mutate(r=ibis.random())
            first = {name: drawn[name].argmin(drawn.r) for name in names}
            one_each = drawn.group_by("u").aggregate(**first).drop("u")
            return counted_once(self._cleaned(one_each, wanted), wanted)

        return guarded(self.name, run)

    def close(self) -> None:
        """Nothing is kept open."""

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named = dict(zip(value_names(len(wanted)), wanted, strict=True))
        if unit is not None:
            named["u"] = unit
        return self._table.select(**{new: self._table[old] for new, old in named.items()})

    def _cleaned(self, table: Any, wanted: Sequence[str]) -> LazyRows:
        kinds = {name: self.kind(column) for name, column in zip(value_names(len(wanted)), wanted, strict=True)}
        if "text" in kinds.values() and self._table.get_backend().name != "duckdb":
            raise InvalidSetting(
                "data",
                "holds text in a database that Thresher cannot make normalise it",
                hint="Give the column as a data frame, for example table.to_polars().",
            )
        held = self._held(table, wanted)
        return LazyRows(
            self.name, held.select(**{name: _clean(held[name], kind) for name, kind in kinds.items()}), _collect
        )

    def _held(self, table: Any, columns: Sequence[str]) -> Any:
        """The rows that have a value in all columns of a table, which hold what these columns do."""
        tests = [table[name].notnull() for name in table.columns]
        for name, column in zip(table.columns, columns, strict=True):
            if self.kind(column) == "floats":
                tests.append(~table[name].isnan())
        return table.filter(*tests)


def _clean(column: Any, kind: Kind | None) -> Any:
    import ibis

    if kind == "text":
        return _normal(column.cast("string"))
    if kind == "whole numbers":
        return column.cast("int64")
    if kind == "floats":
        number = column.cast("float64")
        return ibis.cases((number == 0, 0.0), else_=number)
    if kind == "decimals":
        return column.cast("string")
    if kind == "times":
        return column.cast("timestamp")
    return column


def _normal(text: Any) -> Any:
    """NFC without NUL, by DuckDB's own functions. NUL goes first: nfc_normalize stops at one."""
    import ibis

    def nfc_normalize(text: str) -> str:
        raise NotImplementedError

    def chr(code: int) -> str:
        raise NotImplementedError

    builtin = ibis.udf.scalar.builtin  # reads names and types; the bodies never run
    return builtin(nfc_normalize)(text.replace(builtin(chr)(0), ""))


def _collect(table: Any) -> pa.Table:
    return table.to_pyarrow()
