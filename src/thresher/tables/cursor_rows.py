"""Rows of databases that Ibis does not count: a driver fetches them in batches, into the embedded DuckDB.

ADBC drivers give Arrow batches with the database's own types. Other drivers give Python objects, which have no public
type: they are text, as in a CSV file, unless the database declares the types of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from thresher.questions.spelling import as_text
from thresher.tables.database_errors import told_of_rows
from thresher.tables.loaded_engine import RowSource
from thresher.tables.objects import spelled
from thresher.tables.sql_text import quoted

_ROWS = 1 << 16


def subquery(query: str, columns: str = "*", condition: str = "") -> str:
    """The query's rows as a subquery of ours. Databases take nothing there that changes data."""
    return f"SELECT {columns} FROM (\n{query}\n) thresher_rows{condition}"  # noqa: S608 - one SELECT, checked before


def no_rows(query: str) -> str:
    """A query that has the columns and no row."""
    return subquery(query, condition=" WHERE 1 = 0")


class ArrowCursorRows(RowSource):
    """A query of an ADBC connection."""

    def __init__(self, connection: Any, query: str, where: object, quote: str) -> None:
        self._connection, self._query, self._where, self._quote = connection, query, where, quote
        with closing(connection.cursor()) as cursor:
            cursor.execute(no_rows(query))
            self.schema = cursor.fetch_record_batch().schema

    def batches(self, places: Sequence[int]) -> Generator[pa.Table]:
        """These columns, as the driver reads them."""
        columns = ", ".join(quoted(self.schema.names[place], self._quote) for place in places)
        with closing(self._connection.cursor()) as cursor:
            told_of_rows(lambda: cursor.execute(subquery(self._query, columns)), self._where)
            reader = told_of_rows(cursor.fetch_record_batch, self._where)
            while (batch := told_of_rows(lambda: next(reader, None), self._where)) is not None:
                yield pa.Table.from_batches([batch])


class CursorRows(RowSource):
    """A query of a DBAPI connection: its columns are text, each value spelled by itself.

    `select` is what is selected of the query's rows, "*" or an expression for each column, and `spell` how what comes
    is spelled.
    """

    def __init__(
        self,
        cursor: Callable[[], Any],
        query: str,
        where: object,
        names: Sequence[str],
        select: Callable[[str], str] | None = None,
        spell: Callable[[Any], str | None] = as_text,
    ) -> None:
        self._cursor, self._query, self._where, self._select, self._spell = cursor, query, where, select, spell
        self.schema = pa.schema([(name, pa.large_string()) for name in names])

    def batches(self, places: Sequence[int]) -> Generator[pa.Table]:
        """These columns, some thousand rows at a time."""
        names, chosen = [self.schema.names[place] for place in places], list(places)
        query = subquery(self._query)
        if self._select is not None:
            query, chosen = subquery(self._query, ", ".join(map(self._select, names))), list(range(len(names)))
        with closing(self._cursor()) as cursor:
            told_of_rows(lambda: cursor.execute(query), self._where)
            while rows := told_of_rows(lambda: cursor.fetchmany(_ROWS), self._where):
                columns = list(zip(*map(values_of, rows), strict=True))
                yield pa.table([spelled(columns[place], self._spell) for place in chosen], names)


def values_of(row: Any) -> Any:
    """The values of a row, which some drivers give as a mapping."""
    return row.values() if isinstance(row, Mapping) else row
