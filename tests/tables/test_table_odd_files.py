"""A single value that the reading of a file stumbles over is no value, and changes nothing for anybody else."""

from __future__ import annotations

import functools
import gzip
import itertools
import math
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import NOON, tallied, written

from thresher.errors import InvalidSetting
from thresher.questions import Bins, Cells, Prefixes, Values
from thresher.questions.conditions import Between, Where
from thresher.questions.filtered import Filtered
from thresher.tables import json_files, record_stream
from thresher.tables.csv_files import Header, parsed
from thresher.tables.record_stream import Place, blocks, whole_records


@pytest.mark.slow
@pytest.mark.parametrize("unit", [None, "person"])
def test_text_in_parquet_that_is_not_utf_8(tmp_path: Path, unit: str | None) -> None:
    def column(*octets: bytes) -> pa.Array:
        stored = pa.array(octets, pa.binary())
        return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())

    values, persons = (b"a", b"a", b"a", b"a", b"\xff"), (b"1", b"2", b"3", b"\xff", b"4")
    people = pa.table({"value": column(*values), "person": column(*persons)})
    pq.write_table(people, tmp_path / "people.parquet")
    expected = [("a", 4 if unit is None else 3)]
    assert tallied(str(tmp_path / "people.parquet"), Values(("value",)), unit)[1:] == expected
    assert tallied(str(tmp_path / "people.parquet"), Prefixes("value", 1), unit)[1:] == [("a", expected[0][1])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("narrow", "wide", "held", "odd"),
    [
        (pa.int32(), pa.int64(), 7, [2**40, -(2**63)]),
        (pa.uint8(), pa.int16(), 7, [-1]),
        (pa.float32(), pa.float64(), 0.5, [1e300, float("nan"), 1e-300]),
        (pa.string(), pa.dictionary(pa.int32(), pa.large_string()), "a", ["b"]),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Paris"), NOON, [2**63 - 1]),
        (pa.null(), pa.string(), "a", ["b"]),
        (pa.null(), pa.timestamp("us"), NOON, [2**63 - 1]),
    ],
)
@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("wide_first", [False, True])
def test_files_with_a_column_of_several_widths(
    tmp_path: Path,
    narrow: pa.DataType,
    wide: pa.DataType,
    held: Any,
    odd: list[Any],
    unit: str | None,
    wide_first: bool,
) -> None:
    def made(odd: list[Any]) -> str:
        people = [
            pa.table({"value": pa.array(values, kind), "person": range(start, start + len(values))})
            for values, kind, start in (
                ([None if pa.types.is_null(narrow) else held] * 3, narrow, 0),
                ([held] * 3 + odd, wide, 3),
            )
        ]
        return written(tmp_path, *(reversed(people) if wide_first else people))

    for value in odd:
        found = tallied(made([value]), Values(("value",)), unit)
        assert found == tallied(made([]), Values(("value",)), unit)
        assert [number for _, number in found[1:]] == [3 if pa.types.is_null(narrow) else 6]


def test_units_of_several_widths(tmp_path: Path) -> None:
    def made(odd: int | None) -> str:
        first = pa.table({"value": ["a"] * 3, "person": pa.array(range(3), pa.int32())})
        second = pa.table({"value": ["a"] * 2, "person": pa.array([2, odd], pa.int64())})
        return written(tmp_path, first, second)

    assert tallied(made(None), Values(("value",)), "person")[1:] == [("a", 3)]
    assert tallied(made(2**40), Values(("value",)), "person")[1:] == [("a", 4)]


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        (pa.string(), ["7", "canary", None]),
        (pa.float64(), [7.0, 1e300, float("nan"), None]),
        (pa.uint64(), [7, 2**64 - 1, None]),
        (pa.timestamp("us"), [7, None]),
        (pa.list_(pa.int32()), [[7], None]),
    ],
)
@pytest.mark.slow
def test_files_with_a_column_of_several_types_are_refused_whatever_they_hold(
    tmp_path: Path, kind: pa.DataType, odd: list[Any]
) -> None:
    messages = set()
    for value in odd:
        people = [
            pa.table({"value": pa.array(values, kind), "other": ["a"] * len(values)})
            for values, kind in (([7] * 3, pa.int32()), ([value], kind))
        ]
        pattern = written(tmp_path, *people)
        assert tallied(pattern, Values(("other",)))[1:] == [("a", 4)]
        for column, unit in (("value", None), ("other", "value")):
            with pytest.raises(InvalidSetting) as caught:
                tallied(pattern, Values((column,)), unit)
            messages.add(str(caught.value))
    (message,) = messages
    assert all(part in message for part in ("'value'", "int32", str(kind).partition("<")[0]))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".json.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "odd",
    [
        ("[]",),
        ('["\\ud800"]',),
        ("[1,2",),
        ('[{"value":"a"}',),
        ("[", "]"),
        ('["', '"]'),
        ("[1]", "[2]"),
        ("[1,", "2]"),
    ],
)
def test_no_line_turns_lines_into_an_array(tmp_path: Path, odd: tuple[str, ...], end: str, suffix: str) -> None:
    path = tmp_path / f"people{suffix}"
    first, *last = odd
    content = end.join([first, *['{"value":"a"}'] * 4, *last]).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert tallied(str(path), Values(("value",)))[1:] == [("a", 4)]


