"""No row decides a type: untyped columns are text, read value by value where a question needs more."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import DECLARED, counted

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Below, Bins, Cells, Dates, Joint, Prefixes, Values
from thresher.questions.spelling import as_text, read_boolean, read_date, read_float, read_time, read_whole
from thresher.tables import Table
from thresher.tables.csv_files import Header, parsed
from thresher.tables.duckdb_connection import connect
from thresher.tables.objects import spelled
from thresher.tables.record_stream import whole_records
from thresher.tables.text_reading import text_as

TARGET = {"epsilon": 1.0, "delta": 1e-8}
connection = connect(1)
connection.execute("SET preserve_insertion_order = true")
READERS = {
    "whole numbers": read_whole,
    "floats": read_float,
    "booleans": read_boolean,
    "dates": read_date,
    "times": read_time,
}

numbers = st.one_of(
    st.text(" +-.eE_x0123456789\n", max_size=12),
    st.floats().map(repr),
    st.integers(-(2**66), 2**66).map(str),
    st.sampled_from(["inf", "nan", "1_000", "0x10", "1,5", "１２", "9" * 99, "9" * 101, "1e400", "1e-400", "+-5", "."]),
)
moments = st.one_of(
    st.text("0123456789-: TZ+.", max_size=26),
    st.datetimes().map(lambda time: time.isoformat()),
    st.builds(
        lambda time, between, offset: time.isoformat(sep=between) + offset,
        st.datetimes(),
        st.sampled_from("T "),
        st.sampled_from(["", "Z", "+02", "-0530", "+14:00", "-23:59", "+24:00", " ", "z"]),
    ),
    st.sampled_from(["2024-02-30", "0000-01-01", "2024-01-31T24:00", "2024-01-31T23:59:60", "epoch", "06/13/2024"]),
)
truths = st.one_of(st.sampled_from(["true", "TRUE", " False ", "t", "1", "yes", ""]), st.text("trueTRUE ", max_size=6))


@pytest.mark.slow
@settings(max_examples=25)
@given(texts=st.lists(st.one_of(numbers, moments, truths, st.text(max_size=5)), min_size=1, max_size=300))
def test_columns_of_text_are_read_as_single_texts_are(texts: list[str]) -> None:
    column = connection.from_arrow(pa.table({"t": pa.array(texts, pa.string())}))
    for kind, read in READERS.items():
        found = column.project(f"{text_as(kind, 't')} AS t").to_arrow_table().column(0)  # type: ignore[arg-type]
        assert found.to_pylist() == [read(text) for text in texts], kind
        assert DECLARED[found.type] == kind


def test_what_is_read_as_a_number_and_as_a_time() -> None:
    for text, number in {" 7 ": 7.0, "+7.50": 7.5, ".5": 0.5, "5.": 5.0, "1e3": 1000.0, "-0.0": 0.0}.items():
        assert read_float(text) == number
    for text in ("inf", "-Infinity", "nan", "1_000", "0x10", "7,5", "", "1e400", "٣", "7" * 101, "7\x00"):
        assert read_float(text) is None
    for text, whole in {"007": 7, "7.0": 7, "-7.": -7, str(2**63 - 1): 2**63 - 1}.items():
        assert read_whole(text) == whole
    for text in ("7.5", "1e3", str(2**63), "--7"):
        assert read_whole(text) is None
    assert read_time("2024-01-31T20:00:00-05:00") == dt.datetime(2024, 2, 1, 1)
    assert read_time("2024-01-31 20:00:00.123456789") == dt.datetime(2024, 1, 31, 20, 0, 0, 123456)
    assert read_date("2024-01-31") == dt.date(2024, 1, 31)
    for text in ("06/13/2024", "13.06.2024", "20240613", "2024-6-13", "2024-W24-4", "0001-01-01T00:00+01:00"):
        assert read_time(text) is None


# Files.


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, delimiter="\t" if path.suffix == ".tsv" else ",", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_files_columns_are_text_and_are_read_where_a_question_needs_more(tmp_path: Path, ending: str) -> None:
    rows = [{"age": 30, "day": "2024-01-31", "share": 0.5}] * 3
    rows += [{"age": "HIV+", "day": "06/13/2024", "share": "half"}, {"age": 7.5, "day": "2024-02-01T20:00", "share": 2}]
    path = written(tmp_path / f"people.{ending}", rows)
    assert counted(Table(path), Values(("age",))) == {"30": 3, "HIV+": 1, "7.5": 1}
    assert counted(Table(path), Bins("age", (0, 10, 100))) == {10.0: 3, 0.0: 1}
    assert counted(Table(path), Cells("share", 0, 4, 4)) == {0: 3, 2: 1}
    assert counted(Table(path), Below("age", 20.0)) == {True: 1, False: 3}
    assert counted(Table(path), Dates("day", "month")) == {dt.date(2024, 1, 1): 3, dt.date(2024, 2, 1): 1}
    assert counted(Table(path), Joint((Values(("age",)), Dates("day", "day")))) == {
        ("30", dt.date(2024, 1, 31)): 3,
        ("7.5", dt.date(2024, 2, 1)): 1,
    }
    assert counted(Table(path), Prefixes("age", 1)) == {"3": 3, "H": 1, "7": 1}
    declared = Table(path, types={"age": "whole numbers", "day": "dates"})
    assert counted(declared, Values(("age",))) == {30: 3}
    assert counted(declared, Values(("day",))) == {dt.date(2024, 1, 31): 3, dt.date(2024, 2, 1): 1}
    assert counted(Table(path, types={"age": "floats"}), Values(("age",))) == {30.0: 3, 7.5: 1}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("lonely", ["HIV+", "7.5"])
def test_one_value_changes_no_type_and_no_empty_release(tmp_path: Path, ending: str, lonely: str) -> None:
    rows = [{"age": age} for age in (30, 40) for _ in range(600)]
    common = written(tmp_path / f"common.{ending}", rows)
    mixed = written(tmp_path / f"mixed.{ending}", [*rows, {"age": lonely}])
    empty = written(tmp_path / f"empty.{ending}", [{"age": lonely}])
    for settings_ in ({}, {"bins": [0, 35, 100]}, {"types": {"age": "whole numbers"}}):
        schemas = {str(th.histogram(path, "age", **settings_, **TARGET).to_arrow().schema) for path in (common, mixed)}
        schemas.add(str(th.histogram(empty, "age", **settings_, **TARGET).to_arrow().schema))
        assert len(schemas) == 1
    assert {row.bucket for row in th.histogram(mixed, "age", **TARGET)} == {"30", "40"}


def test_a_key_that_one_line_has_is_never_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"word": "a"}\n' * 900 + '{"word": "a", "canary": 1}\n')
    release = th.histogram(path, "misspelt", **TARGET)
    assert len(release.to_arrow()) == 0
    assert str(release.to_arrow().schema.field("misspelt").type) == "string"
    assert (
        th.histogram(path, "canary", **TARGET)
        .to_arrow()
        .equals(release.to_arrow().rename_columns(["canary", *release.to_arrow().column_names[1:]]))
    )


def test_json_values_are_spelled_as_fleets_spell_them(tmp_path: Path) -> None:
    held: list[Any] = [42, -7, 2**64 - 1, 2**70, True, False, "a", "é\u0301", "42", '"', "nul\x00l"]
    held += [1.0, 0.1, -0.0, 1e5, 1e15, 1e16, -1.25e17, 1e20, -123456789012345680000.0, 1e21, 1e22, 1.5e300, 5e-324]
    held += [0.0001, -0.00012, 1e-5, -1.25e-6, 1e-6, 9.5e-7, 1e-7, -1.5e-10, 2.0**53, 999999999999999900000.0]
    nothing: list[Any] = [None, [1], {"a": 1}, [], {}]
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"x": value}) + "\n" for value in [*held, *nothing]) + '{"y": 1}\n{"x": 1, "x": 2}\n'
    )
    found = counted(Table(path), Values(("x",)))
    spellings = [as_text(value) for value in held] + ["1"]
    assert found == {text: spellings.count(text) for text in spellings}


@pytest.mark.slow
def test_lines_that_are_not_json_lose_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good = b'{"word": "a", "n": {"m": 1}}\n'
    for bad in (
        b'{"word": "b\n',
        b'{"word": "\xff"}\n',
        b"\n",
        b"[1]\n",
        b"null\n",
        b'{"word": "\\ud800"}\n',
        b"\x00\n",
    ):
        path.write_bytes(good * 5 + bad + good * 5)
        assert counted(Table(path), Values(("word",))) == {"a": 10}, bad
    path.write_bytes(b"\xef\xbb\xbf" + good + b'{"word": "two/~"}')
    assert counted(Table(path), Values(("word",))) == {"a": 1, "two/~": 1}
    path.write_bytes(b'{"a/b~c": 1, "a\\"b": 2, "": 3}\n')
    for column, value in {"a/b~c": "1", 'a"b': "2"}.items():
        assert counted(Table(path), Values((column,))) == {value: 1}


def test_a_json_array_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"x": 1}, {"x": "1"}, {"x": None}, {"y": 2}], indent=1))
    assert counted(Table(path), Values(("x",))) == {"1": 2}
    path.write_text('{"x": 1}\n{"x": "1"}\n')
    assert counted(Table(path), Values(("x",))) == {"1": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad",
    [
        *(
            b"can\xff\xfe,1\n",
            b"can,1,2,3\n",
            b"can\n",
            b"\n",
            b"can\rfr,1\n",
            b'"can"x"y,1\n',
            b"\x00,1,2\n",
            b",,,,\n",
        ),
        *(b'"ca\nn",1,2\n', b"x" * 5_000_000 + b",1,1\n"),
    ],
)
def test_lines_that_cannot_be_read_lose_only_themselves(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"word,x\n" + b"fr,1\n" * 90 + bad + b"de,2\n" * 90)
    found = counted(Table(path), Values(("word", "x")))
    assert {key: count for key, count in found.items() if key in (("fr", "1"), ("de", "2"))} == {
        ("fr", "1"): 90,
        ("de", "2"): 90,
    }
    assert sum(found.values()) <= 181


def test_a_field_that_looks_like_rows_is_one_field(tmp_path: Path) -> None:
    """One person's long field, properly quoted: a reader that starts in its middle would count it as many rows."""
    path = tmp_path / "rows.csv"
    field = "evil,7\n" * 500_000
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["word", "x"])
        writer.writerows([["fr", 1]] * 20_000)
        writer.writerow([field, 9])
        writer.writerows([["de", 2]] * 20_000)
    found = counted(Table(path), Values(("x",)))
    assert found == {"1": 20_000, "9": 1, "2": 20_000}


