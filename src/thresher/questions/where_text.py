"""Filters as people write them: in Python, and as text, one condition a line. One reader and one writer of each.

    country = fr              version in 1.2, 1.3        age from 18 below 65
    age >= 18                 age < 65                   joined >= 2024-01-01

A name or value that has blanks, commas or quotes stands in double quotes, as in JSON: `"home town" in "a, b", c`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from thresher.errors import Hint, InvalidSetting
from thresher.questions.conditions import Among, Between, Bound, Condition, Where
from thresher.questions.question import number_text
from thresher.questions.spelling import DAY, read_float, read_whole

HINT = "Write 'country = fr', 'version in 1.2, 1.3', 'age >= 18', 'age < 65' or 'age from 18 below 65'."

_SEVERAL = "Several values have commas between them, after in."
_A_LIST = "Several values are a list: ['a', 'b']."
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"\s*({_QUOTED}|[^\s=<>\",]+)\s*(>=|<=|=|<|>|\bin\b|\bfrom\b)\s*(.*?)\s*", re.DOTALL)
_RANGE = re.compile(r"(\S+)\s+below\s+(\S+)")
_ITEM = re.compile(rf"\s*({_QUOTED}|[^,\"]*)\s*(,|$)")
_BARE_NAME = re.compile(r"[^\s=<>\",]+")
_SLIP = re.compile(r"(?s)\A[=<>']|\A(?!\").*\s(?:and|or)\s+\S.*?(?:[=<>]|\s(?:in|from)\s)", re.IGNORECASE)
"""An unquoted value that was hardly meant: == UA, => 4, 'UA', x and i = 1."""
_BARE_VALUE = re.compile(r"[^\s,\"](?:[^,\"\n\r]*[^\s,\"])?")


def to_where(given: Any) -> Where | None:
    """The filter that a caller gave; None where none was.

    `given` maps columns to a value (equality), to a list or set of values (membership), or to a tuple of two, a
    half-open range whose ends may be None; or it is a list of texts, one condition each.
    Raises: `InvalidSetting` that names no value.
    """
    if given is None or isinstance(given, Where):
        return given
    if isinstance(given, Mapping):
        found = [_of_value(column, value) for column, value in given.items()]
    elif isinstance(given, str):
        found = [_of_line(line) for line in given.splitlines() if line.strip()]
    elif isinstance(given, Iterable):
        lines = list(given)
        if not all(isinstance(line, str) for line in lines):
            raise InvalidSetting("where", "must be conditions as text, or map columns to values", hint=HINT)
        found = [_of_line(line) for line in lines if line.strip()]
    else:
        raise InvalidSetting("where", f"must map columns to values, not be {type(given).__name__}")
    return Where(tuple(_joined(found))) if found else None


def to_python(where: Where) -> dict[str, Any]:
    """The filter as a mapping that `to_where` reads as the same filter."""
    return {condition.column: _python_value(condition) for condition in where.conditions}


def to_lines(where: Where) -> list[str]:
    """The conditions as text, each of which `to_where` reads as the same condition."""
    return [_line(condition) for condition in where.conditions]


def in_words(where: Where) -> str:
    """The filter in one line, as "country = fr and age from 18 below 65"."""
    return " and ".join(to_lines(where))


def _of_value(column: Any, value: Any) -> Condition:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise InvalidSetting(
                "where", "has a tuple that is not two ends of a range", hint=Hint(_SEVERAL, python=_A_LIST)
            )
        return Between(column, *(_bound(end) for end in value))
    if isinstance(value, list | set | frozenset):
        return Among(column, tuple(value if isinstance(value, list) else sorted(value, key=str)))
    return Among(column, (value,))


def _of_line(line: str) -> Condition:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InvalidSetting("where", "has a condition that cannot be read", hint=HINT)
    column, operator, rest = _unquoted(match[1]), match[2], match[3]
    if operator == "=":
        return Among(column, (_value(rest),))
    if operator == "in":
        return Among(column, tuple(_items(rest)))
    if operator == "from" and (ends := _RANGE.fullmatch(rest)):
        return Between(column, _bound(ends[1]), _bound(ends[2]))
    if operator == ">=":
        return Between(column, _bound(rest), None)
    if operator == "<":
        return Between(column, None, _bound(rest))
    raise InvalidSetting("where", "has a comparison that is not one of =, in, >= and <", hint=HINT)


def _items(text: str) -> list[str]:
    found, place = [], 0
    while match := _ITEM.match(text, place):
        found.append(_value(match[1].strip()))
        place = match.end()
        if not match[2]:
            return found
    raise InvalidSetting("where", "has a list that cannot be read", hint=HINT)


def _value(text: str) -> str:
    """A value to compare with. What looks like a slip of the pen is refused unless it stands in double quotes."""
    if _SLIP.search(text):
        raise InvalidSetting(
            "where",
            "has a value that begins with an operator or a single quote, or holds a second condition",
            hint="Write one =, one condition a line, and text like this in double quotes.",
        )
    return _unquoted(text)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        if text:
            return text
        raise InvalidSetting("where", "has a condition without a value", hint=f'{HINT} "" is the empty text.')
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        raise InvalidSetting("where", "has text in quotes that cannot be read", hint=HINT) from None


def _bound(end: Any) -> Bound:
    """An end of a range; text is read as a date or a number."""
    if not isinstance(end, str):
        return end  # type: ignore[no-any-return]
    try:
        found: Bound = dt.date.fromisoformat(end) if re.fullmatch(DAY, end) else read_whole(end)
        found = read_float(end) if found is None else found
    except ValueError:
        found = None
    if found is None:
        raise InvalidSetting(
            "where",
            "must have numbers or dates as ends of a range",
            hint=Hint(f"Write 18 or 2024-01-31. {_SEVERAL}", python=f"Write 18 or 2024-01-31. {_A_LIST}"),
        )
    return found


def _joined(conditions: list[Condition]) -> list[Condition]:
    """The same conditions; the two ends of one column, given apart, are one range."""
    found: dict[Any, Condition] = {}
    for place, condition in enumerate(conditions):
        first = found.get(condition.column)
        if isinstance(first, Between) and isinstance(condition, Between):
            low, high = (first, condition) if first.lower is not None else (condition, first)
            if low.upper is None and high.lower is None:
                found[condition.column] = Between(condition.column, low.lower, high.upper)
                continue
        found[condition.column if first is None else place] = condition
    return list(found.values())


def _python_value(condition: Condition) -> Any:
    if isinstance(condition, Between):
        return tuple(_python_bound(end) for end in (condition.lower, condition.upper))
    assert isinstance(condition, Among)
    return condition.values[0] if len(condition.values) == 1 else list(condition.values)


def _python_bound(end: Bound) -> Any:
    if isinstance(end, dt.date):
        return end.isoformat()
    return int(end) if isinstance(end, float) and end.is_integer() and abs(end) < 1e15 else end


def _line(condition: Condition) -> str:
    name = _quoted(condition.column, _BARE_NAME)
    if isinstance(condition, Between):
        lower, upper = (_bound_text(end) for end in (condition.lower, condition.upper))
        if condition.lower is None:
            return f"{name} < {upper}"
        return f"{name} >= {lower}" if condition.upper is None else f"{name} from {lower} below {upper}"
    assert isinstance(condition, Among)
    values = [_quoted(value, _BARE_VALUE) for value in condition.values]
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} in {', '.join(values)}"


def _bound_text(end: Bound) -> str:
    if isinstance(end, dt.date):
        return end.isoformat()
    if end is None:
        return ""
    return str(end) if isinstance(end, int) else number_text(end)


def _quoted(text: str, bare: re.Pattern[str]) -> str:
    if bare.fullmatch(text) and text.isprintable() and not _SLIP.search(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())  # so that a line break in it ends no line