def test_a_line_feed_between_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.json"
    path.write_bytes(b'[1,\n{"value":"a"}\r\n{"value":"a"}\r\n2]')
    for size in range(1, 40):
        monkeypatch.setattr(json_files, "blocks", functools.partial(blocks, size=size))
        assert not json_files.is_array(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("odd", ['{"value": "}\\n{"}', "[]", '["]"]', '"]"', "null"])
def test_no_element_turns_an_array_into_lines(tmp_path: Path, odd: str) -> None:
    held = '{"value":"a"}'
    for name, between in (("a.json", ",\n"), ("b.json", ","), ("c.json", "\n,\n")):
        (tmp_path / name).write_text("[" + between.join([odd, held, held, odd]) + "]\n", encoding="utf-8")
    (tmp_path / "d.json").write_text(held + "\n" + held, encoding="utf-8")
    assert dict(tallied(str(tmp_path / "*.json"), Values(("value",)))[1:])["a"] == 8


def test_parts_of_a_json_array_that_cannot_be_read(tmp_path: Path) -> None:
    held = '{"value": "a]},", "more": [{"x": "\\\\"}]}'
    odd = ['{"value": "\\ud800"}', '{"value": "\\q"}', '["value"]', "7", '{"value":\n"\u00e9"}']
    path = tmp_path / "people.json"
    path.write_text("[" + ",\n".join([held, *odd, held, held]) + "]", encoding="utf-8")
    assert tallied(str(path), Values(("value",)))[1:] == [("a]},", 3)]


def test_elements_of_a_json_array() -> None:
    held = ["7", '"]}"', '"\\""', "{}", '{"a": [{"b": "]"}, {}]}', "[" * 9 + '"],["' + "]" * 9, '{"a"\n: "\\ud800"}']
    for chosen in itertools.permutations(held, 3):
        array = f" [{','.join(chosen)} , {{}}]\n".encode()
        lines = b"".join(json_files.elements(array)).decode().splitlines()
        assert [line.strip() for line in lines] == [*(each.replace("\n", " ") for each in chosen), "{}"]
    for damaged in (b"[{}", b"[[]", b'["]', b"[{}]]", b"[{}},{}]"):
        with pytest.raises(ValueError):
            list(json_files.elements(damaged))


@pytest.mark.parametrize("odd", ['5" pipe', '"open', '"', '5""', 'a"b"c'])
@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_stray_quote_is_a_quote(odd: str, size: int) -> None:
    content = f"1,a\n2,{odd}\n3,a\n" + "4,a\n" * 5
    blocks = (content.encode()[start : start + size] for start in range(0, len(content), size))
    tables = [parsed(chunk, Header(("n", "value"), ",", 0), ["value"]).rows for chunk in whole_records(blocks, ",")]
    assert [text for table in tables for text in table["value"].to_pylist()] == ["a", odd, "a", *["a"] * 5]


def test_a_stray_quote_moves_no_end_of_a_record() -> None:
    content = b'1,5" pipe\n' + b'2,"a\nb"\n' * 30
    for size in range(1, 40):
        blocks = (content[start : start + size] for start in range(0, len(content), size))
        chunks = list(whole_records(blocks, ","))
        assert b"".join(chunks) == content
        assert all(chunk.endswith((b'"\n', b"pipe\n")) for chunk in chunks)


def ends_of_records(content: bytes) -> set[int]:
    """Where records end, read byte by byte."""
    ends, place = {len(content)}, "start"
    for index, byte in enumerate(content.decode()):
        if byte == '"' and place in ("start", "after a quote"):
            place = "quoted"
        elif place == "quoted":
            place = "after a quote" if byte == '"' else place
        elif byte in ",\n":
            place = "start"
            ends |= {index + 1} if byte == "\n" else set()
        else:
            place = "plain"
    return ends


@pytest.mark.slow
def test_records_end_in_the_same_places_whatever_blocks_they_come_in() -> None:
    random = Random(7)
    for _ in range(1500):
        content = "".join(random.choices('"a,\n', k=random.randint(1, 24))).encode()
        expected = ends_of_records(content)
        for size in (1, 2, 3, 5, 24):
            parts = (content[start : start + size] for start in range(0, len(content), size))
            chunks = list(whole_records(parts, ","))
            found = list(itertools.accumulate(map(len, chunks)))
            assert b"".join(chunks) == content
            assert set(found) <= expected
            assert size > 1 or set(found) == expected


def test_a_record_of_stray_quotes_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    read = record_stream._read_to_the_last_end

    def counted(block: bytes, delimiter: str, place: Place) -> tuple[int, Place]:
        lengths.append(len(block))
        return read(block, delimiter, place)

    monkeypatch.setattr(record_stream, "_read_to_the_last_end", counted)
    content = b"1," + b'z",' * 20_000 + b"\n"
    parts = (content[start : start + 100] for start in range(0, len(content), 100))
    assert list(whole_records(parts, ",")) == [content]
    assert sum(lengths) <= len(content)


@pytest.mark.slow
@pytest.mark.parametrize("read", [str, duckdb.read_parquet], ids=["file", "relation"])
@pytest.mark.parametrize("other", [2.0, math.inf])
def test_nan_in_parquet_is_no_value_whatever_others_hold(tmp_path: Path, read: Any, other: float) -> None:
    """The statistics of Parquet leave NaN out, so that DuckDB takes it for absent unless somebody holds infinity."""
    held = [1.0] * 5 + [math.nan] * 4 + [other] * 3
    persons = [math.nan, *map(float, range(11))]
    pq.write_table(pa.table({"x": held, "person": persons, "group": ["a"] * 12}), tmp_path / "people.parquet")
    data = read(str(tmp_path / "people.parquet"))
    assert sorted(tallied(data, Values(("x",)))[1:]) == [(1.0, 5), (other, 3)]
    assert tallied(data, Bins("x", (0, 5)))[1:] == [(0.0, 8 if other < 5 else 5)]
    assert sum(count for _, count in tallied(data, Cells("x", 0, 5, 5))[1:]) == 8
    assert tallied(data, Filtered(Values(("group",)), Where((Between("x", 0, None),))))[1:] == [("a", 8)]
    assert tallied(data, Values(("group",)), "person")[1:] == [("a", 11)]


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "p", "\rq"])
def test_a_mark_of_a_files_start_inside_the_file_is_part_of_a_value(tmp_path: Path, more: str) -> None:
    """Arrow takes it off whatever it reads first, and which record a chunk begins with depends on all before it."""
    size = 64
    marked, plain = (f"{name},".encode().ljust(size - 1, b"p") + b"\n" for name in ("\ufeffx", "y"))
    each = record_stream.CHUNK // size
    records = [marked if number % each == 0 else plain for number in range(3 * each)]
    records[1] = plain.rstrip() + more.encode() + b"\n"
    (tmp_path / "people.csv").write_bytes(b"a,b\n" + b"".join(records))
    found = tallied(str(tmp_path / "people.csv"), Values(("a",)))[1:]
    assert sorted(found) == [("y", 3 * each - 3), ("\ufeffx", 3)]