fields = st.text('ab,;"\n\r\té', max_size=6).filter(lambda text: "\r" not in text or "\n" not in text)


@settings(max_examples=100)
@given(
    rows=st.lists(st.tuples(fields, fields), max_size=12),
    ending=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 40),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@pytest.mark.slow
def test_records_are_those_that_were_written_whatever_the_chunks(
    rows: list[tuple[str, str]], ending: str, size: int, quoting: Any
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=ending, quoting=quoting)
    writer.writerows(rows)
    content = text.getvalue().encode()
    blocks = (content[start : start + size] for start in range(0, len(content), size))
    tables = [parsed(chunk, Header(("a", "b"), ",", 0), ["b", "a"]).rows for chunk in whole_records(blocks, ",")]
    found = [(row["a"], row["b"]) for table in tables for row in table.to_pylist()]
    # A writer that ends lines in a line feed leaves a carriage return bare; the last one of a line is then its end's.
    bare = ending == "\n" and quoting == csv.QUOTE_MINIMAL
    meant = [(a, b.removesuffix("\r") if bare and not set(b) & set(',"\n') else b) for a, b in rows]
    assert found == [(a or None, b or None) for a, b in meant]


def test_files_with_other_columns_are_refused_by_their_headers(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n2,1\n")
    (tmp_path / "3.csv").write_text("")
    assert counted(Table(f"{tmp_path}/*.csv"), Values(("a",))) == {"1": 2}
    (tmp_path / "4.csv").write_text("a,c\n1,2\n")
    with pytest.raises(InvalidSetting, match="different columns"):
        Table(f"{tmp_path}/*.csv")


def test_names_that_differ_only_in_case_are_two_columns_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,A,"quoted, name"\n1,2,3\n')
    table = Table(tmp_path / "rows.csv", unit="A")
    assert counted(table, Values(("a", "quoted, name"))) == {("1", "3"): 1}


# Python objects.


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("canary")

    __repr__ = __float__ = __hash__ = __eq__ = __str__  # type: ignore[assignment]


OBJECTS: list[Any] = [42, "42", True, 1.5, decimal.Decimal("1.50"), dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 20)]
NOTHING: list[Any] = [None, float("nan"), pd.NaT, pd.NA, Hostile(), [1], b"x", object(), "\ud800", 10**5000]
SPELLED = {"42": 2, "true": 1, "1.5": 2, "2024-01-31": 1, "2024-01-31T20:00:00": 1}


