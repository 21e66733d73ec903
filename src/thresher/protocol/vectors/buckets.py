"""Test vectors of buckets: for a question and what a device holds, the JSON that it seals.

A vector of one value has its `bucket` and the `plaintext`, which is that bucket as it is sent, without length and
padding; both are null where a decoy is sent. A vector in which an attribute is a list has `buckets` and `plaintexts`:
one for each choice of one element of every list that buckets are made of, the first list changing quickest. `place` is
the random place at which those elements of a long list begin that are looked at.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from thresher.protocol.plaintext import encode_bucket, fleet_bucket, payload
from thresher.protocol.vectors.awkward_values import DAYS, LISTS, NUMBERS, OTHERS, TEXTS, WHOLE
from thresher.protocol.vectors.tagged_values import tagged
from thresher.questions import (
    Among,
    Below,
    Between,
    Bins,
    Cells,
    Dates,
    Filtered,
    Joint,
    Points,
    Prefixes,
    Question,
    RecountedPrefixes,
    Values,
    Where,
)
from thresher.questions.doubles import double_text

SIZE = 64
MOST_ELEMENTS = 1_000
"""Of a longer list, so many elements in a row are looked at."""

WORD, PAIR = Values(("word",)), Values(("word", "system"))
AGES = Bins("age", (0.0, 18.0, 65.0, 130.0))
WIDE = Bins("number", (-1e21, -1.0, -0.0, 1e-7, 0.1, 2.0**53 + 4, 1e16, 2.0**60, 2.0**63, 2.0**69, 1e21, 1.5e300))
CELLS, NARROW = Cells("latency", 0, 100, 7), Cells("latency", -0.1, 0.3, 2**40)
BELOW = Below("latency", 250.0)
POINTS = Points("latency", (-2.5, 0.0, 1e-7, 100.0, 2.0**60, 2.0**69, 1e21))
WEEKS, MONTHS, EACH_DAY = Dates("day", "week"), Dates("day", "month"), Dates("day", "day")
FIRST = Prefixes("word", 2)
NEXT = Prefixes("word", 4, 2, frozenset({"th", "a\x00", "\u00e9n", "\U0001f600\U0001f600", "x\u0301", "ab"}))
AGAIN = RecountedPrefixes("word", 4, 2, frozenset({"th", "ab"}), frozenset({"", "a", "\u00e9", "\U0001f600"}))
JOINT = Joint((Values(("word",)), AGES, MONTHS))
ROUNDED = Joint((Values(("word",)), POINTS))
# Each says whether a product is taken before a quotient, and rounded as here.
ROUNDINGS = ((Cells("number", 0, 10, 90), 7.0), (Cells("number", 0, 1, 10), 0.6), (Cells("number", 0, 14, 122), 7.0))
CLOSE = (Points("number", (1e-7, 100.0)), 7.155366617738304, 0.0715536652489367)
ONE_LIST = (WORD, AGES, CELLS, BELOW, WEEKS, MONTHS, FIRST, NEXT, AGAIN)

_DRAWS = (0.0, 0.25, 0.5, 1 - 2.0**-53)


def _where(question: Question, *conditions: Among | Between) -> Filtered:
    return Filtered(question, Where(conditions))


LISTED = _where(
    WORD, Among("word", ("fr", "1", "0", "true", "\u00e9", "", "2024-02-29", "1e+21", "Infinity", "9" * 40))
)
RANGE = _where(WORD, Between("word", 18.0, 65.0))
UP, DOWN = _where(WORD, Between("word", 0.0)), _where(WORD, Between("word", None, 1e21))
EXACT = _where(WORD, Between("word", 2**53 + 1, 2**63 - 1))
NEGATIVE, MIXED = _where(WORD, Between("word", -(2**53) - 1, -1.0)), _where(WORD, Between("word", -0.5, 2**53 + 1))
WITHIN = _where(WORD, Between("word", -(2.0**63), 2.0**53 + 2))
MANY_DIGITS = _where(AGES, Among("country", ("9" * 4300,)))
ABOVE = _where(Values(("number",)), Between("number", 1_000.0))
DAYS_OF_2024 = _where(WORD, Between("word", dt.date(2024, 1, 1), dt.date(2025, 1, 1)))
SINCE = _where(WORD, Between("word", dt.date(2024, 2, 29)))
OTHER_COLUMN = _where(AGES, Among("country", ("fr", "at")), Between("age", 10.0))
TWO_FILTERS = _where(PAIR, Among("system", ("a", "1")), Between("joined", None, dt.date(2024, 3, 1)))


def buckets() -> list[dict[str, Any]]:
    """Every kind of question over awkward values."""
    texts: list[Any] = [*TEXTS, *DAYS]
    numbers: list[Any] = [*NUMBERS, *WHOLE]
    some: list[Any] = [*OTHERS, *TEXTS[:24], *numbers[::6], "2024-02-29", "\U0001f600", "\ud800"]
    found: list[dict[str, Any]] = []
    for question, values in (
        (WORD, [*texts, *numbers, *OTHERS]),
        *((each, [*numbers, *OTHERS, "18", "", "true"]) for each in (AGES, WIDE, CELLS, NARROW, BELOW)),
        *((each, [*DAYS, *OTHERS, 20240229, 1.7e9, ""]) for each in (WEEKS, MONTHS, EACH_DAY)),
        *((each, [*texts, *OTHERS, 1, 2.5]) for each in (FIRST, NEXT, AGAIN)),
        *((each, [*numbers, *some]) for each in (RANGE, EXACT)),
        *((each, [*numbers, "-1"]) for each in (NEGATIVE, MIXED, WITHIN)),
        *((each, [*NUMBERS[::2], *WHOLE[::2], *OTHERS[:5], "1"]) for each in (UP, DOWN)),
        (LISTED, [*some, *numbers, "e\u0301", "\x00", "9" * 40, int("9" * 40), "Fr", "FR", "TRUE", "\u00c9"]),
        *((each, [*DAYS, *OTHERS, 20240229]) for each in (DAYS_OF_2024, SINCE)),
    ):
        found += (vector(question, [value]) for value in _distinct(values))
    for number, draw in itertools.product([*numbers, *OTHERS, "1"], _DRAWS):
        found.append(vector(POINTS, [number], draw=draw))
    found += (vector(POINTS, [value], draw=0.5) for value in LISTS)
    found += (vector(question, [number]) for question, number in ROUNDINGS)
    found.append(vector(CLOSE[0], [CLOSE[1]], draw=CLOSE[2]))
    found += _several_columns()
    found += _other_sizes()
    found += _long_lists()
    for question, value in itertools.product((*ONE_LIST, LISTED, RANGE, DAYS_OF_2024), LISTS):
        found.append(vector(question, [value]))
    return found


def _several_columns() -> Iterator[dict[str, Any]]:
    """Questions that read several attributes, some of which are lists."""
    words: list[Any] = ["fr", "e\u0301", "", 1.0, True, None, "\ud800", "x" * 60]
    held: Sequence[Any]
    for held in itertools.product(words, ["a", 1, None, -0.0]):
        yield vector(PAIR, held)
    days: list[Any] = ["2024-02-29", dt.date(2024, 12, 31), dt.datetime(2025, 1, 1, 12), "2024-02-30", None]
    for held in itertools.product(["fr", 7, None], [18.5, -1, 10**400], days):
        yield vector(JOINT, held)
    for held, draw in itertools.product(itertools.product(["fr", None], [50.0, 1e20, -5]), _DRAWS):
        yield vector(ROUNDED, held, draw=draw)
    for held in itertools.product([20, 9, 18.0, "20", None], ["fr", "at", "de", None, ["de", "fr"], ["de"], []]):
        yield vector(OTHER_COLUMN, held)
    for held in itertools.product(["x", ["x", "y"]], ["a", 1.0, "b", ["b", "a", 1]], [*days, days]):
        yield vector(TWO_FILTERS, held)
    for whole in (10**4300 - 1, 10**4300 - 2):
        yield vector(MANY_DIGITS, [20, whole])
    for held in ([["a", "b"], ["c", "d", "e"]], [["a"], []], ["a", ["b", None]], [["a", "x" * 60], ["b", "y" * 20]]):
        yield vector(PAIR, held)
    yield vector(ROUNDED, [["a", "b"], [50.0, None, 150]], draw=0.25)


def _other_sizes() -> Iterator[dict[str, Any]]:
    """Buckets that just fit, or just do not."""
    for size in (48, 63, 65, 128):
        for value in (
            "x" * 42,
            "x" * 43,
            "x" * 58,
            "x" * 59,
            "\u00e9" * 21,
            "\u00e9" * 22,
            '"' * 21,
            "\x01" * 7,
            "\x01" * 8,
        ):
            yield vector(WORD, [value], size=size)
    long = Prefixes("word", 40)
    for value in ("x" * 39, "x" * 40, "\u00e9" * 18, "\u00e9" * 30):
        yield vector(long, [value], size=48)


def _long_lists() -> Iterator[dict[str, Any]]:
    """Lists of more elements than a filter looks at: three numbers of 1,000 and above lie at both ends and between."""
    held: list[Any] = [7] * (MOST_ELEMENTS + 20)
    for place, number in ((0, 1_001), (MOST_ELEMENTS - 1, 1_002), (MOST_ELEMENTS + 19, 1_003)):
        held[place] = number
    for place in (0, 1, 19, 20, MOST_ELEMENTS, MOST_ELEMENTS + 19):
        yield vector(ABOVE, [held], place=place)


def vector(
    question: Question, held: Sequence[Any], *, size: int = SIZE, draw: float | None = None, place: int | None = None
) -> dict[str, Any]:
    """What a device that holds this in the question's inputs sends in a round of one contribution."""
    found: dict[str, Any] = {"question": question.to_dict(), **_held(held), "size": size}
    if draw is not None:
        found["draw"] = double_text(draw)
    values = list(held)
    if place is not None:
        found["place"] = place
        values = [(value[place:] + value[:place])[:MOST_ELEMENTS] for value in values]
    narrowed = question.narrowed(values)
    # Where no element is left to be chosen, there is no value. Of a list that is not asked about, any element will do.
    present = [None if value == [] else value for value in narrowed]
    present[len(question.columns) :] = [_elements(value)[0] for value in present[len(question.columns) :]]
    sent = [_sent(question, values, size, draw) for values in _choices(present)]
    if any(isinstance(value, list) for value in held):
        return found | {"buckets": [_bucket(each) for each in sent], "plaintexts": sent}
    return found | {"bucket": _bucket(sent[0]), "plaintext": sent[0]}


