"""A public domain in the form in which a table's buckets are counted, so that equal values compare equal."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.questions import Question, normal
from thresher.questions.spelling import as_text
from thresher.tables.column_kinds import Kind
from thresher.tables.text_reading import value_as
from thresher.tables.time_zones import UTC, zone_of


def as_counted(
    domain: Sequence[Any],
    question: Question,
    kinds: Sequence[Kind | None],
    untyped: Sequence[bool],
    time_zone: str = UTC,
) -> tuple[Any, ...]:
    """The domain's buckets as values of the question's columns, which hold these `kinds`.

    Text is read as what the column holds ("20" is 20 where there are whole numbers), as lines of a file are text. Where
    a column is text because it is untyped, 20 is "20", as in its rows. Times with a zone are read on the wall clock of
    `time_zone`, as in the table's rows.
    Edge cases: a value that does not fit its column is refused. Otherwise it would be shown as "below threshold",
    however many units hold the value that was meant. `question.check_domain` refuses buckets with too few or too many
    parts.
    """
    read = functools.partial(counted_value, zone=zone_of(time_zone))
    counted = [part.listed_as or kind for part, kind in zip(question.parts, kinds, strict=True)]
    if len(counted) == 1:
        buckets = tuple(read(value, counted[0], question.columns[0], untyped[0]) for value in domain)
    else:
        buckets = tuple(
            tuple(map(read, bucket, counted, question.columns, untyped))
            if isinstance(bucket, tuple | list) and len(bucket) == len(counted)
            else bucket
            for bucket in domain
        )
    question.check_domain(buckets)
    return buckets


def counted_value(
    value: Any, kind: Kind | None, column: str, untyped: bool, zone: dt.tzinfo, *, setting: str = "domain"
) -> Any:
    """One value as a column of this kind holds it; `InvalidSetting` names `setting` where it does not fit."""
    try:
        return _value(value, kind, untyped, zone)
    except _Misfit:
        hint = "Write decimals as text with all their places, as '1.20'." if kind == "decimals" else ""
        what = "a bucket" if setting == "domain" else "a value"
        raise InvalidSetting(
            setting, f"has {what} that does not fit column {column!r}, which is counted as {kind}", hint=hint
        ) from None


class _Misfit(Exception):
    """A value does not fit its column."""


def _value(value: Any, kind: Kind | None, untyped: bool, zone: dt.tzinfo) -> Any:
    if kind is None or kind == "nothing" or normal(value) is None:
        return value
    if kind == "text" and untyped and (text := as_text(value)) is not None:
        return text
    if isinstance(value, str):
        read = value_as(kind, value, zone)
        if read is None:
            raise _Misfit
        return read
    if kind in ("whole numbers", "floats") and isinstance(value, Real):
        return _number(float(value), value, kind)
    if not _fits(value, kind):
        raise _Misfit
    if kind == "times" and value.tzinfo is not None:
        try:
            return value.astimezone(zone).replace(tzinfo=None)
        except OverflowError:
            raise _Misfit from None
    return value


def _number(number: float, value: Any, kind: Kind) -> float:
    if kind == "floats":
        return number
    if not number.is_integer():
        raise _Misfit
    return int(value)


def _fits(value: Any, kind: Kind) -> bool:
    if kind == "booleans":
        return isinstance(value, bool | np.bool_)
    if kind == "times":
        return isinstance(value, dt.datetime)
    return kind == "dates" and isinstance(value, dt.date) and not isinstance(value, dt.datetime)
