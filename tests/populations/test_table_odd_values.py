"""A single value that an engine stumbles over is no value, and changes nothing for anybody else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from thresher.errors import InvalidSetting
from thresher.populations import Table
from thresher.populations.guarding import guarded
from thresher.questions import Dates, Question, Values

NOON = 1_706_702_400_000_000
"""On 31 January 2024, in microseconds since 1970, UTC."""


def counts(data: Any, question: Question, unit: str | None = None) -> list[Any]:
    with Table(data, unit) as table:
        buckets, numbers = table._tally(question, at_least=3)
    return [buckets.schema, *zip(buckets.column(0).to_pylist(), numbers.tolist(), strict=True)]


def check(made: Callable[[list[Any]], Any], odd: list[Any], questions: list[Question]) -> None:
    """The odd values count as nothing, and everybody else's as without them."""
    for question in questions:
        expected = counts(made([]), question)
        assert len(expected) == 2  # a schema, and the one bucket that all others are in
        assert counts(made(odd), question) == expected


def made(odd: list[int]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([NOON] * 3 + odd).cast(pa.timestamp("us", "America/New_York"))])


@pytest.mark.parametrize("question", [Values(("value",)), Dates("value", "month")])
def test_instants_that_no_calendar_has(question: Question) -> None:
    last_before_the_year_1, first_after_9999 = -62_135_596_800_000_001, 253_402_300_800_000_000
    check(made, [-(2**63), 1 - 2**63, 2**63 - 1, last_before_the_year_1, first_after_9999], [question])


def test_the_first_and_the_last_instant_of_the_calendar_count() -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    found = counts(made([first] * 4 + [last] * 5), Dates("value", "day"))
    assert dict(found[1:]) == {dt.date(2024, 1, 31): 3, dt.date(1, 1, 1): 4, dt.date(9999, 12, 31): 5}


class Text(str):
    """Text whose own methods say that all is well with it."""

    def replace(self, *_: Any) -> Text:
        return self

    def encode(self, *_: Any) -> bytes:
        return b""

    def __str__(self) -> Text:
        return self


class Leaving:
    """An object that ends the program when it is asked what it is."""

    @property
    def __class__(self) -> Any:
        raise SystemExit


def test_objects_with_methods_of_their_own() -> None:
    check(lambda odd: ["a", "a", "a", 7, *odd], [Text("\ud800"), Leaving()], [Values(("value",))])


def test_a_panic_of_an_engine_is_an_error_without_its_message() -> None:
    class PanicException(BaseException):
        pass

    def panic() -> None:
        raise PanicException("canary")

    with pytest.raises(InvalidSetting) as caught:
        guarded("Polars", panic)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded("Polars", interrupt)
