"""What databases behind Ibis know about text and instants, in functions of their own SQL.

A *form* is what tells stored texts apart: the bytes of their UTF-8, as bytes or as hexadecimal digits, which no
collation applies to. Two forms may be the same text in NFC. A database that has a normaliser makes text of forms
itself. For the others three things are known: the form, in which everything that can become ASCII is ASCII already;
whether a text is ASCII, which then has no other form; and that all else comes here to be normalised.
"""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.datatypes as dt

from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.tables import ibis_functions as functions
from thresher.tables.ibis_functions import called
from thresher.tables.time_zones import shown_instants

_INSTANT = dt.Timestamp(timezone="UTC")


class Database:
    """A database of which Thresher knows nothing: its text and its instants are read here, row by row."""

    groups_text: bool = False
    """Whether `form` and `is_ascii` are known."""
    normalises: bool = False
    """Whether `form` and `normal` are known."""
    has_nan: bool = True
    draws_again: bool = False
    """Whether it draws a random number again wherever it inlines a subquery."""
    read_here: frozenset[str] = frozenset()
    """Kinds of columns that are always read here, because Ibis has no exact SQL for questions about them."""

    def form(self, text: Any) -> Any:
        """The form of a value; NUL, which values do not have, is removed where the database does not normalise."""
        raise NotImplementedError

    def unit_form(self, text: Any) -> Any:
        """The form of a text that names a unit, where the database does not normalise; NUL stays."""
        raise NotImplementedError

    def unit_digest(self, form: Any) -> Any:
        """What tells units apart by their forms; shorter than these where a database sorts by their first bytes."""
        return form

    def is_ascii(self, text: Any) -> Any:
        """Whether a stored text is ASCII in its form; then no other form is the same text."""
        raise NotImplementedError

    def is_composable(self, text: Any) -> Any:
        """Whether a stored text surely has a value; asked where the database does not normalise."""
        raise NotImplementedError

    def normal(self, form: Any) -> Any:
        """The text of a form in NFC and without NUL, compared by its bytes; null where it is no value."""
        raise NotImplementedError

    def unit_key(self, text: Any) -> Any:
        """What tells units apart, where the database normalises: the bytes of a text in NFC."""
        raise NotImplementedError

    def digits(self, text: str) -> str:
        """The form of a text of ours, where the database does not normalise."""
        return text.encode().hex().upper()

    def decimal_tests(self, number: Any) -> list[Any]:
        """The tests that a double can hold a decimal, where a database would stop at another."""
        return []

    def day_tests(self, value: Any) -> list[Any]:
        """The tests that a date or time is a day of the calendar, where a database keeps others."""
        return []

    def on_clock(self, instant: Any, time_zone: str) -> Any | None:
        """An instant on a zone's wall clock, whatever zone the session has; None where it must be read here.

        An instant whose wall clock the database cannot write is null: one person's must not stop the count.
        """
        return None

    def microseconds(self, instant: Any) -> Any | None:
        """An instant in whole microseconds since 1970, whatever zone the session has; None where that is unknown.

        An instant that the database cannot count so is null: one person's must not stop the count.
        """
        return None

    def brought(self, table: Any) -> Any:
        """A table in types that Ibis can bring here."""
        return table


class Postgres(Database):
    """PostgreSQL 13 and newer, with UTF-8 as the encoding of the database."""

    normalises = True

    def form(self, text: Any) -> Any:
        """The bytes of its UTF-8."""
        return functions.octets_on_postgresql(text)

    def normal(self, form: Any) -> Any:
        """Through the database's own normaliser."""
        return functions.text_on_postgresql(form)

    def unit_key(self, text: Any) -> Any:
        """Bytes, which no collation applies to."""
        return functions.normal_on_postgresql(self.form(text))

    def decimal_tests(self, number: Any) -> list[Any]:
        """PostgreSQL's decimals are of any size."""
        return [functions.is_a_double_on_postgresql(number)]

    def on_clock(self, instant: Any, time_zone: str) -> Any:
        """Through the database's own conversion."""
        return functions.on_clock_on_postgresql(instant, time_zone)


class Sqlite(Database):
    """SQLite, which calls Python's normaliser: it runs in this process."""

    normalises = True
    has_nan = False
    draws_again = True
    read_here = frozenset({"dates", "times"})  # Ibis has weeks for the newest versions alone

    def form(self, text: Any) -> Any:
        """The bytes of its UTF-8."""
        return functions.octets_on_sqlite(text)

    def normal(self, form: Any) -> Any:
        """Through the database's own normaliser."""
        return functions.text_on_sqlite(form)

    def unit_key(self, text: Any) -> Any:
        """Bytes, which no collation applies to."""
        return functions.normal_on_sqlite(text.cast("binary"))

    def on_clock(self, instant: Any, time_zone: str) -> Any:
        """Through the database's own conversion."""
        return functions.read_on_sqlite(instant, time_zone)


class BigQuery(Database):
    """BigQuery. Text is compared by its code points, unless a column has a collation, which bytes do not have."""

    normalises = True

    def form(self, text: Any) -> Any:
        """The bytes of its UTF-8."""
        return text.cast("binary")

    def normal(self, form: Any) -> Any:
        """Through the database's own normaliser."""
        return self._composed(called("replace", "binary", form, ibis.literal(b"\x00"), ibis.literal(b"")))

    def unit_key(self, text: Any) -> Any:
        """Bytes, which no collation applies to."""
        return self._composed(self.form(text)).cast("binary")

    def _composed(self, octets: Any) -> Any:
        text = called("safe_convert_bytes_to_string", "string", octets)
        return _where_composable(text, octets, called("normalize", "string", text))

    def on_clock(self, instant: Any, time_zone: str) -> Any:
        """Through the database's own conversion."""
        shown = called("unix_micros", "int64", instant).between(*shown_instants(time_zone))
        return ibis.cases((shown, called("datetime", "timestamp", instant, time_zone)))


class Trino(Database):
    """Trino and Athena. Text is compared by its code points."""

    normalises = True

    def form(self, text: Any) -> Any:
        """The bytes of its UTF-8."""
        return called("to_utf8", "binary", text)

    def normal(self, form: Any) -> Any:
        """Through the database's own normaliser."""
        text = called("from_utf8", "string", form)
        return self._composed(called("replace", "string", text, called("chr", "string", ibis.literal(0)), ""), form)

    def unit_key(self, text: Any) -> Any:
        """Bytes, which no collation applies to."""
        return self.form(self._composed(text, self.form(text)))

    def _composed(self, text: Any, octets: Any) -> Any:
        return _where_composable(text, octets, called("normalize", "string", text))

    def on_clock(self, instant: Any, time_zone: str) -> Any:
        """Through the database's own conversion."""
        return called("at_timezone", _INSTANT, instant, time_zone).cast(dt.Timestamp(scale=6))


class SqlServer(Database):
    """SQL Server, whose texts have a collation always; they are compared here."""

    has_nan = False


def _where_composable(text: Any, octets: Any, value: Any) -> Any:
    """A value where a text has no more marks in a row than Thresher normalises, else null. Most text is short."""
    short = called("length", "int64", octets) < LEAST_BYTES
    return ibis.cases((short | ~text.re_search(TOO_MANY_MARKS), value))
