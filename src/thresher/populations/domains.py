"""A public domain in the form in which a table's buckets are counted, so that equal things meet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.populations.kinds import Kind
from thresher.questions import Bins, Dates, Joint, Question, normal

_TRUTH = {"true": True, "false": False}

_READ: dict[Kind, Callable[[str], Any]] = {
    "text": str,
    "whole numbers": int,
    "floats": float,
    "decimals": str,
    "booleans": lambda text: _TRUTH[text.lower()],
    "dates": dt.date.fromisoformat,
    "times": dt.datetime.fromisoformat,
}


def as_counted(domain: Sequence[Any], question: Question, kinds: Sequence[Kind | None]) -> tuple[Any, ...]:
    """The domain's buckets as values of the question's columns, which hold these `kinds`.

    Text is read as what the column holds ("20" is 20 where there are whole numbers), as lines of a file are text.
    Edge cases: what does not fit a column is refused. Without that it would be shown as "below threshold", however
    many hold what was meant. Buckets with too few or too many parts are left for the histogram's own check.
    """
    counted = [_counted_kind(question, position, kind) for position, kind in enumerate(kinds)]
    if len(counted) == 1:
        return tuple(_value(value, counted[0], question.columns[0]) for value in domain)
    return tuple(
        tuple(map(_value, bucket, counted, question.columns))
        if isinstance(bucket, tuple | list) and len(bucket) == len(counted)
        else bucket
        for bucket in domain
    )


def _counted_kind(question: Question, position: int, kind: Kind | None) -> Kind | None:
    part = question.parts[position] if isinstance(question, Joint) else question
    if isinstance(part, Bins):
        return "floats"
    return "dates" if isinstance(part, Dates) else kind


def _value(value: Any, kind: Kind | None, column: str) -> Any:
    if kind is None or kind == "nothing" or normal(value) is None:
        return value
    if isinstance(value, str):
        try:
            return _READ[kind](value)
        except (ValueError, KeyError):
            raise _misfit(kind, column) from None
    if kind in ("whole numbers", "floats") and isinstance(value, Real):
        return _number(float(value), value, kind, column)
    if not _fits(value, kind):
        raise _misfit(kind, column)
    return value


def _number(number: float, value: Any, kind: Kind, column: str) -> float:
    if kind == "floats":
        return number
    if not number.is_integer():
        raise _misfit(kind, column)
    return int(value)


def _fits(value: Any, kind: Kind) -> bool:
    if kind == "booleans":
        return isinstance(value, bool | np.bool_)
    if kind == "times":
        return isinstance(value, dt.datetime)
    return kind == "dates" and isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def _misfit(kind: Kind, column: str) -> InvalidSetting:
    return InvalidSetting(
        "domain",
        f"has a bucket that does not fit column {column!r}, which is counted as {kind}",
        hint="Write decimals as text with all their places, as '1.20'." if kind == "decimals" else "",
    )
