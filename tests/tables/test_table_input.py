"""Whatever is given: a clear error that never shows a value, or the right answer."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import logging
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import Maker, counted, opened

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Below, Bins, Cells, Dates, Joint, Prefixes, Question, Values
from thresher.tables import Table

CANARY = "canary-4711"
PLAN = th.Plan(0.3, 20, 1.0, 1e-3)


def refused(action: Callable[[], Any]) -> str:
    """The message of the error; nothing that anyone could log of it holds the canary."""
    with pytest.raises(InvalidSetting) as caught:
        action()
    error = caught.value
    told = "".join(traceback.format_exception(error, chain=True)) + repr(error.__context__) + repr(error.__cause__)
    # The lines of this file are quoted in the traceback; they name the canary, not its content.
    assert CANARY not in told
    return str(error)


def people() -> pa.Table:
    return pa.table(
        {
            "country": ["fr", "de", CANARY],
            "age": [30, 40, 50],
            "seen": [dt.date(2024, 1, 1)] * 3,
            "flag": [True, False, None],
            "list": [[1], [2], [3]],
            "count": [1, 2, 3],
        }
    )


@pytest.mark.slow
def test_a_missing_column_suggests_close_names(engine: Maker) -> None:
    data = people().select(["country", "age"])
    assert "'country'" in refused(lambda: Table(engine(data)).check(Values(("contry",))))
    assert "Did you mean 'age'?" in refused(lambda: Table(engine(data)).ask(Bins("Age", (0, 1)), PLAN))
    assert "The columns are 'country', 'age'." in refused(lambda: Table(engine(data)).check(Values(("zzz",))))
    assert refused(lambda: Table(engine(data), unit="user")).startswith("unit 'user' is not in the data.")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (
            Bins("country", (0, 1)),
            "column 'country' holds text, and this question reads whole numbers, floats or decimals",
        ),
        (Cells("country", 0, 1, 4), "'country' holds text"),
        (Below("flag", 1.0), "'flag' holds booleans"),
        (Prefixes("age", 3), "column 'age' holds whole numbers, and this question reads text"),
        (Dates("age", "day"), "'age' holds whole numbers, and this question reads dates or times"),
        (Bins("seen", (0, 1)), "'seen' holds dates"),
        (Joint((Values(("country",)), Bins("seen", (0, 1)))), "'seen' holds dates"),
    ],
)
def test_a_column_of_the_wrong_kind_is_refused_before_anything_is_counted(
    engine: Maker, question: Question, told: str
) -> None:
    data = people().select(["country", "age", "seen", "flag"])
    assert told in refused(lambda: opened(engine, data).check(question))


def test_types_that_cannot_be_counted_are_refused(local: Maker) -> None:
    data = pa.table({"list": [[1], [2]], "huge": pa.array([1, 2**64 - 1], pa.uint64())})
    population = Table(local(data))
    # A list in pandas is a Python object: it has no value.
    for column in [name for name in data.column_names if not population._engine.untyped(name)]:
        assert "cannot be counted" in refused(lambda column=column: population.check(Values((column,))))


def test_names_of_a_release_are_taken(local: Maker) -> None:
    assert "Rename it" in refused(lambda: Table(local(people().select(["count"]))).check(Values(("count",))))


@pytest.mark.slow
def test_awkward_column_names_work(engine: Maker) -> None:
    names = ['a "quoted" name', "select", "v0", "u", "k0", "n", "w", "dotted.name", "naïve 🎉", "it's", "`tick`"]
    data = pa.table({name: [position] * 3 for position, name in enumerate(names)})
    population = Table(engine(data))
    for position, name in enumerate(names):
        assert counted(population, Values((name,))) == {position: 3}
    assert counted(Table(engine(data), unit="n"), Values(("v0", "u"))) == {(2, 3): 1}


@pytest.mark.slow
def test_names_that_differ_only_in_case_are_two_columns() -> None:
    data = pa.table({"a": [1, 1], "A": [2, 2]})
    for frame in (data, data.to_pandas(), pl.from_arrow(data), pl.from_arrow(data).lazy()):
        assert counted(Table(frame), Values(("a",))) == {1: 2}
        assert counted(Table(frame), Values(("A",))) == {2: 2}


def test_a_name_twice_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["a", "a", "b"])
    for frame in (twice, pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"])):
        assert "'a' is the name of two columns" in refused(lambda frame=frame: Table(frame).check(Values(("a",))))
        assert counted(Table(frame), Values(("b",))) == {3: 1}
    (tmp_path / "twice.csv").write_text("a,b,a\n1,2,3\n")
    pq.write_table(twice, tmp_path / "twice.parquet")
    for name in ("twice.csv", "twice.parquet"):
        assert "two columns called 'a'" in refused(lambda name=name: Table(tmp_path / name))


@pytest.mark.parametrize("data", [None, 5, {"a": [1]}, object(), np.zeros((2, 2)), lambda: 1, b"x"])
def test_data_of_another_kind_is_refused(data: Any) -> None:
    assert refused(lambda: Table(data)).startswith("data must be")


def test_missing_files_and_unknown_endings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "people.xlsx").write_text(CANARY)
    (tmp_path / "empty").mkdir()
    assert "does not exist" in refused(lambda: Table(tmp_path / "nowhere.csv"))
    assert "matches no file" in refused(lambda: Table(f"{tmp_path}/*.parquet"))
    assert "without Parquet files" in refused(lambda: Table(tmp_path / "empty"))
    assert "does not say what it is" in refused(lambda: Table(str(tmp_path / "people.xlsx")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("corrupt.parquet", b"PAR1" + CANARY.encode() * 9 + b"PAR1"),
        ("short.parquet", b"PAR1"),
        ("not.csv.gz", CANARY.encode()),
        ("utf16.csv", ("word,x\n" + f"{CANARY},1\n").encode("utf-16")),
        ("returns.csv", b"word,x\r" + CANARY.encode() + b",1\r"),
        ("array.json", b'[{"word": "a", "x": 1}, {"word": "' + CANARY.encode()),
    ],
)
def test_damaged_files_are_refused_without_a_word_of_them(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    refused(lambda: Table(path).ask(Joint((Values(("word",)), Bins("x", (0, 10)))), PLAN))


@pytest.mark.slow
def test_files_of_every_kind_are_read(tmp_path: Path) -> None:
    table = pa.table({"word": ["a", "two\nlines", 'q"', None], "x": [1, 2, 2, 3]})
    lines = (
        b'{"word": "a", "x": 1}\n{"word": "two\\nlines", "x": 2}\n{"word": "q\\"", "x": 2}\n{"word": null, "x": 3}\n'
    )
    text = 'word;x\na;1\n"two\nlines";2\n"q""";2\n;3\n'
    (tmp_path / "rows.jsonl").write_bytes(lines)
    (tmp_path / "rows.ndjson.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "rows.csv").write_text(text)
    (tmp_path / "rows.tsv").write_text(text.replace(";", "\t"))
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text.replace(";", ",").encode()))
    (tmp_path / "set").mkdir()
    pq.write_table(table.slice(0, 2), tmp_path / "set" / "part [1].parquet")
    pq.write_table(table.slice(2), tmp_path / "set" / "part [2].parquet")
    names = ["rows.jsonl", "rows.ndjson.gz", "rows.csv", "rows.tsv", "rows.csv.gz", "set", "set/*.parquet"]
    for name in names:
        for location in (tmp_path / name, f"{tmp_path}/{name}"):
            population = Table(location)
            assert counted(population, Values(("word",))) == {"a": 1, "two\nlines": 1, 'q"': 1}, name
            assert counted(population, Below("x", 2.5)) == {True: 3, False: 1}, name


