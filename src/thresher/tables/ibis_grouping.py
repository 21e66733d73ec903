"""Databases behind Ibis that do not normalise text: they group it by the bytes of its forms."""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.datatypes as dt

from thresher.questions.normal_form import MOST_MARKS, NORMALISED_TO_ASCII
from thresher.tables import ibis_functions as functions
from thresher.tables.ibis_database import Database
from thresher.tables.ibis_functions import called
from thresher.tables.time_zones import INSTANTS, shown_instants

_MOST = (1 << 63) - 1001  # of ticks; at the last nanoseconds, whole microseconds are no nanoseconds of 64 bits
_TEXT = dt.String(nullable=False)  # Ibis leaves out a cast to the type that a column has


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
