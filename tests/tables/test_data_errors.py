"""Data errors: said by line and column to whoever asks for them, and to nobody else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thresher as th
from thresher.errors import InvalidSetting
from thresher.tables import DataErrors, look
from thresher.tables.data_errors import cause_of

TARGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-8}
CANARY = "canary"
GOOD = [f"{place},fr,{place % 90}" for place in range(200)]


def written(path: Path, *odd: str | bytes, header: str = "user,country,age") -> str:
    """A CSV file whose first records are odd; the first of them is in line 2."""
    records = [line if isinstance(line, bytes) else line.encode() for line in (header, *odd, *GOOD)]
    path.write_bytes(b"\n".join(records) + b"\n")
    return str(path)


def found(data: Any, **settings: Any) -> DataErrors:
    """The data errors of a quantile of age among the French."""
    errors = th.quantiles(
        data, "age", 0.5, lower=0, upper=100, where={"country": "fr"}, show_data_errors=True, **TARGET, **settings
    )
    assert isinstance(errors, DataErrors)
    assert CANARY not in f"{errors} {errors!r} {errors.to_dict()}"
    return errors


def said(errors: DataErrors) -> list[tuple[str | None, str, int, tuple[str, ...]]]:
    return [(each.column, each.cause.words, each.number, each.places) for each in errors]


@pytest.mark.parametrize(
    ("odd", "column", "problem", "remedy"),
    [
        ("1,fr", None, "too few or too many fields", "double quotes"),
        (f"1,fr,3,{CANARY}", None, "too few or too many fields", "double quotes"),
        (f'1,"{CANARY}" x,3', None, "double quote", "twice"),
        (f"1,{CANARY}é,3".encode("latin-1"), "country", "not UTF-8", "iconv"),
        ("1,fr,N/A", "age", "N/A, NULL or -", "Leave it empty"),
        ("1,fr,NULL", "age", "N/A, NULL or -", "Leave it empty"),
        ("1,fr,-", "age", "N/A, NULL or -", "Leave it empty"),
        ('1,fr,"1,000"', "age", "comma", "1000 and 7.5"),
        ('1,fr,"7,5"', "age", "comma", "1000 and 7.5"),
        ("1,fr,1 000", "age", "comma", "1000 and 7.5"),
        ("1,fr,$5", "age", "currency", "number alone"),
        ("1,fr,5 %", "age", "currency", "number alone"),
        ("1,fr,1e999", "age", "too large", "finite"),
        (f"1,fr,{CANARY}", "age", "something else", "declare"),
    ],
)
def test_each_error_names_its_line_its_column_and_what_to_do(
    tmp_path: Path, odd: str | bytes, column: str | None, problem: str, remedy: str
) -> None:
    (error,) = found(written(tmp_path / "people.csv", "1,fr,7", odd))
    assert (error.column, error.number, error.places) == (column, 1, ("line 3",))
    assert problem in error.cause.words
    assert remedy in error.cause.remedy
    assert error.kind == ("floats" if column == "age" else "text" if column else None)


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("31/01/2024", "dates", "date in another form"),
        ("Jan 31, 2024", "times", "date in another form"),
        ("20240131", "dates", "date in another form"),
        ("yes", "booleans", "another word for true"),
        ("1", "booleans", "another word for true"),
        ("7.5", "whole numbers", "a fraction"),
        ("9" * 30, "whole numbers", "too large"),
        ("12 345,67 €", "floats", "currency"),
        ("1'000", "floats", "thousands"),
        ("#N/A", "floats", "N/A, NULL or -"),
        ("abc", "whole numbers", "something else"),
        ("abc", "dates", "something else"),
    ],
)
def test_causes(text: str, kind: Any, problem: str) -> None:
    assert problem in cause_of(text, kind).words


def test_lines_are_counted_as_editors_count_them(tmp_path: Path) -> None:
    content = 'user,country,"a\nge"\n1,fr,5\n\n2,"f\nr",x\r\n\r\n3,fr,y\n4,fr\n5,fr,z'
    (tmp_path / "a.csv").write_text(content, encoding="utf-8", newline="")
    with pytest.raises(InvalidSetting, match="line feed"):  # a header has one line
        th.mean(tmp_path / "a.csv", "age", lower=0, upper=9, **TARGET)
    (tmp_path / "a.csv").write_text(content.replace("a\nge", "age"), encoding="utf-8", newline="")
    errors = th.mean(tmp_path / "a.csv", "age", lower=0, upper=9, show_data_errors=True, **TARGET)
    assert [each.places for each in errors] == [("line 8",), ("line 4", "line 7", "line 9")]
    assert errors.records == 5


def test_many_errors_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    file = written(tmp_path / "people.csv", *["1,fr,N/A"] * 15_000)
    (error,) = found(file)
    assert (error.number, error.places[0], error.places[-1]) == (15_000, "line 2", "line 11")
    assert "and 14,990 more" in str(error)


def test_several_files_are_told_apart(tmp_path: Path) -> None:
    written(tmp_path / "a.csv")
    written(tmp_path / "b.csv", "1,fr,-")
    assert [each.places for each in found(str(tmp_path / "*.csv"))] == [("b.csv, line 2",)]


@pytest.mark.parametrize("name", ["people.jsonl", "people.log.gz", "people.json"])
def test_json(tmp_path: Path, name: str) -> None:
    good = [json.dumps({"age": place % 90, "country": "fr"}) for place in range(200)]
    odd = ['{"age": "N/A", "country": "fr"}', '{"age": [1], "country": "fr"}', "7", '{"age": ']
    if name == "people.json":
        content = ("[" + ",\n".join([*good, *odd[:-1]]) + "]").encode()
        where, first = "element", 201
    else:
        content = b"\n".join([*(line.encode() for line in [*odd, *good]), b'{"age": "\xe9"}', b""])
        where, first = "line", 1
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    named = {"format": "jsonl"} if "log" in name else {}
    expected = [
        (None, "JSON that is no object", 1, (f"{where} {first + 2}",)),
        *([] if where == "element" else [(None, "no JSON", 1, ("line 4",))]),
        *([] if where == "element" else [(None, "bytes that are not UTF-8", 1, ("line 205",))]),
        ("age", cause_of("N/A", "floats").words, 1, (f"{where} {first}",)),
        ("age", "neither text, number, truth value, date nor time", 1, (f"{where} {first + 1}",)),
    ]
    assert sorted(map(str, said(found(str(tmp_path / name), **named)))) == sorted(map(str, expected))


def test_a_misspelt_key_of_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"country": "fr"}\n' * 5, encoding="utf-8")
    (error,) = th.histogram(tmp_path / "a.jsonl", "contry", show_data_errors=True, **TARGET)
    assert (error.column, error.cause.words, error.number) == ("contry", "no value in any record", 5)
    assert "spelled" in error.cause.remedy


def test_frames_in_memory() -> None:
    odd = [1, "N/A", "7,5", None, float("nan"), [CANARY], b"x", "3", pd.NaT, pd.NA]
    expected = {"position 1", "position 2", "position 5", "position 6"}
    for data in (
        pd.DataFrame({"value": pd.Series(odd, dtype=object)}),
        pd.Series(odd, dtype=object, name="value"),
        odd,
    ):
        errors = th.mean(data, "value", lower=0, upper=9, show_data_errors=True, **TARGET)
        assert {place for each in errors for place in each.places} == expected
        assert errors.records == len(odd)
        assert CANARY not in str(errors)
    typed = {"types": {"value": "whole numbers"}, "show_data_errors": True}
    for frame in (pl.DataFrame({"value": ["1", "a"]}), pa.table({"value": ["1", "a"]})):
        (error,) = th.histogram(frame, "value", **typed, **TARGET)
        assert error.places == ("position 1",)
    assert not th.histogram(pa.table({"value": [1, 2]}), "value", show_data_errors=True, **TARGET)


def test_parquet(tmp_path: Path) -> None:
    octets = pa.array([b"1", b"x", b"\xff", None], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 4, octets.buffers())
    pq.write_table(pa.table({"value": column}), tmp_path / "a.parquet")
    errors = th.histogram(tmp_path / "a.parquet", "value", types={"value": "floats"}, show_data_errors=True, **TARGET)
    assert {(each.cause.words, each.places) for each in errors} == {
        ("something else", ("row 2",)),
        ("bytes that are not UTF-8", ("row 3",)),
    }


def test_other_data_is_refused(tmp_path: Path) -> None:
    asked = {"show_data_errors": True, **TARGET}
    with pytest.raises(InvalidSetting, match=r"show_data_errors is for files and for frames in memory, not for Polars"):
        th.histogram(pl.LazyFrame({"value": ["a"]}), "value", **asked)


@pytest.mark.slow
def test_nothing_is_drawn_or_charged(tmp_path: Path) -> None:
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=3, delta=1e-6)
    for odd, number in ((["1,fr,N/A"], 1), ([], 0)):
        assert len(found(written(tmp_path / "people.csv", *odd), ledger=ledger)) == number
    assert ledger.history() == []
    table = th.tables.Table(written(tmp_path / "people.csv", "1,fr,-"))
    with table:
        assert len(found(table)) == 1


@pytest.mark.slow
def test_whether_there_is_an_answer_does_not_depend_on_what_one_person_holds(tmp_path: Path) -> None:
    """Without the switch there is always an answer, of the same schema; with it there never is one."""
    schemas = set()
    for odd in ("1,fr,7", "1,fr,N/A", "1,fr", f"1,{CANARY},{CANARY}", b"1,\xff,\xff", '1,"fr,7'):
        file = written(tmp_path / "people.csv", odd)
        answer = th.histogram(file, "age", types={"age": "whole numbers"}, **TARGET)
        schemas.add(str(answer.to_arrow().schema))
        assert isinstance(found(file), DataErrors)
    assert len(schemas) == 1


def test_a_first_line_that_looks_like_data_is_said_first(tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text("17,fr,linux\n18,de,mac\n", encoding="utf-8")
    for said in (
        look(data),
        look(data, show_data_errors=True).data_errors,
        th.histogram(data, "fr", show_data_errors=True, **TARGET),
    ):
        assert said.headless
        assert str(said).startswith("The first line looks like data")
    data.write_text("age,country,os\n17,fr,linux\n", encoding="utf-8")
    assert not look(data).headless
    (tmp_path / "years.json").write_text('{"2024": 7}', encoding="utf-8")  # its keys are no header
    assert not look(tmp_path / "years.json", show_data_errors=True).data_errors.headless


def test_an_open_look_at_the_whole_file(tmp_path: Path) -> None:
    file = written(tmp_path / "people.csv", *["1,fr,N/A"] * 60, "1,fr,7;5")
    seen = look(file)
    assert seen.types["age"] == "text"
    assert seen.data_errors is None
    seen = look(file, show_data_errors=True)
    assert seen.types["age"] == "whole numbers"  # marks for no value do not speak against it
    assert [(each.column, each.number) for each in seen.data_errors] == [("age", 60), ("age", 1)]
    assert "line 62" in str(seen)
    seen = look(file, types={"user": "booleans"}, show_data_errors=True)
    assert seen.types["user"] == "booleans"
    with pytest.raises(InvalidSetting, match="types 'usr' is not in the data"):
        look(file, types={"usr": "booleans"})
    (tmp_path / "a.json").write_text('[{"age": 7}, {"age": 8}]', encoding="utf-8")
    assert look(tmp_path / "a.json").types == {"age": "whole numbers"}