@pytest.mark.slow
def test_text_of_ten_megabytes_is_counted(local: Maker) -> None:
    long = "é" * 5_000_000
    found = counted(Table(local(pa.table({"x": [long, long, "b"]}))), Values(("x",)))
    assert {len(text): count for text, count in found.items()} == {5_000_000: 2, 1: 1}


@pytest.mark.slow
def test_categories_decimals_and_times_with_a_zone_are_counted() -> None:
    words = ["b", "a", "b", None]
    moment = dt.datetime(2024, 1, 1, 23, 30)
    aware = (
        pa.array([moment], pa.timestamp("us")).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Asia/Tokyo"))
    )
    money = [decimal.Decimal("1.50"), decimal.Decimal("-2.25"), decimal.Decimal("1.50")]
    for frame in (
        pa.table({"x": pa.array(words).dictionary_encode()}),
        pd.DataFrame({"x": pd.Categorical(words)}),
        pl.DataFrame({"x": pl.Series(words, dtype=pl.Categorical)}),
        pl.LazyFrame({"x": pl.Series(words, dtype=pl.Enum(["a", "b"]))}),
        duckdb.connect().sql("SELECT unnest(['b', 'a', 'b', NULL])::ENUM('a', 'b') AS x"),
    ):
        assert counted(Table(frame), Values(("x",))) == {"a": 1, "b": 2}
    assert counted(Table(pd.DataFrame({"x": pd.Categorical([3, 4, 3])})), Values(("x",))) == {3: 2, 4: 1}
    for frame in (
        pa.table({"x": money}),
        pl.LazyFrame({"x": money}),
        duckdb.connect().from_arrow(pa.table({"x": money})),
    ):
        assert counted(Table(frame), Values(("x",))) == {"1.50": 2, "-2.25": 1}
        assert counted(Table(frame), Bins("x", (-3, 0, 1.5, 2))) == {-3.0: 1, 1.5: 2}
    for frame in (pa.table({"x": aware}), pl.from_arrow(pa.table({"x": aware})).lazy()):
        assert counted(Table(frame), Dates("x", "day")) == {dt.date(2024, 1, 1): 1}
        assert counted(Table(frame, time_zone="Asia/Tokyo"), Values(("x",))) == {dt.datetime(2024, 1, 2, 8, 30): 1}
    known = uuid.UUID(int=5)
    assert counted(Table(duckdb.connect().sql(f"SELECT '{known}'::UUID AS x")), Values(("x",))) == {str(known): 1}


