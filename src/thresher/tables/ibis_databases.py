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

from thresher.errors import InvalidSetting
from thresher.questions.normal_form import LEAST_BYTES, MOST_MARKS, NORMALISED_TO_ASCII, TOO_MANY_MARKS
from thresher.tables import ibis_functions as functions
from thresher.tables.ibis_functions import called
from thresher.tables.text_encodings import CHARACTER_SETS, check_mysql, check_postgresql, check_sqlite
from thresher.tables.time_zones import INSTANTS, shown_instants


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


class _Grouping(Database):
    """A database that cannot normalise text, and groups its forms."""

    groups_text = True

    def form(self, text: Any) -> Any:
        """The digits of its bytes, without NUL and without characters that NFC makes ASCII."""
        return self._digits(self._without_nul(self._one_form(self._by_bytes(text))))

    def unit_form(self, text: Any) -> Any:
        """As `form`, with NUL."""
        return self._digits(self._one_form(self._by_bytes(text)))

    def is_ascii(self, text: Any) -> Any:
        """As many bytes in its form as characters."""
        return self._characters(text) == called("octet_length", "int64", self._one_form(self._by_bytes(text)))

    def is_composable(self, text: Any) -> Any:
        """Whether a stored text surely has a value: it is ASCII, or too short for too many marks."""
        return self.is_ascii(text) | (self._characters(text) <= MOST_MARKS)

    def _characters(self, text: Any) -> Any:
        """The number of characters."""
        return self._by_bytes(text).length()

    def _by_bytes(self, text: Any) -> Any:
        """The same text, without the collation that it has."""
        return text

    def _one_form(self, text: Any) -> Any:
        """The same text with the few characters replaced that NFC makes ASCII."""
        for character, normal in NORMALISED_TO_ASCII.items():
            text = text.replace(self._octets(character.encode().hex()), normal)
        return text

    def _without_nul(self, text: Any) -> Any:
        return text.replace(self._octets("00"), "")

    def _octets(self, digits: str) -> Any:
        """The text of these bytes, which is never written in the SQL itself: some parsers stop at NUL."""
        return bytes.fromhex(digits).decode() if digits != "00" else called("chr", "string", ibis.literal(0))

    def _digits(self, text: Any) -> Any:
        """The bytes of a text in hexadecimal digits."""
        return called("hex", "string", text)


class DataFusion(_Grouping):
    """DataFusion, whose texts are compared by their bytes."""

    def _octets(self, digits: str) -> Any:
        return called("decode", "binary", digits, "hex").cast("string")

    def _digits(self, text: Any) -> Any:
        return called("encode", "string", text.cast("binary"), "hex")

    def digits(self, text: str) -> str:
        """In the letters that the database uses."""
        return super().digits(text).lower()

    def microseconds(self, instant: Any) -> Any:
        """Through the database's own conversion."""
        cut = called("to_timestamp_micros", "timestamp(6)", instant).cast("int64")
        if (instant.type().scale or 0) > 6:  # it cuts towards 1970, and times are cut down
            cut -= ibis.cases((called("arrow_cast", "int64", instant, "Int64") % 1000 < 0, 1), else_=0)
        return functions.in_calendar(instant, cut)


