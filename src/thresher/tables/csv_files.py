"""CSV and TSV files. The header is public, every field is text, and a record that cannot be read has no values.

Fields are separated by the file's delimiter and may be in double quotes; a quote inside them is doubled. An empty
field is no value. A record with too few or too many fields is left out; a field that is not UTF-8 has no value.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.csv as pc

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables.column_kinds import check_distinct
from thresher.tables.data_errors import FIELDS, NOT_UTF_8, QUOTES, Fault, Numbered
from thresher.tables.file_engine import TextFileEngine
from thresher.tables.file_heads import check_foreign
from thresher.tables.objects import decoded
from thresher.tables.record_stream import (
    Parsed,
    RecordStream,
    blocks,
    first_record,
    opened,
    quotes_as_usual,
    whole_records,
)

_DELIMITERS = (",", ";", "\t", "|")
_LONGEST_HEADER = 1 << 20
_PIECE = 1 << 16
"""Where a chunk has a fault, pieces of this many bytes are parsed one by one, and only the faulty one slowly."""


@dataclass(frozen=True, slots=True)
class Header:
    """A file's first record: the names of its columns, what separates them, and how many bytes it has."""

    names: tuple[str, ...]
    delimiter: str
    size: int


def read_header(file: str, *, tabs: bool) -> Header:
    """The header of a file; with `tabs` the delimiter is a tab, else the first of , ; tab | that the header holds.

    Guarantee: an error says what is wrong with the first line, and never quotes it: it may be a person's, in a file
    without a header.
    """
    check_foreign(file)
    with opened(file) as (stream, _):
        record = first_record(stream, _LONGEST_HEADER)
    line = _header_line(file, record, tabs)
    delimiter = "\t" if tabs else next((each for each in _DELIMITERS if each in line), ",")
    try:
        names = tuple(next(csv.reader([line], delimiter=delimiter), []))
    except csv.Error:
        raise _no_header(file, "cannot be split into names") from None
    check_distinct(names)
    return Header(names, delimiter, len(record or b""))


def _header_line(file: str, record: bytes | None, tabs: bool) -> str:
    """The first line as text, if it can be a header."""
    if record is None:
        raise _no_header(file, f"has more than {_LONGEST_HEADER:,} bytes")
    try:
        line = record.removeprefix(codecs.BOM_UTF8).decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise _no_header(
            file, "is not in UTF-8", "Convert the file: iconv -f WINDOWS-1252 -t UTF-8 old > new, or -f LATIN1."
        ) from None
    if "\r" in line:
        raise _no_header(file, "ends in a carriage return alone", "Convert the file: tr '\\r' '\\n' < old > new")
    if "\n" in line or "\x00" in line:
        raise _no_header(file, "has a line feed or a NUL inside a name")
    if line.lstrip().startswith(("{", "[")):
        raise _no_header(file, "begins as JSON does", "Say `format='jsonl'`, or rename the file.")
    if re.fullmatch("sep=.?", line):
        raise _no_header(file, "is a note for Excel", "Remove this line. The delimiter is found in the header.")
    if tabs and "\t" not in line and not line.startswith('"') and any(each in line for each in _DELIMITERS):
        raise _no_header(file, "has no tab, and another delimiter", "Say `format='csv'`.")
    return line


def _no_header(file: str, problem: str, hint: str = "") -> InvalidSetting:
    usual = "The first line must have the columns' names, in UTF-8, and end in a line feed."
    return InvalidSetting("data", f"{file!r} has no header line: its first line {problem}", hint=hint or usual)


