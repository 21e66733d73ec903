"""JSON lines: each line is one unit's object, and a column is a key that the caller names.

Rows decide which keys a file has, so the keys are never listed: a key that no line has gives no unit a value. A value
is text, as `questions.spelling.as_text` writes it (42 is "42", true is "true"); null, lists and objects are no value.
A line that is not JSON in UTF-8 has no values.
"""

from __future__ import annotations

import codecs
import copy
import functools
import glob
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thresher.questions.population import Progress
from thresher.tables.data_errors import NESTED, NO_OBJECT, NOT_JSON, NOT_UTF_8, Cause, Fault, Numbered
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.file_engine import TextFileEngine
from thresher.tables.file_heads import check_foreign
from thresher.tables.objects import decoded, spelled
from thresher.tables.record_stream import CHUNK, Parsed, RecordStream, blocks, opened, whole_records
from thresher.tables.text_reading import once

_LINE = "line"
_LARGEST_OBJECT = 1 << 27


class JsonEngine(TextFileEngine):
    """JSON lines, or files that are one JSON array each."""

    suffixes = (".jsonl", ".ndjson", ".json")

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        super().__init__(files, connection, progress)
        for file in files:
            check_foreign(file, functools.partial(has_lines, file))
        self._arrays = [file for file in files if is_array(file)]
        self._by_hand = False

    def names(self) -> list[str] | None:
        """None: only rows could say which keys there are."""
        return None

    def size(self) -> int | None:
        """How many lines there are that are not blank; None for arrays, whose elements DuckDB reads."""
        return None if self._arrays else super().size()

    def careful(self) -> RelationEngine | None:
        """The same rows, for an array that DuckDB refuses in part: split here, and each element read by itself."""
        engine = copy.copy(self)
        engine._by_hand = True
        return engine if self._arrays and not self._by_hand else None

    def _stored(self, named: Mapping[str, str]) -> Any:
        values = ", ".join(f"{once(_value_of(column))} AS {name}" for name, column in named.items())
        texts = ", ".join(f"{_text_of(name)} AS {name}" for name in named)
        return self._lines().project(values).project(texts)

    def _lines(self) -> Any:
        if self._by_hand or not self._arrays:
            return self._streamed(line_stream(self._files, self._arrays))
        files = ", ".join("'" + glob.escape(file).replace("'", "''") + "'" for file in self._arrays)
        elements = self._own.sql(
            f"SELECT CAST(json AS VARCHAR) AS {_LINE} FROM "  # noqa: S608 - names of files, quoted
            f"read_json_objects([{files}], format = 'array', maximum_object_size = {_LARGEST_OBJECT})"
        )
        others = [file for file in self._files if file not in self._arrays]
        return elements.union(self._streamed(line_stream(others))) if others else elements

    def numbered(self, columns: Sequence[str]) -> Iterator[Numbered]:
        """All lines, or the elements of an array, numbered from 1."""
        for file in self._files:
            array = file in self._arrays
            with opened(file) as (stream, _):
                number = 1
                for chunk in _chunks(stream, array):
                    lines = chunk.split(b"\n")[:-1] if chunk.endswith(b"\n") else chunk.split(b"\n")
                    yield _numbered_lines(lines, columns, self._place(file, "element" if array else "line"), number)
                    number += len(lines)

    @classmethod
    def first_rows(cls, files: Sequence[str], number: int) -> dict[str, list[str | None]]:
        """The values of the first lines, as columns of text."""
        lines = line_stream(files, [file for file in files if is_array(file)]).first_rows(number)
        found: dict[str, list[Any]] = {}
        for place, (line,) in enumerate(lines):
            try:
                content = json.loads(line or "")
            except ValueError:
                continue
            for name, value in content.items() if isinstance(content, dict) else ():
                found.setdefault(name, [None] * len(lines))[place] = value
        return {name: spelled(values).to_pylist() for name, values in found.items()}


def is_array(file: str) -> bool:
    """Whether a file is one JSON array of objects in place of lines: it begins with [ and `has_lines` is false.

    Guarantee: that of `has_lines`. No element of an array turns it into lines.
    """
    with opened(file) as (stream, _):
        if not stream.read(1 << 16).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
            return False
    return not has_lines(file)


def has_lines(file: str) -> bool:
    """Whether some line that ends in } is followed by one that begins with {, as the lines of two people are.

    In an array they cannot be: a comma is between objects, and text holds no line feed.
    Guarantee: where two other people's lines follow one another, no line changes this, whatever it holds.
    """
    with opened(file) as (stream, _):
        before = b""
        for block in blocks(stream):
            joined = before + block
            if b"}\n{" in joined or b"}\r\n{" in joined:
                return True
            before = joined[-3:]
    return False


def line_stream(files: Sequence[str], arrays: Collection[str] = ()) -> RecordStream:
    """The lines of some files, as the only column, and the elements of those that are `arrays`."""

    def chunks(file: str, stream: Any) -> Iterator[bytes]:
        return _chunks(stream, file in arrays)

    return RecordStream(files, pa.schema([(_LINE, pa.string())]), chunks, lambda _, chunk: _lines(chunk))


def _chunks(stream: Any, array: bool) -> Iterator[bytes]:
    """Whole lines of a file, or the elements of an array as lines."""
    if array:
        return elements(stream.read())
    first = stream.read(len(codecs.BOM_UTF8))
    start = [] if first == codecs.BOM_UTF8 else [first]
    return whole_records(block for part in (start, blocks(stream)) for block in part if block)


_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(_TEXT + rb"?+|[\[{]|[\]}]|,", re.DOTALL)
_BRACKET = re.compile(rb"[\[{]|[\]}]")