class ClickHouse(_Grouping):
    """ClickHouse, whose texts are bytes; those of a fixed length are filled with NUL."""

    # Ibis' day of a time has 16 bits there: days before 1970 become days after 2100.
    read_here = frozenset({"dates", "times"})

    def _by_bytes(self, text: Any) -> Any:
        return called("toString", "string", text)  # of enumerations too, which Ibis takes for text

    def is_ascii(self, text: Any) -> Any:
        """As many bytes as characters, in valid UTF-8."""
        return super().is_ascii(text) & self._is_text(text)

    def is_composable(self, text: Any) -> Any:
        """Whether a stored text surely has a value; ClickHouse keeps any bytes."""
        return super().is_composable(text) & self._is_text(text)

    def _is_text(self, text: Any) -> Any:
        return called("isValidUTF8", "int64", self._by_bytes(text)) == 1

    def _characters(self, text: Any) -> Any:
        return called("lengthUTF8", "int64", self._by_bytes(text))

    def day_tests(self, value: Any) -> list[Any]:
        """The year of a time after 9999 is 9999 there, and Arrow stops at such a time."""
        first, last = shown_instants("UTC")
        return [self._are_between(value, first, last)] if value.type().is_timestamp() else []

    def microseconds(self, instant: Any) -> Any:
        """From the stored number: the database's own conversions stop at a time that is too far."""
        ticks, a_tick = called("reinterpretAsInt64", "int64", instant), 10 ** (6 - (instant.type().scale or 0))
        if a_tick < 1:
            # Down to whole microseconds, also before 1970.
            in_one = ibis.literal(round(1 / a_tick))
            cut = called("intDiv", "int64", ticks, in_one) - ibis.cases((ticks % in_one < 0, 1), else_=0)
        else:
            cut = ticks * a_tick
        return ibis.cases((self._are_between(instant, *INSTANTS), cut))

    def _are_between(self, time: Any, first: int, last: int) -> Any:
        """Whether a time is between two, in microseconds since 1970."""
        scale = time.type().scale or 0
        ends = (microseconds * 10**scale // 1_000_000 for microseconds in (first, last))
        return called("reinterpretAsInt64", "int64", time).between(*(max(-_MOST, min(_MOST, end)) for end in ends))

    def brought(self, table: Any) -> Any:
        """Its tests are small numbers, which Ibis takes for no booleans."""
        tests = [name for name, dtype in table.schema().items() if dtype.is_boolean()]
        return table.mutate(**{name: called("toBool", "boolean", table[name]) for name in tests}) if tests else table


class MySql(_Grouping):
    """MySQL and MariaDB, on a connection whose character set is utf8mb4.

    Their collations take letters of both cases for one, and ignore blanks at the end of a text.
    """

    has_nan = False
    draws_again = True
    # Ibis writes weeks and times there in ways that lose their type.
    read_here = frozenset({"dates", "times"})

    def unit_digest(self, form: Any) -> Any:
        """They sort by the first 1,024 bytes (max_sort_length), also to number the rows of a unit."""
        return called("sha2", "string", form, ibis.literal(256))

    def day_tests(self, value: Any) -> list[Any]:
        """They have days such as 2024-00-00, 2024-01-00 and, under ALLOW_INVALID_DATES, 2024-02-31."""
        last = called("last_day", "date", value)
        return [(value.month() >= 1) & value.day().between(1, last.day())]

    def _characters(self, text: Any) -> Any:
        return text.cast(_TEXT).length()

    def _by_bytes(self, text: Any) -> Any:
        # With bytes beside it, text is bytes. Through hexadecimal digits, MariaDB makes nothing of a LONGTEXT.
        return called("concat", "string", text.cast(_TEXT), self._octets(""))

    def _octets(self, digits: Any) -> Any:
        return called("unhex", "string", digits)

    def microseconds(self, instant: Any) -> Any:
        """Through the database's own conversion."""
        # Of a column, the stored number: no wall clock is read. It has as many digits as the column.
        return (called("unix_timestamp", "decimal(26, 6)", instant) * 1_000_000).cast("int64")


class Snowflake(_Grouping):
    """Snowflake, where an empty collation compares text by its bytes."""

    def _by_bytes(self, text: Any) -> Any:
        return called("collate", "string", text, "")

    def microseconds(self, instant: Any) -> Any:
        """Through the database's own conversion."""
        return called("date_part", "int64", "epoch_microsecond", instant)


class Databricks(_Grouping):
    """Databricks, where text that is made from bytes has no collation."""

    def _by_bytes(self, text: Any) -> Any:
        return called("decode", "string", text.cast("binary"), "utf-8")

    def microseconds(self, instant: Any) -> Any:
        """Through the database's own conversion."""
        return called("unix_micros", "int64", instant)


class Redshift(_Grouping):
    """Redshift, through Ibis' PostgreSQL. Its texts hold no NUL.

    Under the collation of a database, `replace` may find letters of both cases. So texts stay as they are, and those
    with a character that has another form count as if they were not ASCII.
    """

    def is_ascii(self, text: Any) -> Any:
        """As many bytes as characters."""
        ascii = super().is_ascii(text)
        for character in NORMALISED_TO_ASCII.values():
            ascii &= ~text.contains(character)
        return ascii

    def _one_form(self, text: Any) -> Any:
        return text

    def _without_nul(self, text: Any) -> Any:
        return text

    def _digits(self, text: Any) -> Any:
        return called("from_varbyte", "string", called("to_varbyte", "binary", text, "utf8"), "hex")

    def digits(self, text: str) -> str:
        """In the letters that the database uses."""
        return super().digits(text).lower()

    def on_clock(self, instant: Any, time_zone: str) -> Any:
        """Through the database's own conversion."""
        return functions.on_clock_on_postgresql(instant, time_zone)


class SqlServer(Database):
    """SQL Server, whose texts have a collation always; they are compared here."""

    has_nan = False


_MOST = (1 << 63) - 1001  # of ticks; at the last nanoseconds, whole microseconds are no nanoseconds of 64 bits
_TEXT = dt.String(nullable=False)  # Ibis leaves out a cast to the type that a column has
_INSTANT = dt.Timestamp(timezone="UTC")

DATABASES: dict[str, Database] = {
    "postgres": Postgres(),
    "sqlite": Sqlite(),
    "bigquery": BigQuery(),
    "trino": Trino(),
    "athena": Trino(),
    "datafusion": DataFusion(),
    "clickhouse": ClickHouse(),
    "mysql": MySql(),
    "snowflake": Snowflake(),
    "databricks": Databricks(),
    "mssql": SqlServer(),
}
"""By the names of Ibis' backends."""


def database_of(backend: Any) -> Database:
    """What is known of the database that a backend is connected to.

    Guarantee: asks for its version and settings, and for nothing of its tables.
    Raises: `InvalidSetting` where one person's text could stop a query, or come here as another text.
    """
    if backend.name == "postgres":
        (version,) = _settings(backend, "SELECT version()")
        if "Redshift" in version:
            return Redshift()
        setting = backend.con.info.parameter_status
        encoding = setting("server_encoding")
        check_postgresql(encoding, setting("client_encoding"))
        if setting("standard_conforming_strings") != "on":
            raise InvalidSetting(
                "data", "is a connection on which standard_conforming_strings is off", hint="Set it to on."
            )
        known = version.startswith("PostgreSQL ") and int(version.split()[1].split(".")[0]) >= 13
        return DATABASES["postgres"] if known and encoding == "UTF8" else Database()
    if backend.name == "sqlite":
        check_sqlite(*backend.con.execute("PRAGMA encoding").fetchone())
    if backend.name == "mysql":
        check_mysql(_settings(backend, CHARACTER_SETS))
    return DATABASES.get(backend.name, Database())


def brought(table: Any) -> Any:
    """The same table in types that Ibis can bring here from its database."""
    return DATABASES.get(table.get_backend().name, Database()).brought(table)


def _settings(backend: Any, query: str) -> list[str]:
    with backend.con.cursor() as cursor:
        cursor.execute(query)
        return [str(setting) for setting in cursor.fetchone()]


def _where_composable(text: Any, octets: Any, value: Any) -> Any:
    """A value where a text has no more marks in a row than Thresher normalises, else null. Most text is short."""
    short = called("length", "int64", octets) < LEAST_BYTES
    return ibis.cases((short | ~text.re_search(TOO_MANY_MARKS), value))