def test_columns_in_memory_are_not_copied() -> None:
    numbers = np.arange(1000)
    held = Table(numbers)._engine.column("value").chunk(0)
    assert held.buffers()[1].address == numbers.ctypes.data
    frame = pl.DataFrame({"x": [f"a text that is long enough {number}" for number in range(99)]})
    assert pa.types.is_string_view(Table(frame)._engine.column("x").type)  # the layout of Polars itself


def test_text_beside_objects_in_a_polars_frame_is_sampled() -> None:
    frame = pl.DataFrame(
        {"word": ["a text of more than twelve bytes"] * 3000, "any": pl.Series([1] * 3000, dtype=pl.Object)}
    )
    with Table(frame) as table:
        question = Values(("word", "any"))
        assert table._samples_rows(question, PLAN)
        assert list(table.ask(question, PLAN).buckets) == [("a text of more than twelve bytes", "1")]


def test_frames_of_narwhals_are_counted() -> None:
    frame = pl.DataFrame({"x": [1, 1, 2]})
    for native in (frame, frame.lazy(), duckdb.connect().from_arrow(frame.to_arrow()), frame["x"]):
        with Table(nw.from_native(native, allow_series=True)) as table:
            assert counted(table, Values(("x",))) == {1: 2, 2: 1}


def test_the_callers_connections_are_left_alone() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range % 7 AS x, range % 50 AS unit FROM range(100)")
    population = Table(connection.table("people"), unit="unit")
    population.ask(Values(("x",)), PLAN)
    population.ask(Below("x", 3.0), PLAN)
    population.close()
    assert connection.sql("SHOW ALL TABLES").fetchall().__len__() == 1
    assert duckdb.sql("SHOW ALL TABLES").fetchall() == []


def test_engines_drop_rare_buckets_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []
    from thresher.tables import rows

    original = rows.LazyRows.counts

    def counts(self: Any, *arguments: Any, **settings: Any) -> pa.Table:
        fetched.append(original(self, *arguments, **settings))
        return fetched[-1]

    monkeypatch.setattr(rows.LazyRows, "counts", counts)
    data = pa.table({"x": list(range(100_000))})
    for frame in (duckdb.connect().from_arrow(data), pl.from_arrow(data).lazy(), data, data.to_pandas()):
        assert len(Table(frame).ask(Values(("x",)), PLAN)) == 0
    assert [table.num_rows for table in fetched] == [0, 0, 0, 0]
    relation = Table(duckdb.connect().from_arrow(data))._rows(Values(("x",)))
    plan = relation.counted(Values(("x",)), at_least=20).to_native().explain()
    assert "n >= 20" in plan or "n >= CAST(20" in plan


@pytest.mark.slow
def test_a_rare_value_is_never_shown(
    engine: Maker, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    data = pa.table({"word": ["common"] * 500 + [CANARY], "unit": list(range(501))})
    for unit in (None, "unit"):
        population = Table(engine(data), unit=unit)
        shown = [repr(population), str(population)]
        for question in (Values(("word",)), Prefixes("word", 30), Values(("word", "unit"))):
            release = population.ask(question, PLAN)
            shown += [repr(release), release.to_json(), release._repr_html_()]
        shown.append(refused(lambda population=population: population.ask(Bins("word", (0, 1)), PLAN)))
        assert CANARY not in "".join(shown)
    output = capfd.readouterr()
    assert CANARY not in output.out + output.err + caplog.text


@pytest.mark.slow
def test_importing_thresher_loads_no_engine() -> None:
    code = (
        "import sys, thresher, thresher.tables; "
        "print({'narwhals', 'duckdb', 'polars', 'pandas', 'pyspark', 'dask', 'ibis'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