class CsvEngine(TextFileEngine):
    """CSV files with the same columns, each in its own order."""

    suffixes = (".csv",)
    has_header = True
    tabs: ClassVar[bool] = False

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        super().__init__(files, connection, progress)
        self._headers = read_headers(files, tabs=self.tabs)

    def names(self) -> list[str] | None:
        """The columns of the header."""
        return columns_of(self._headers)

    def size(self) -> int | None:
        """How many records there are. Not known of a single column, where one unit's empty value is a blank line."""
        return None if any(len(header.names) == 1 for header in self._headers.values()) else super().size()

    def _stored(self, named: Mapping[str, str]) -> Any:
        places = {column: f"c{place}" for place, column in enumerate(dict.fromkeys(named.values()))}
        relation = self._streamed(field_stream(self._headers, places))
        return relation.project(", ".join(f"{places[column]} AS {name}" for name, column in named.items()))

    def numbered(self, columns: Sequence[str]) -> Iterator[Numbered]:
        """All records with their lines; a record that spans several has the first of them."""
        for file, header in self._headers.items():
            with opened(file) as (stream, _):
                line = 1 + stream.read(header.size).count(b"\n")
                for chunk in whole_records(blocks(stream, _PIECE), header.delimiter):
                    yield numbered_records(chunk, header, columns, self._place(file, "line"), line)
                    line += chunk.count(b"\n")

    @classmethod
    def first_rows(cls, files: Sequence[str], number: int) -> dict[str, list[str | None]]:
        """The first rows, as columns of text."""
        headers = read_headers(files, tabs=cls.tabs)
        names = columns_of(headers)
        rows = field_stream(headers, {name: name for name in names}).first_rows(number)
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}


class TsvEngine(CsvEngine):
    """TSV files: CSV files whose delimiter is a tab."""

    suffixes = (".tsv",)
    tabs = True


def read_headers(files: Sequence[str], *, tabs: bool) -> dict[str, Header]:
    """The header of every file that has columns. All must have the same ones, in any order."""
    headers = {file: header for file in files if (header := read_header(file, tabs=tabs)).names}
    if not headers:
        raise InvalidSetting(
            "data",
            f"{files[0]!r} has no columns: it is empty, or its first line is",
            hint="Even without rows, a file must have a line with the columns' names.",
        )
    if len({frozenset(header.names) for header in headers.values()}) > 1:
        raise InvalidSetting("data", "has files with different columns", hint="Give files with the same columns.")
    return headers


def columns_of(headers: Mapping[str, Header]) -> list[str]:
    """The columns' names, in the order of the first file."""
    return next((list(header.names) for header in headers.values()), [])


def field_stream(headers: Mapping[str, Header], columns: Mapping[str, str]) -> RecordStream:
    """Some columns as text; `columns` maps their names to the names in the stream."""
    schema = pa.schema([(name, pa.string()) for name in columns.values()])

    def chunks(file: str, stream: Any) -> Iterator[bytes]:
        stream.read(headers[file].size)
        return whole_records(blocks(stream), headers[file].delimiter)

    def parse(file: str, chunk: bytes) -> Parsed:
        rows, records = parsed(chunk, headers[file], list(columns))
        return Parsed(rows.rename_columns(schema.names), records)

    return RecordStream(list(headers), schema, chunks, parse)


def parsed(chunk: bytes, header: Header, columns: Sequence[str]) -> Parsed:
    """Whole records as a table of text."""
    quick = _quickly(chunk, header, columns)
    if quick is not None:
        return quick
    cut = (chunk[start : start + _PIECE] for start in range(0, len(chunk), _PIECE))
    pieces = whole_records(cut, header.delimiter)
    parts = [
        quick if (quick := _quickly(piece, header, columns)) is not None else _slowly(piece, header, columns)
        for piece in pieces
    ]
    return Parsed(pa.concat_tables([part.rows for part in parts]), sum(part.records for part in parts))