@pytest.mark.slow
def test_objects_are_text_each_by_itself() -> None:
    import dask
    import dask.dataframe as dd

    held = OBJECTS + NOTHING
    array = np.empty(len(held), object)
    array[:] = held
    series = pd.Series(array, dtype=object)
    with dask.config.set({"dataframe.convert-string": False}):
        frames = [series.to_frame("value"), dd.from_pandas(series.to_frame("value"), npartitions=2)]
    for data in (held, tuple(held), array, series, *frames, pl.DataFrame({"value": pl.Series(held, dtype=pl.Object)})):
        assert counted(Table(data), Values(("value",))) == SPELLED, type(data)
        assert counted(Table(data), Bins("value", (0, 10, 100))) == {10.0: 2, 0.0: 2}, type(data)
        assert counted(Table(data), Dates("value", "month")) == {dt.date(2024, 1, 1): 2}
        declared = Table(data, types={"value": "whole numbers"})
        assert counted(declared, Values(("value",))) == {42: 2}


@pytest.mark.slow
def test_a_lonely_object_changes_no_type() -> None:
    common = [30] * 900
    for lonely in (None, "HIV+", 7.5, Hostile(), 2**70):
        answer = th.histogram([*common, lonely], "value", **TARGET)
        assert answer.to_arrow().schema.field("value").type == pa.string()
        assert answer.release.buckets == ["30"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (np.array([1, 2]), pa.int64()),
        (np.array([1.0]), pa.float64()),
        (np.array(["a", "\ud800"]), pa.string()),
        (np.array(["2024-01-31"], "M8[D]"), pa.date32()),
        (pd.Series([1, None], dtype="Int64"), pa.int64()),
        (pd.Series(["a", None], dtype="string"), pa.string()),
        (pd.Series([1, 2], dtype="category"), pa.int64()),
        (pd.Series([True, None], dtype="boolean"), pa.bool_()),
        (range(3), pa.int64()),
    ],
)
def test_typed_columns_keep_their_type(data: Any, kind: pa.DataType) -> None:
    release = Table(data).ask(Values(("value",)), th.plan(**TARGET))
    assert release.table.schema.field("value").type == kind


