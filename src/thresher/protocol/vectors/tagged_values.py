"""Values that a device may hold, as JSON that says of what type they are.

    {"text": "é"}   {"number": "1e+21"}   {"whole": "9007199254740993"}   {"boolean": true}   {"null": true}
    {"date": "2024-02-29"}   {"time": "2024-02-29T23:59:59.500000"}   {"list": [{"text": "a"}]}   {"object": {}}

A `number` is a double, and its text that of ECMAScript, or "-0" or "NaN". A `whole` number is one of any size: in
JavaScript a bigint. A `date` is a day of the calendar, a `time` one on a wall clock without a zone.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from thresher.questions.doubles import double_text


def tagged(value: Any) -> dict[str, Any]:
    """A value with its type."""
    match value:
        case None:
            return {"null": True}
        case bool():
            return {"boolean": value}
        case str():
            return {"text": value}
        case int():
            return {"whole": str(value)}
        case float():
            return {"number": _number(value)}
        case dt.datetime():
            return {"time": value.isoformat()}
        case dt.date():
            return {"date": value.isoformat()}
        case list():
            return {"list": [tagged(each) for each in value]}
        case dict():
            return {"object": value}
    raise TypeError("has no tag")


_READ: dict[str, Callable[[Any], Any]] = {
    "null": lambda _: None,
    "boolean": bool,
    "text": str,
    "whole": int,
    "number": float,
    "time": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "list": lambda content: [untagged(each) for each in content],
    "object": dict,
}


def untagged(content: dict[str, Any]) -> Any:
    """The value that `tagged` wrote."""
    ((tag, value),) = content.items()
    return _READ[tag](value)


def _number(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "-0" if number == 0 and math.copysign(1, number) < 0 else double_text(number)
