"""Values that one person alone may hold: whatever a type, a format or an engine can be tripped up by.

`values()` is a hypothesis strategy of Python values of every kind; `texts()` of text alone; `EXAMPLES` and
`TEXT_EXAMPLES` are those that a short run must not miss. `ABSENT` stands for a value that is not there at all, where a
format can say so. A stand-in that is drawn must go through `made`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

LONG = 10_000_000
"""Characters of the longest text, which is drawn rarely."""


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""The unit has no such field; in a format that needs one, an empty field."""


class Raises:
    """An object that fails whatever is asked of it."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("canary")

    __str__ = __repr__ = __float__ = __int__ = __len__ = __iter__ = __hash__ = __eq__ = __bool__ = __index__ = _fail


class StandIn:
    """Stands for a value that cannot be printed or should not be, until `made` makes it."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self._name, self.make = name, make

    def __repr__(self) -> str:
        return self._name


RAISES = StandIn("<an object that raises>", Raises)
LONG_TEXT = StandIn(f"<text of {LONG:,} characters>", lambda: "é" * (LONG // 2) + "\n,\t" * (LONG // 6))


def made(value: Any) -> Any:
    """The value itself, where a stand-in was drawn."""
    return value.make() if isinstance(value, StandIn) else value


SPELLINGS = [
    *("HIV+", "PaRiS", "PARIS", "paris ", " paris", "pa\u0301ris", "рaris", "ｐａｒｉｓ", "par\u00adis", "paris\x00"),
    *(
        "e\u0301",
        "\u212b",
        "\ufb01",
        "ß",
        "ẞ",
        "İ",
        "ı",
        "\u0301",
        "\u200d",
        "\u202efr",
        "🤦🏼‍♂️",
        "\U000e0001",
        "\ufffe",
    ),
    *("", " ", "\x00", "\x07", "\x1b[31m", "\ufeff", "NULL", "null", "None", "NaN", "nan", "NA", "N/A", "\\N", "-"),
]
NUMBERS = [
    *("7.5", "7,5", "1_000", "0x10", "1e400", "-1e400", "1e-400", "inf", "-inf", "infinity", "+7", "007", "7.", ".5"),
    *("1e5", "１２", "٣", "9223372036854775808", str(2**70), "-0.0", "0.1e1", " 30 ", "30\n", "½", "1/2", "$30", "30%"),
]
MOMENTS = [
    *("06/13/2024", "13.06.2024", "2024-6-13", "20240613", "2024-W24-4", "2024-165", "2024-02-30", "0000-01-01"),
    *("2024-06-13T20:00:00-05:00", "2024-06-13 20:00", "2024-06-13T24:00", "99999-01-01", "-0044-03-15", "infinity"),
    *("epoch", "now", "today", "2024-06-13T20:00:00Z", "9999-12-31T23:59:59.999999999-14:00", "0001-01-01T00:00+14:00"),
]
TRUTHS = ["true", "TRUE", "t", "yes", "1", "0", "False", "on"]
FORMATS = [
    *('"', '""', "'", '"x', 'x"', 'a"b', '"a","b"', ",", ";", "\t", "|", ",,,,,,", "\n", "\r", "\r\n", "a\nb", "a\rb"),
    *(
        "x\nfr,30,2024-01-01",
        '"\nfr,30\nfr,30\n"',
        "#",
        "\\",
        '\\"',
        "{",
        "[1,2]",
        '{"a": 1}',
        "]}",
        "=1+1",
        "--",
        ";--",
    ),
    *("'; DROP TABLE people", "%s", "{0}", "$1", "\u2028", "\u0085", "\x0b", "\x1c", "\x1e"),
]
TEXT_EXAMPLES = [*SPELLINGS, *NUMBERS, *MOMENTS, *TRUTHS, *FORMATS]

EXAMPLES: list[Any] = [
    *(None, ABSENT, True, False, 0, 7, -1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 2**70, 10**5000),
    *(0.0, -0.0, 7.5, 1e308, 5e-324, math.inf, -math.inf, math.nan, 1e22, 0.1 + 0.2),
    *(Decimal("7.50"), Decimal("1E+400"), Decimal("NaN"), Decimal("sNaN"), Fraction(1, 3), 10**400 * Fraction(1), 1j),
    *(dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 6, 13), dt.datetime(2024, 6, 13, 20)),
    *(dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.timezone(dt.timedelta(hours=-14))), dt.time(1), dt.timedelta(1)),
    *(b"\xff\xfe", b"text", bytearray(b"x"), [1], [], (1, 2), {"a": {"b": [1]}}, {}, {1}, object(), RAISES, int, len),
    *("\ud800", "a\udfffb", *TEXT_EXAMPLES),
]


def texts(*, surrogates: bool = False, long: bool = True) -> st.SearchStrategy[Any]:
    """Text that nobody else holds: known trouble, any characters, rarely ten megabytes."""
    excluded = [] if surrogates else ["Cs"]
    return st.one_of(
        st.sampled_from(TEXT_EXAMPLES),
        st.text(st.characters(exclude_categories=excluded), max_size=30),  # type: ignore[arg-type]
        st.text("ab ,;\t|\"'\n\r\\{}[]0123456789.-+eETZ:é\u0301\x00", max_size=30),
        *([st.just(LONG_TEXT)] if long else []),
    )


def values(*, long: bool = True) -> st.SearchStrategy[Any]:
    """Anything at all."""
    return st.one_of(
        st.sampled_from(EXAMPLES),
        texts(surrogates=True, long=long),
        st.integers(),
        st.floats(),
        st.decimals(),
        st.dates(),
        st.datetimes(timezones=st.none() | st.timezones()),
        st.binary(max_size=20),
        json_values(),
    )


def json_values() -> st.SearchStrategy[Any]:
    """What JSON can hold, nested."""
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
        max_leaves=5,
    )
