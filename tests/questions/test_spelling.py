"""How devices write whole values, and what they read as a number or a date: the same in every language."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.questions import Among, Bins, Cells, Dates, Values
from thresher.questions.doubles import double_text
from thresher.questions.normal_form import normal
from thresher.questions.question import as_double, json_bytes
from thresher.questions.spelling import as_text, written_day

# Each was compared with what Node writes: String(number).
DOUBLES = [
    (1.0, "1"), (-0.0, "0"), (0.0, "0"), (-1.5, "-1.5"), (1e21, "1e+21"), (1e-7, "1e-7"), (1e-6, "0.000001"),
    (-1.25e-6, "-0.00000125"), (1e-5, "0.00001"), (0.0001, "0.0001"), (1e15, "1000000000000000"),
    (1e16, "10000000000000000"), (-1e20, "-100000000000000000000"), (123456789012345680000.0, "123456789012345680000"),
    (999999999999999900000.0, "999999999999999900000"), (1.5e300, "1.5e+300"), (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"), (-1.2345e-9, "-1.2345e-9"), (2.0**53, "9007199254740992"),
    (0.1 + 0.2, "0.30000000000000004"), (100.0, "100"), (math.inf, "Infinity"), (-math.inf, "-Infinity"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "text"), DOUBLES)
def test_doubles_are_written_as_ecmascript_writes_them(number: float, text: str) -> None:
    assert double_text(number) == as_text(number) == text
    assert json_bytes(number) == len(text)


@given(st.floats(allow_nan=False))
def test_a_double_is_read_back_from_its_text(number: float) -> None:
    text = double_text(number)
    assert float(text) == number
    if math.isfinite(number) and number:
        exponent = Decimal(repr(number)).adjusted()
        assert ("e" in text) == (not 1e-6 <= abs(number) < 1e21)
        assert len(text) <= 25
        assert "e" not in text or int(text.partition("e")[2]) == exponent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**53 + 1, "9007199254740993"), (10**400, "1" + "0" * 400), (-(10**21), "-1" + "0" * 21),
        (np.float32(0.1), "0.10000000149011612"), (np.float64(-0.0), "0"), (np.int8(-3), "-3"), (np.False_, "false"),
        (Decimal("2.50"), "2.5"), (Decimal("NaN"), None), (Decimal("sNaN"), None),
        (Decimal("-Infinity"), "-Infinity"), (Decimal("-0.00"), "0"),
        # Beyond what a double holds, so that two of them stay two.
        (Decimal("0.1000000000000000000001"), "0.1000000000000000000001"), (Decimal("1e400"), "1" + "0" * 400),
        (Decimal("12345678901234567.890"), "12345678901234567.89"), (Decimal(10**18 + 1), "1000000000000000001"),
        (Decimal("-1.5e-7"), "-1.5e-7"), (Decimal("1.00e-6"), "0.000001"), (Decimal(1).scaleb(4299), "1" + "0" * 4299),
        (Decimal(1).scaleb(4300), None), (Decimal("1e999999"), None), (Decimal("1e-999999"), "1e-999999"),
        (Fraction(1, 3), "0.3333333333333333"), (Fraction(10**18 + 1), "1000000000000000001"),
        (Fraction(-(10**400), 3), "-Infinity"), (math.nan, None),
        (dt.date(1, 1, 1), "0001-01-01"), (dt.datetime(2024, 2, 29, 23, 59, 59), "2024-02-29T23:59:59"),
        (dt.datetime(999, 1, 2, 3, 4, 5, 500_000), "0999-01-02T03:04:05.500000"),
        (pd.Timestamp("2024-02-29T12:00:00.123456789"), "2024-02-29T12:00:00.123456"), (pd.NaT, None),
        (np.datetime64("12000-01-01", "s"), None), (pd.Timestamp(np.datetime64("12000-01-01", "s")), None),
        ([1], None), ({}, None), (1j, None), (b"1", None),
    ],
)  # fmt: skip
def test_whole_values(value: Any, text: str | None) -> None:
    assert as_text(value) == text
    assert Values(("x",)).device_bucket(value) == text


def test_whole_numbers_have_at_most_4300_digits() -> None:
    assert as_text(10**4300 - 1) == "9" * 4300
    assert as_text(1 - 10**4300) == "-" + "9" * 4300
    assert as_text(10**4300) is as_text(-(10**4300)) is None


def test_a_device_writes_the_wall_clock_and_a_table_keeps_the_offset() -> None:
    time = dt.datetime(2024, 2, 29, 23, 59, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert Values(("x",)).device_bucket(time) == "2024-02-29T23:59:00"
    assert as_text(time) == "2024-02-29T23:59:00+02:00"


def test_zero_is_one_value() -> None:
    for zero in (0, 0.0, -0.0, "0", Decimal("-0.00")):
        assert Among("x", (0.0,)).holds(zero)  # type: ignore[arg-type]
        assert Values(("x",)).device_bucket(zero) == "0"


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "é\ud83d\x00\ude00", "\ud83d\ude00"])
def test_text_with_a_lone_surrogate_is_no_value(text: str) -> None:
    assert normal(text) is None
    assert as_text(text) is None
    assert normal(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) is not None


def test_numbers_beyond_doubles_are_infinite() -> None:
    bins, cells = Bins("x", (0, 1, 1e308)), Cells("x", 0, 1, 4)
    for huge in (10**400, Decimal("1e400"), Fraction(10**400, 3), math.inf):
        assert (as_double(huge), as_double(-huge)) == (math.inf, -math.inf)
        assert bins.bucket(huge) is bins.bucket(-huge) is None
        assert (cells.bucket(huge), cells.bucket(-huge)) == (3, 0)


@pytest.mark.parametrize("value", [1j, np.complex128(1), np.array(5.0), np.array([5.0]), pd.NA])
def test_what_is_only_like_a_number_is_none(value: Any) -> None:
    assert as_double(value) is None


class Day(dt.date):
    """A class of an app."""


class Moment(dt.datetime):
    """A class of an app, with another day."""

    def date(self) -> Day:
        return Day(1, 1, 1)


def test_days_of_an_apps_own_classes_are_days() -> None:
    for value in (Day(2024, 2, 29), Moment(2024, 2, 29, 12), pd.Timestamp("2024-02-29T23:00+02:00")):
        day = Dates("x", "day").device_bucket(value)
        assert (type(day), day) == (dt.date, dt.date(2024, 2, 29))
    assert written_day(pd.NaT) is None


@pytest.mark.parametrize("digits", [1, 9, 15])
@given(data=st.data())
def test_a_short_decimal_has_the_text_of_its_double(digits: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(-(10**digits) + 1, 10**digits - 1))
    decimal = Decimal(number).scaleb(data.draw(st.integers(-30, 20 - digits)))
    assert as_text(decimal) == as_text(float(decimal))
    assert as_text(decimal * Decimal("1.00")) == as_text(decimal)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, math.nan, Decimal("nan"), [1], {}, dt.date(2024, 1, 1)])
def test_what_is_no_number(value: Any) -> None:
    assert as_double(value) is None


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-02-29", dt.date(2024, 2, 29)), ("2023-02-29", None), ("2024-02-30", None), ("0000-01-01", None),
        ("0001-01-01", dt.date(1, 1, 1)), ("9999-12-31", dt.date(9999, 12, 31)), ("10000-01-01", None),
        ("2024-12-31T23:59", dt.date(2024, 12, 31)), ("2024-12-31 23:59:59", dt.date(2024, 12, 31)),
        ("2024-12-31T23:59:59.123456789-12:00", dt.date(2024, 12, 31)), ("2024-12-31T23:59Z", dt.date(2024, 12, 31)),
        ("0001-01-01T00:00+14", dt.date(1, 1, 1)), ("9999-12-31T23:59-0800", dt.date(9999, 12, 31)),
        ("2024-12-31T24:00", None), ("2024-12-31T23:59:60", None), ("2024-12-31T23", None), ("2024-12-31Z", None),
        ("2024-12-31t23:59", None), ("2024-12-31  23:59", None), ("2024-12-31T23:59:59.1234567890", None),
        (" 2024-12-31", None), ("2024-12-31\n", None), ("2024-12-31\x00", None), ("20241231", None),
        ("2024-W52-1", None),
        ("2024-1-1", None), ("-2024-01-01", None), ("٢٠٢٤-01-01", None), ("", None), ("2024-12-31" + " " * 200, None),
    ],
)  # fmt: skip
def test_devices_read_dates_from_text(text: str, day: dt.date | None) -> None:
    assert written_day(text) == day
    assert Dates("x", "day").device_bucket(text) == day
    assert Dates("x", "day").bucket(text) is None  # a table has dates


def test_weeks_begin_on_monday_also_at_the_ends_of_the_calendar() -> None:
    weeks = Dates("x", "week")
    assert dt.date.min.weekday() == 0  # so that no week begins before the calendar
    for day, monday in (
        ("0001-01-01", dt.date(1, 1, 1)),
        ("0001-01-07", dt.date(1, 1, 1)),
        ("2024-12-31", dt.date(2024, 12, 30)),
        ("2025-01-05", dt.date(2024, 12, 30)),
        ("2024-02-29", dt.date(2024, 2, 26)),
        ("9999-12-31", dt.date(9999, 12, 27)),
    ):
        assert weeks.device_bucket(day) == weeks.device_bucket(dt.date.fromisoformat(day)) == monday
    for other in (20240101, True, None, [], {}, "today"):
        assert weeks.device_bucket(other) is None