def _quickly(chunk: bytes, header: Header, columns: Sequence[str]) -> Parsed | None:
    """Whole records parsed by Arrow; None where Arrow would misread or refuse some of them."""
    if chunk.count(b"\r") != chunk.count(b"\r\n"):
        return None  # Arrow would end a record there
    if chunk.count(b'"') % 2 or not quotes_as_usual(chunk, header.delimiter):
        return None  # Arrow would take all that follows for one field
    if chunk.startswith(codecs.BOM_UTF8):
        chunk = b"\n" + chunk  # Arrow would take the mark of a file's start off the first field of any chunk
    skipped = itertools.count()

    def skip(row: object) -> str:
        next(skipped)
        return "skip"

    try:
        rows = pc.read_csv(
            pa.py_buffer(chunk),
            read_options=pc.ReadOptions(use_threads=False, block_size=len(chunk) + 1, column_names=list(header.names)),
            parse_options=pc.ParseOptions(
                delimiter=header.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pc.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except (pa.ArrowException, ValueError):
        return None
    return Parsed(rows, len(rows) + next(skipped))


def _slowly(piece: bytes, header: Header, columns: Sequence[str]) -> Parsed:
    """Whole records parsed one by one, whatever they hold."""
    places = [header.names.index(name) for name in columns]
    values: list[list[str | None]] = [[] for _ in columns]
    records = 0
    for record in _records(piece, header.delimiter.encode()):
        records += 1
        if len(record.fields) == len(header.names):
            for held, place in zip(values, places, strict=True):
                held.append(decoded(record.fields[place]) or None)
    return Parsed(pa.table([pa.array(held, pa.string()) for held in values], names=list(columns)), records)


def numbered_records(chunk: bytes, header: Header, columns: Sequence[str], where: str, line: int) -> Numbered:
    """Whole records with their lines, of which the first one is `line`, and what cannot be read of them."""
    quick = _quickly(chunk, header, columns) if b'"' not in chunk and not _BLANK_LINE.search(chunk) else None
    if quick is not None and len(quick.rows) == quick.records:
        read = {name: quick.rows[name].combine_chunks() for name in columns}
        return Numbered(where, range(line, line + quick.records), read, [], quick.records)
    places: list[int] = []
    faults: list[Fault] = []
    counted = 0
    held: dict[str, list[str | None]] = {name: [] for name in columns}
    records = list(_records(chunk, header.delimiter.encode()))
    for record in records:
        line, counted = line + chunk.count(b"\n", counted, record.start), record.start
        if not record.well_quoted:
            faults.append(Fault(line, None, QUOTES))
        if len(record.fields) != len(header.names):
            faults.append(Fault(line, None, FIELDS))
            continue
        places.append(line)
        for name, texts in held.items():
            octets = record.fields[header.names.index(name)]
            texts.append(decoded(octets) or None)
            if octets and texts[-1] is None:
                faults.append(Fault(line, name, NOT_UTF_8))
    read = {name: pa.array(texts, pa.string()) for name, texts in held.items()}
    return Numbered(where, places, read, faults, len(records))


_BLANK_LINE = re.compile(rb"(?:\A|\n)\r?\n")


class _Record(NamedTuple):
    """The fields of a record, where it starts, and whether each double quote in it is where it should be."""

    fields: list[bytes]
    start: int
    well_quoted: bool


def _records(piece: bytes, delimiter: bytes) -> Iterator[_Record]:
    """The records one by one; blank lines are no records, as they are none to Arrow."""
    between = re.escape(delimiter)
    quoted = rb'"([^"]*(?:""[^"]*)*)"([^' + between + rb"\n]*)"
    field = re.compile(rb"(?:" + quoted + rb"|([^" + between + rb"\n]*))(" + between + rb"|\n|\Z)")
    record: list[bytes] = []
    place = start = 0
    well_quoted = True
    while place < len(piece) or record:
        found = field.match(piece, place)
        assert found is not None
        inner, after, plain, end = found.groups()
        last = end != delimiter
        if last and not record and inner is None and plain in (b"", b"\r"):
            place = start = found.end()
            continue
        if last:
            after, plain = (part and part.removesuffix(b"\r") for part in (after, plain))
        record.append(plain if inner is None else inner.replace(b'""', b'"') + after)
        well_quoted &= not after and not (plain or b"").startswith(b'"')
        place = found.end()
        if last:
            yield _Record(record, start, well_quoted)
            record, start, well_quoted = [], place, True
