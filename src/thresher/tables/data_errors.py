"""Data errors: which records and values cannot be read, and what to do about it. For whoever holds the data.

This is not private. A verb never says such a thing: a record or a value that cannot be read is no value, for that
person alone. An error that named its line would tell whoever reads it about that person, and so would the mere fact
that there was one. So it is said only where `show_data_errors` asks for it, and then in place of an answer: whether
there is an answer never depends on what one person holds. Nothing is drawn, and nothing is charged.

Lines and columns are named, values never: reports end in logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from thresher.questions import spelling
from thresher.tables.column_kinds import FIRST_LINE, Kind
from thresher.tables.text_reading import value_as
from thresher.tables.time_zones import UTC, zone_of

if TYPE_CHECKING:
    import pyarrow as pa

    from thresher.tables.engine import Engine

MOST_PLACES = 10
"""How many lines are named for each error."""

NUMBERS: tuple[Kind, ...] = ("whole numbers", "floats")
_NOT_PRIVATE = "Not private: single rows decide what is said here. Nothing was drawn or charged."
_DIGITS = r"[+-]?[0-9][0-9.,' _\u00a0\u202f]*"


class Cause(NamedTuple):
    """Why something cannot be read, in words after a number of times, and what to do about it."""

    words: str
    remedy: str


FIELDS = Cause(
    "too few or too many fields for the header",
    "The record is left out. Put a field that holds the delimiter into double quotes, and double quotes inside of one "
    "twice.",
)
QUOTES = Cause(
    "a double quote that is not closed, or text after the closing one",
    "It is read as part of the text. Write double quotes in a field twice, and put the field into double quotes.",
)
NOT_UTF_8 = Cause(
    "bytes that are not UTF-8",
    "Convert the file: iconv -f WINDOWS-1252 -t UTF-8 old > new. LATIN1 and UTF-16 are other usual encodings.",
)
NOT_JSON = Cause(
    "no JSON", "Each line must be one JSON object. Look for lines that are cut off or hold something else."
)
NO_OBJECT = Cause("JSON that is no object", 'Each line must be one JSON object, as {"age": 42}.')
NESTED = Cause(
    "neither text, number, truth value, date nor time",
    "Lists, objects and bytes are no value. Take out the part that is to be counted.",
)
_NO_VALUES = Cause(
    "no value in any record",
    "Check how the column's name is spelled. In JSON lines, thresher look shows the keys of the first lines.",
)
_MARKED = Cause(
    "a mark for “no value”, such as N/A, NULL or -", "Leave it empty: an empty field, or null, is no value."
)
_SEPARATED = Cause(
    "a number with a comma, or with marks between thousands", "Write 1000 and 7.5, with a point and nothing else."
)
_MEASURED = Cause("a number with a currency, a percent sign or another unit", "Write the number alone.")
_FRACTION = Cause("a number with a fraction", "Declare the column as floats.")
_TOO_LARGE = Cause("a number that is too large", "Whole numbers have at most 64 bits; floats are finite.")
_OTHER_DATE = Cause("a date in another form", "Write 2024-01-31, and times as 2024-01-31T20:00.")
_OTHER_TRUTH = Cause("another word for true or false", "Write true and false.")
_OTHER_TEXT = Cause("something else", "Correct it, leave it empty, or declare the column as text.")


def not_utf_8(column: str, places: Sequence[int], stored: pa.ChunkedArray, read: pa.ChunkedArray) -> list[Fault]:
    """The values of a column that are there as they are stored, and not as they are read."""
    if read.null_count == stored.null_count:
        return []
    missing = [index for index, valid in enumerate(stored.is_valid()) if valid.as_py() and not read[index].is_valid]
    return [Fault(places[index], column, NOT_UTF_8) for index in missing]


def cause_of(text: str, kind: Kind) -> Cause:
    """Why text cannot be read as a kind."""
    bare = text.strip().lower()
    if is_mark(text):
        return _MARKED
    if kind in NUMBERS:
        if re.fullmatch(spelling.FLOAT, bare):
            return _FRACTION if spelling.read_float(bare) is not None and not float(bare).is_integer() else _TOO_LARGE
        if re.fullmatch(_DIGITS, bare):
            return _SEPARATED
        if re.fullmatch(rf"[^0-9]{{0,4}} ?{_DIGITS} ?[^0-9]{{0,4}}", bare):
            return _MEASURED
    if kind in ("dates", "times") and re.search(r"[0-9]", bare) and re.fullmatch(r"[\w\s:./,+-]{6,40}", bare):
        return _OTHER_DATE
    if kind == "booleans" and re.fullmatch(r"yes|no|y|n|t|f|0|1|on|off|0\.0|1\.0", bare):
        return _OTHER_TRUTH
    return _OTHER_TEXT


def is_mark(text: str) -> bool:
    """Whether text is one of the usual marks for a value that is not there."""
    return bool(
        re.fullmatch(r"#?n/?a\.?|null|none|nil|nan|missing|unknown|undefined|[-–—.?*#]+|\\n", text.strip().lower())
    )


class Fault(NamedTuple):
    """One thing that cannot be read: where, in which column, or None for a whole record, and why."""

    place: int
    column: str | None
    cause: Cause


class Numbered(NamedTuple):
    """Some records of a file or a frame with their places.

    `where` is what a place is called, as "line" or "people.csv, line". `places` are those of the rows of `columns`,
    which hold text. `records` is how many records these are, with those that cannot be read.
    """

    where: str
    places: Sequence[int]
    columns: Mapping[str, pa.Array]
    faults: Sequence[Fault]
    records: int


@dataclass(frozen=True, slots=True)
class DataError:
    """What cannot be read for one cause: in which column and as what, how often, and where first.

    `column` is None where whole records cannot be read.
    """

    column: str | None
    kind: Kind | None
    cause: Cause
    number: int
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.in_words}. {self.cause.remedy}"

    @property
    def in_words(self) -> str:
        """The error without what to do about it."""
        what = "records" if self.column is None else f"column {self.column!r}"
        read = f", read as {self.kind}" if self.kind not in (None, "text") else ""
        times = "once" if self.number == 1 else f"{self.number:,} times"
        more = self.number - len(self.places)
        places = f": {', '.join(self.places)}" + (f" and {more:,} more" if more else "") if self.places else ""
        return f"{what}{read}: {self.cause.words}, {times}{places}"

    def to_dict(self) -> dict[str, Any]:
        """The error as plain values."""
        return {
            "column": self.column,
            "read_as": self.kind,
            "problem": self.cause.words,
            "remedy": self.cause.remedy,
            "number": self.number,
            "places": list(self.places),
        }


@dataclass(frozen=True, slots=True)
class DataErrors:
    """All data errors of some columns; false if there are none. Not private: single rows decide what it says.

    `records` is how many records were read; `headless` says that the first line of a file looks like data.
    """

    errors: tuple[DataError, ...]
    records: int
    headless: bool = False

    def __bool__(self) -> bool:
        return bool(self.errors)

    def __len__(self) -> int:
        return len(self.errors)

    def __iter__(self) -> Iterator[DataError]:
        return iter(self.errors)

    def __str__(self) -> str:
        return "\n".join([*self.doubts, self.report])

    @property
    def report(self) -> str:
        """The summary and all errors, a line each."""
        return "\n".join([self.summary, *(f"  {error}" for error in self.errors)])

    @property
    def doubts(self) -> list[str]:
        """What must be said first, because it puts all else in doubt."""
        return [FIRST_LINE] if self.headless else []

    @property
    def summary(self) -> str:
        """How many records were read, and what becomes of those that cannot be."""
        if not self.errors:
            return f"{self.records:,} records were read, without data errors. {_NOT_PRIVATE}"
        return f"{self.records:,} records were read, with data errors. What cannot be read is no value. {_NOT_PRIVATE}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        errors = [each.to_dict() for each in self.errors]
        return {"private": False, "headless": self.headless, "records": self.records, "data_errors": errors}


@dataclass(slots=True)
class _Found:
    number: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, where: str, place: int) -> None:
        self.number += 1
        if len(self.places) < MOST_PLACES:
            self.places.append(f"{where} {place:,}")


def find_data_errors(engine: Engine, kinds: Mapping[str, Kind], time_zone: str = UTC) -> DataErrors:
    """Read all records of an engine, with each column read as its kind, and gather what cannot be read."""
    found: dict[tuple[str | None, Cause], _Found] = {}
    records, without = 0, set(kinds)
    for batch in engine.numbered(list(kinds)):
        records += batch.records
        without -= {column for column, texts in batch.columns.items() if texts.null_count < len(texts)}
        faults = [*batch.faults, *_unreadable(batch, kinds, time_zone)]
        for fault in sorted(faults, key=lambda fault: fault.place):
            found.setdefault((fault.column, fault.cause), _Found()).add(batch.where, fault.place)
    for column in without - {column for column, _ in found} if records else ():
        found[column, _NO_VALUES] = _Found(records)
    errors = [
        DataError(column, None if column is None else kinds.get(column), cause, each.number, tuple(each.places))
        for (column, cause), each in found.items()
    ]
    order = [None, *kinds]
    errors.sort(key=lambda error: (order.index(error.column), -error.number))
    return DataErrors(tuple(errors), records, engine.seems_headless)


def _unreadable(batch: Numbered, kinds: Mapping[str, Kind], time_zone: str) -> Iterator[Fault]:
    """The values that cannot be read as their column's kind. Each distinct text is read once."""
    zone = zone_of(time_zone)
    for column, texts in batch.columns.items():
        kind = kinds[column]
        if kind == "text":
            continue
        encoded = texts.dictionary_encode()
        causes = [
            cause_of(text, kind) if text and text.strip() and value_as(kind, text, zone) is None else None
            for text in encoded.dictionary.to_pylist()
        ]
        if any(causes):
            for place, index in zip(batch.places, encoded.indices.to_pylist(), strict=True):
                if index is not None and (cause := causes[index]) is not None:
                    yield Fault(place, column, cause)