def _shallow(levels: int) -> bytes:
    """A regular expression for a list or an object with at most so many others inside one another."""
    inner = rb"|" + _shallow(levels - 1) if levels else b""
    return rb'[\[{](?:[^"\[\]{}]++|' + _TEXT + inner + rb")*+[\]}]"


_ELEMENT = re.compile(rb"\s*+" + _shallow(2) + rb"\s*+,", re.DOTALL)
"""Matches most elements at once; others are read token by token, which takes longer."""


def elements(array: bytes) -> Iterator[bytes]:
    """The elements of a JSON array, a line each, whatever is inside of them; in chunks of some lines."""
    held: list[bytes] = []
    size = place = 0
    while bracket := _BRACKET.search(array, place):
        if bracket[0] in b"]}":
            raise ValueError  # it closes nothing: the file is damaged
        place, closed = bracket.end(), False
        while not closed:
            if element := _ELEMENT.match(array, place):
                end, after = element.end() - 1, element.end()
            else:
                end, after, closed = _end(array, place)
            held.append(array[place:end].replace(b"\n", b" ") + b"\n")
            size += end - place
            place = after
            if size > CHUNK:
                yield b"".join(held)
                held, size = [], 0
    yield b"".join(held)


def _end(array: bytes, start: int) -> tuple[int, int, bool]:
    """Where an element ends that starts here, where what follows it starts, and whether it was the array's last."""
    depth = 1
    for token in _TOKEN.finditer(array, start):
        match token[0]:
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}":
                depth -= 1
            case b"," if depth == 1:
                return token.start(), token.end(), False
        if not depth:
            return token.start(), token.end(), True
    raise ValueError  # the file was cut off


def _lines(chunk: bytes) -> Parsed:
    ends = pa.py_buffer(b"".join(place.to_bytes(8, "little") for place in (0, len(chunk))))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(chunk)])
    split = pc.list_flatten(pc.split_pattern(whole, b"\n"))
    try:
        lines = split.cast(pa.string())
    except pa.ArrowInvalid:
        lines = pa.array([decoded(line) for line in split.to_pylist()], pa.string())
    blank = pc.sum(pc.match_substring_regex(lines, r"^\s*$")).as_py() or 0
    return Parsed(pa.table({_LINE: lines}), len(lines) - blank)


def _numbered_lines(lines: Sequence[bytes], columns: Sequence[str], where: str, first: int) -> Numbered:
    """Lines, of which the first has this number, with the text under some keys and what cannot be read."""
    faults: list[Fault] = []
    held: dict[str, list[Any]] = {name: [] for name in columns}
    numbers = [number for number, line in enumerate(lines, first) if line.strip()]
    for number in numbers:
        content, cause = _content(lines[number - first])
        if cause is not None:
            faults.append(Fault(number, None, cause))
        for name, values in held.items():
            value = content.get(name)
            if isinstance(value, list | dict):
                faults.append(Fault(number, name, NESTED))
            values.append(value)
    texts = {name: spelled(values).combine_chunks() for name, values in held.items()}
    return Numbered(where, numbers, texts, faults, len(numbers))


def _content(line: bytes) -> tuple[dict[str, Any], Cause | None]:
    """The object of a line; an empty one, and the cause, where there is none."""
    text = decoded(line)
    if text is None:
        return {}, NOT_UTF_8
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}, NOT_JSON
    return (content, None) if isinstance(content, dict) else ({}, NO_OBJECT)


def _value_of(column: str) -> str:
    """SQL for the JSON under a key of `line`; null where there is none."""
    pointer = "/" + column.replace("~", "~0").replace("/", "~1")
    literal = "'" + pointer.replace("'", "''") + "'"
    return f"TRY(json_extract({_LINE}, {literal}))"


def _text_of(value: str) -> str:
    """SQL for JSON as text; `value` is the name of a column.

    A number with a fraction or an exponent is written as ECMAScript writes the double it is.
    """
    text = f"CAST({value} AS VARCHAR)"
    double = f"TRY_CAST({text} AS DOUBLE)"
    return (
        f"CASE WHEN {text}[1] = '\"' THEN json_extract_string({value}, '$') "
        f"WHEN {text}[1] IN ('{{', '[', 'n') THEN NULL "
        f"WHEN regexp_matches({text}, '[.eENI]') AND {text} NOT IN ('true', 'false') THEN "
        f"CASE WHEN isfinite({double}) THEN {_double_text(double)} END "
        f"WHEN {text} = '-0' THEN '0' ELSE {text} END"
    )


def _double_text(double: str) -> str:
    """SQL for a finite double as text: `questions.doubles.double_text`. DuckDB writes doubles as Python does."""
    text = f"CAST({double} AS VARCHAR)"
    sign = f"CASE WHEN {double} < 0 THEN '-' ELSE '' END"
    digits = f"regexp_replace(split_part({text}, 'e', 1), '[-.]', '', 'g')"
    exponent = f"TRY_CAST(split_part({text}, 'e', 2) AS INTEGER)"
    return (
        f"CASE WHEN NOT contains({text}, 'e') THEN "
        f"CASE WHEN NOT suffix({text}, '.0') THEN {text} WHEN {text} = '-0.0' THEN '0' ELSE {text}[:-3] END "
        f"WHEN {exponent} BETWEEN 0 AND 20 THEN {sign} || rpad({digits}, {exponent} + 1, '0') "
        f"WHEN {exponent} BETWEEN -6 AND -1 THEN {sign} || '0.' || repeat('0', -1 - {exponent}) || {digits} "
        f"ELSE regexp_replace({text}, 'e([-+])0', 'e\\1') END"
    )