@pytest.mark.slow
def test_categories_of_mixed_objects_are_text() -> None:
    import dask.dataframe as dd

    series = pd.Series(pd.Categorical([3, "a", 3, None], categories=pd.Index([3, "a"], dtype=object)))
    assert counted(Table(series.to_frame("x")), Values(("x",))) == {"3": 2, "a": 1}
    frame = dd.from_pandas(series.to_frame("x"), npartitions=2)
    frame["x"] = frame["x"].cat.as_unknown()
    assert counted(Table(frame), Values(("x",))) == {"3": 2, "a": 1}


def test_text_is_spelled_like_single_values_in_batches_of_any_kind() -> None:
    held: list[Any] = ["a"] * 20_000 + [5] * 20_000 + ["\ud800", 2**70, 1.5, None]
    assert spelled(held).to_pylist() == [None if value == "\ud800" else as_text(value) for value in held]
    assert spelled([]).type == pa.large_string()


# Declaring.


@pytest.mark.slow
def test_text_of_typed_sources_is_read_where_it_is_declared() -> None:
    texts = ["1", "2.5", "x", None]
    for data in (
        pa.table({"x": texts}),
        pl.DataFrame({"x": texts}),
        pd.DataFrame({"x": pd.Series(texts, dtype="string")}),
        duckdb.connect().from_arrow(pa.table({"x": texts})),
    ):
        with pytest.raises(InvalidSetting, match=r"Declare what its text says. For example types=\{'x': 'floats'\}"):
            Table(data).check(Bins("x", (0, 2, 3)))
        table = Table(data, types={"x": "floats"})
        assert counted(table, Bins("x", (0, 2, 3))) == {0.0: 1, 2.0: 1}
        assert counted(table, Values(("x",))) == {1.0: 1, 2.5: 1}
    with pytest.raises(InvalidSetting, match="Cast the column in the data"):
        Table(pl.LazyFrame({"x": texts}), types={"x": "floats"})
    assert counted(Table(pl.LazyFrame({"x": texts}), types={"x": "text"}), Values(("x",))) == {"1": 1, "2.5": 1, "x": 1}


def test_units_are_read_as_declared(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,x\n7,a\n07,a\n7.0,a\nx,b\n")
    assert counted(Table(path, unit="user"), Values(("x",))) == {"a": 3, "b": 1}
    assert counted(Table(path, unit="user", types={"user": "whole numbers"}), Values(("x",))) == {"a": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("types", "told"),
    [
        ({"nope": "text"}, "types 'nope' is not in the data"),
        ({"age": "integers"}, "types of 'age' must be text, whole numbers, floats, booleans, dates or times"),
        ({"age": "decimals"}, "must be text"),
        ({"age": []}, "must be text"),
        (["age"], "types must map columns"),
        ({1: "text"}, "types must map columns"),
    ],
)
def test_wrong_declarations_are_refused_before_anything_is_spent(tmp_path: Path, types: Any, told: str) -> None:
    path = written(tmp_path / "rows.csv", [{"age": 1}])
    ledger = th.Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6)
    with pytest.raises(InvalidSetting) as caught:
        th.histogram(path, "age", types=types, ledger=ledger, **TARGET)
    assert told in str(caught.value)
    assert ledger.history() == []
    with pytest.raises(InvalidSetting, match="gives it another type"):
        th.histogram(pa.table({"age": [1]}), "age", types={"age": "dates"}, **TARGET)