def list_choices() -> list[dict[str, Any]]:
    """What rounds of several contributions choose from: all distinct buckets, in any order.

    Where a question reads several attributes, it is all combinations of one bucket of each, of which those that are too
    long to be sent have neither a bucket nor a plaintext: a decoy is sent if they are chosen.
    """
    found = [_choice(question, [value]) for question in ONE_LIST for value in [*LISTS, "a", 18, None]]
    found += [_choice(question, [value]) for question in (LISTED, RANGE, DAYS_OF_2024) for value in LISTS]
    for held in (
        [["a", "b", "a"], ["c", "d", None]],
        [["a"], []],
        ["a", ["b", 1, 1.0]],
        [["a", "x" * 40], ["b", "y" * 30]],
    ):
        found.append(_choice(PAIR, held))
    found.append(_choice(JOINT, [["fr", "at"], [17, 18, 19, -1], ["2024-02-29", dt.date(2024, 2, 1), "2024-03-01"]]))
    found.append(_choice(OTHER_COLUMN, [[5, 15, 20, 70, 200], ["de", "fr"]]))
    found.append(_choice(OTHER_COLUMN, [[5, 15, 20, 70, 200], ["de"]]))
    return found


def _choice(question: Question, held: Sequence[Any], size: int = SIZE) -> dict[str, Any]:
    found = {"question": question.to_dict(), **_held(held), "size": size}
    narrowed = question.narrowed(list(held))
    sent: list[str | None] = []
    if question.admits(narrowed):
        columns = [
            dict.fromkeys(
                element for each in _elements(value) if (element := _sent(part, (each,), size, None)) is not None
            )
            for part, value in zip(question.parts, narrowed[: len(question.columns)], strict=True)
        ]
        together = ["[" + ",".join(part[1:-1] for part in parts) + "]" for parts in _choices(map(list, columns))]
        sent = [each if len(each.encode()) + 2 <= size else None for each in together]
    return found | {"buckets": [_bucket(each) for each in sent], "plaintexts": sent}


def _elements(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _choices(held: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Every choice of one element of each list, the first list changing quickest."""
    for backwards in itertools.product(*reversed([_elements(value) for value in held])):
        yield backwards[::-1]


def _sent(question: Question, values: tuple[Any, ...], size: int, draw: float | None) -> str | None:
    padded = encode_bucket(question, fleet_bucket(question, values if len(values) > 1 else values[0], draw), size)
    return None if padded is None else payload(padded).decode()


def _bucket(sent: str | None) -> list[Any] | None:
    return None if sent is None else json.loads(sent)


def _held(held: Sequence[Any]) -> dict[str, Any]:
    values = [tagged(value) for value in held]
    return {"value": values[0]} if len(values) == 1 else {"values": values}


def _distinct(values: Sequence[Any]) -> list[Any]:
    return list({json.dumps(tagged(value)): value for value in values}.values())
