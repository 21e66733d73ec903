"""How many units a table has: exact where it is known, whatever they hold, and never read for it alone."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from table_cases import Maker, opened

import thresher as th
from thresher.questions import Values
from thresher.questions.conditions import Between, Where
from thresher.questions.filtered import Filtered
from thresher.tables import Table, csv_files

PLAN = th.plan(epsilon=1.0, delta=1e-8)
THINNING = th.plan(epsilon=3.0, delta=1e-6)  # its rate is above the limit up to which rows are sampled
PEOPLE = pa.table(
    {
        "country": ["fr", None, "at", "fr", "fr", None, "de", "fr"],
        "who": ["a", "a", "b", "c", None, "d", "e\u0301", "é"],
        "age": [20, 30, None, 40, 20, 20, 30, None],
    },
    pa.schema([("country", pa.string()), ("who", pa.string()), ("age", pa.int64())]),
)
COUNTRY = Values(("country",))
ONLY_20 = Filtered(COUNTRY, Where((Between("age", 18, 25),)))
ON_THE_WAY = ("pandas", "polars", "pyarrow", "parquet", "csv", "tsv.gz")
"""Sources that know how many rows or units they have, or count them in the same pass."""


def size(table: Table, question: Any = COUNTRY, plan: th.Plan = PLAN) -> int | None:
    return table.ask(question, plan).units


def known(request: pytest.FixtureRequest, *more: str) -> bool:
    return request.node.callspec.params["source"] in (*ON_THE_WAY, *more)


@pytest.mark.parametrize("plan", [PLAN, THINNING])
def test_rows_are_counted_whatever_they_hold(source: Maker, request, plan):
    assert THINNING.sampling_rate > 0.4 > PLAN.sampling_rate
    with opened(source, PEOPLE) as table:
        expected = 8 if known(request, "ibis") else None  # where it is a table of DuckDB
        assert size(table, plan=plan) == expected
        assert size(table, Values(("country", "age")), plan) == expected


def test_rows_outside_a_filter_are_counted(source: Maker, request):
    with opened(source, PEOPLE) as table:
        assert size(table, ONLY_20) == (8 if known(request, "ibis") else None)


def test_units_of_a_column_are_not_counted(source: Maker):
    """Whether what names one person can be read would change how many there are."""
    with opened(source, PEOPLE, unit="who") as table:
        assert size(table) is None
        assert size(table, ONLY_20) is None


@pytest.mark.slow
@pytest.mark.parametrize("unit", [None, "who"])
def test_nothing_is_counted_under_add_remove_nor_for_several_rounds(unit):
    for plan in (
        th.plan(epsilon=1.0, delta=1e-8, adjacency="add-remove"),
        th.plan(epsilon=1.0, delta=1e-8, rounds=2),
    ):
        with Table(PEOPLE, unit) as table:
            assert size(table, plan=plan) is None


def test_a_unit_counts_for_a_value_that_it_has():
    """A unit counts if one of its rows has a value, and for that value alone."""
    data = pa.table({"who": [1, 1, 2, 2, 3], "c": ["a", None, None, None, "b"], "d": ["x", "y", "x", None, "z"]})
    with Table(data, "who") as table:
        buckets, counts = table._tally(Values(("c",)))
        assert dict(zip(buckets["c"].to_pylist(), counts.tolist(), strict=True)) == {"a": 1, "b": 1}
        buckets, counts = table._tally(Values(("c", "d")))
        rows = zip(buckets["c"].to_pylist(), buckets["d"].to_pylist(), counts.tolist(), strict=True)
        assert sorted(rows) == [("a", "x", 1), ("b", "z", 1)]


@pytest.fixture
def connection() -> Any:
    found = duckdb.connect()
    found.from_arrow(PEOPLE).create("people")
    return found


def test_a_duckdb_table_knows_its_size(connection):
    with Table(connection.table("people")) as table:
        assert size(table) == 8


def test_a_relation_that_would_be_run_again_is_not_counted(connection):
    with Table(connection.sql("SELECT * FROM people WHERE age > 20")) as table:
        assert size(table) is None


def test_a_size_that_cannot_be_found_does_not_cost_the_answer(monkeypatch, caplog):
    with Table(PEOPLE) as table:
        monkeypatch.setattr(type(table._engine), "size", lambda _: 1 / 0)
        assert size(table) is None
    assert "ZeroDivisionError" in caplog.text


def test_several_parquet_files_are_counted_together(tmp_path: Path):
    for number, part in enumerate((PEOPLE, PEOPLE.slice(0, 3), PEOPLE.slice(0, 0))):
        pa.parquet.write_table(part, tmp_path / f"{number}.parquet")
    with Table(str(tmp_path / "*.parquet")) as table:
        assert size(table) == 11


RECORDS = {
    "whole": "fr,20\n",
    "without values": ",\n",
    "too short": "fr\n",
    "too long": "fr,20,30\n",
    "only quotes": '""\n',
    "a quote inside": 'f"r,20\n',
    "a line feed inside": '"f\nr",20\n',
    "not UTF-8": "\udcff,20\n",
    "spaces": "  \n",
}


@pytest.mark.parametrize("odd", RECORDS)
def test_every_record_of_a_csv_file_is_a_unit_whatever_it_holds(tmp_path: Path, odd: str):
    file = tmp_path / "people.csv"
    for before, after in ((1, 2), (0, 0), (3, 0)):
        text = "country,age\n" + "at,30\n" * before + "\n\r\n" + RECORDS[odd] + "\n" + "at,30\n" * after
        file.write_bytes(text.encode(errors="surrogateescape"))
        with Table(str(file)) as table:
            assert size(table) == before + 1 + after


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(RECORDS, 2)))
def test_quick_and_slow_reading_find_the_same_number_of_records(one: str, other: str):
    header = csv_files.Header(("country", "age"), ",", 12)
    chunk = f"\n{RECORDS[one]}\n{RECORDS[other]}\r\n".encode(errors="surrogateescape")
    assert csv_files._slowly(chunk, header, ["age"]).records == 2
    assert csv_files.parsed(chunk, header, ["age"]).records == 2


@pytest.mark.parametrize("value", ["fr", "", '""', 'f"r'])
def test_the_records_of_a_single_column_are_not_counted(tmp_path: Path, value: str):
    """One person's empty value would be a blank line there, and change the number."""
    file = tmp_path / "people.csv"
    file.write_text(f"country\nfr\n{value}\nfr\n")
    with Table(str(file)) as table:
        assert size(table) is None


LINES = ['{"country": "fr"}', "{}", "null", "[1]", "{broken", '"text"', "\udcff"]


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_a_json_file_is_a_unit_whatever_it_holds(tmp_path: Path, line: str):
    file = tmp_path / "people.jsonl.gz"
    text = '{"country": "at"}\n' * 3 + "\n\r\n  \n" + line + "\n"
    for end in ("", '{"country": "at"}'):
        with gzip.open(file, "wb") as stream:
            stream.write((text + end).encode(errors="surrogateescape"))
        with Table(str(file)) as table:
            assert size(table) == 4 + bool(end)


def test_the_elements_of_a_json_array_are_not_counted(tmp_path: Path):
    file = tmp_path / "people.json"
    file.write_text(json.dumps([{"country": "fr"}] * 5))
    with Table(str(file)) as table:
        assert size(table) is None


@pytest.mark.slow
def test_records_are_counted_over_many_chunks(tmp_path: Path):
    file = tmp_path / "people.csv"
    file.write_text("country,age\n" + "".join(f"c{number % 9},{number}\n" for number in range(500_000)))
    with Table(str(file)) as table:
        assert size(table) == 500_000
        assert size(table) == 500_000  # read once more