def test_a_domain_of_numbers_is_text_where_the_column_is_untyped(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", [{"age": 30}] * 900)
    for domain in ([30, 40], ["30", "40"]):
        answer = th.histogram(path, "age", domain=domain, **TARGET)
        assert answer.to_arrow()["status"].to_pylist() == ["released", "below threshold"]


# What single values could stop.


@pytest.mark.slow
def test_values_beyond_their_calendar_or_64_bits_are_no_value(tmp_path: Path) -> None:
    far = [0, 2**62, -(2**62), 86_400 * 10**6]
    for unit in ("s", "ms", "us"):
        times = pa.array(far, pa.int64()).cast(pa.timestamp(unit))
        for data in (
            pa.table({"x": times}),
            *(
                []
                if unit == "s"
                else [pl.from_arrow(pa.table({"x": times})), pl.from_arrow(pa.table({"x": times})).lazy()]
            ),
            duckdb.connect().from_arrow(pa.table({"x": times})),
        ):
            for question in (Values(("x",)), Dates("x", "week"), Dates("x", "month")):
                assert sum(counted(Table(data), question).values()) <= 2, (unit, question)
    days = pa.array([0, 2**31 - 1, -(2**31), 10**7], pa.int32()).cast(pa.date32())
    for data in (pa.table({"x": days}), pl.from_arrow(pa.table({"x": days})).lazy()):
        for every in ("day", "week", "month"):
            assert len(counted(Table(data), Dates("x", every))) == 1
    for unit in ("ms", "us"):
        for zone in (None, "America/New_York"):
            times = pa.array(far, pa.int64()).cast(pa.timestamp(unit, zone))
            pq.write_table(pa.table({"x": times, "y": [1, 1, 1, 1]}), tmp_path / "far.parquet")
            for data in (
                pa.table({"x": times}),
                pl.from_arrow(pa.table({"x": times})).lazy(),
                tmp_path / "far.parquet",
            ):
                assert sum(counted(Table(data), Dates("x", "week")).values()) <= 2
    huge = duckdb.connect().sql("SELECT unnest([5, 5, 170141183460469231731687303715884105727])::HUGEINT AS x")
    assert counted(Table(huge), Values(("x",))) == {5: 2}
    assert counted(Table(huge), Below("x", 7.0)) == {True: 2}


def test_the_budget_comes_before_the_data(tmp_path: Path) -> None:
    ledger = th.Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6)
    th.histogram(["a"] * 900, "value", ledger=ledger, **TARGET)
    for data in (tmp_path / "missing.csv", ["a"], pa.table({"x": [1]}), 42):
        with pytest.raises(th.errors.BudgetExceeded):
            th.histogram(data, "value", ledger=ledger, **TARGET)


# An open look.


def test_a_look_suggests_what_the_first_rows_are(tmp_path: Path) -> None:
    rows = [{"age": 30, "day": "2024-01-31", "at": "2024-01-31T20:00", "x": 0.5, "ok": True, "word": "a", "no": ""}] * 3
    rows.append({"age": "HIV+", "day": "", "at": "", "x": "", "ok": "", "word": "", "no": ""})
    meant = {
        "age": "whole numbers",
        "day": "dates",
        "at": "times",
        "x": "floats",
        "ok": "booleans",
        "word": "text",
        "no": "text",
    }
    for ending in ("csv", "jsonl"):
        path = written(tmp_path / f"rows.{ending}", rows)
        seen = th.look(path, rows=3)
        assert seen.types == meant
        assert "word" not in seen.declared
        assert "not private" in str(seen)
        assert th.look(path).types["age"] == "text"
    with pytest.raises(InvalidSetting, match="types of its own"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
        th.look(tmp_path / "x.parquet")


def test_a_certificate_says_what_an_estimate_counts() -> None:
    table = pa.table({"user": list(range(900)), "x": ["a"] * 900})
    answer = th.histogram(table, "x", unit="user", **TARGET)
    counting = "each user is a unit and counts for one of its values, chosen at random"
    assert answer.release.certificate()["counting"] == counting
    assert counting in answer.release._subtitle(1)
    assert th.histogram(table, "x", **TARGET).release.certificate()["counting"] == "each row is a unit"
