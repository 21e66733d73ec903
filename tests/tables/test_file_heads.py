"""Files that are not what their names say: told by their first bytes, without a word of what they hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thresher as th
from thresher.errors import InvalidSetting

CANARY = "canary"
ROWS = "user,country\n" + "".join(f"{place},{CANARY if place == 7 else 'fr'}\n" for place in range(300))
LINES = f'{{"country": "{CANARY}"}}\n' + '{"country": "fr"}\n' * 300


def refused(file: Path, column: str = "country", **settings: str) -> str:
    with pytest.raises(InvalidSetting) as caught:
        th.histogram(file, column, epsilon=1, delta=1e-8, **settings)
    assert CANARY not in str(caught.value)
    return str(caught.value)


def counted(file: Path, **settings: str) -> list[str]:
    found = th.histogram(file, "country", epsilon=1, delta=1e-8, **settings).to_arrow()
    return found["country"].to_pylist()


@pytest.mark.parametrize(
    ("name", "content", "what", "hint"),
    [
        ("a.csv", gzip.compress(ROWS.encode()), "compressed with gzip", ".gz"),
        ("a.csv", pa.compress(ROWS.encode(), codec="zstd", asbytes=True), "compressed with zstd", ".zst"),
        ("a.csv", ROWS.encode("utf-16"), "UTF-16", "iconv -f UTF-16"),
        ("a.csv", ROWS.encode("utf-16-le"), "UTF-16", "iconv -f UTF-16"),
        ("a.csv", ROWS.encode("utf-16-be"), "UTF-16", "iconv -f UTF-16"),
        ("a.jsonl", LINES.encode("utf-16"), "UTF-16", "iconv -f UTF-16"),
        ("a.csv", b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "Excel", "CSV in UTF-8"),
        ("a.xlsx", b"PK\x03\x04" + bytes(26) + b"_rels/.rels", "Excel", "CSV in UTF-8"),
        ("a.csv", b"PK\x03\x04" + bytes(26) + b"visits.csv", "ZIP archive", "Unzip it first"),
        ("a.zip", b"PK\x03\x04" + bytes(26) + b"visits.csv", "ZIP archive", "Unzip it first"),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "Excel", "CSV in UTF-8"),
        ("a.csv", b"<!DOCTYPE html>\n<html>", "web page", "login"),
        ("a.feather", b"ARROW1\x00\x00", "Feather", "pyarrow"),
        ("a.csv", ROWS.replace("user", "us\u00e9r").encode("latin-1"), "not in UTF-8", "iconv"),
        ("a.csv", ROWS.replace("\n", "\r").encode(), "carriage return", "tr "),
        ("a.csv", LINES.encode(), "begins as JSON does", "format='jsonl'"),
        ("a.csv", f"[{LINES}".encode(), "begins as JSON does", "format='jsonl'"),
        ("a.csv", b"sep=;\n" + ROWS.encode(), "a note for Excel", "Remove this line"),
        ("a.tsv", ROWS.encode(), "no tab", "format='csv'"),
        ("a.csv", b"", "has no columns", "names"),
        ("a.csv.gz", ROWS.encode(), "not compressed with gzip", "without .gz"),
        ("a.parquet", ROWS.encode(), "not a Parquet file", "format='csv'"),
        ("a.parquet", b"", "is empty", "again"),
        ("a.csv", b"SQLite format 3\x00" + bytes(99), "SQLite", "sqlite:///file.db, and its table"),
        ("a.parquet", b"SQLite format 3\x00" + bytes(99), "SQLite", "sqlite:///file.db, and its table"),
        ("a.log", LINES.encode(), "does not say what it is", "format='jsonl'"),
        ("a", ROWS.encode(), "does not say what it is", "format='csv'"),
    ],
)
def test_what_a_file_is_and_what_to_do(tmp_path: Path, name: str, content: bytes, what: str, hint: str) -> None:
    (tmp_path / name).write_bytes(content)
    message = refused(tmp_path / name)
    assert what in message
    assert hint in message
    assert name in message


def test_parquet_that_was_cut_off_or_has_another_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"country": ["fr"] * 300}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content[:-9])
    assert "cut off" in refused(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_bytes(content)
    assert "format='parquet'" in refused(tmp_path / "a.csv")
    assert counted(tmp_path / "a.csv", format="parquet") == ["fr"]


@pytest.mark.slow
def test_a_format_in_place_of_a_name(tmp_path: Path) -> None:
    for name, content, format in (
        ("a.log", LINES, "jsonl"),
        ("a.csv", LINES, "ndjson"),
        ("a.txt", f"[{LINES.strip().replace(chr(10), ',')}]", "json"),
        ("a.dat", ROWS, "csv"),
        ("a.json", ROWS.replace(",", "\t"), "tsv"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert counted(tmp_path / name, format=format) == ["fr"]
    assert "format must be one of" in refused(tmp_path / "a.dat", format="xml")
    with pytest.raises(InvalidSetting, match="format is for files"):
        th.histogram(["fr"], "value", epsilon=1, delta=1e-8, format="csv")


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json"])
def test_an_array_under_any_name_of_json(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f"[{LINES.strip().replace(chr(10), ',' + chr(10))}]", encoding="utf-8")
    assert counted(tmp_path / name) == ["fr"]


@pytest.mark.parametrize("first", [b"PK\x03\x04", b"\x1f\x8b", b"\xff\xfe", b"<html", b"[", b"a\x00b\x00", b"PAR1"])
def test_no_persons_line_makes_json_lines_something_else(tmp_path: Path, first: bytes) -> None:
    for name, settings in (("a.jsonl", {}), ("a.log", {"format": "jsonl"})):
        (tmp_path / name).write_bytes(first + b"\n" + LINES.encode())
        assert counted(tmp_path / name, **settings) == ["fr"]
    for start in (b"{}", first):  # nor does it change an error
        (tmp_path / "a.log").write_bytes(start + b"\n" + LINES.encode())
        assert "does not say what it is" in refused(tmp_path / "a.log")


def test_a_first_line_that_may_be_a_persons_is_not_shown(tmp_path: Path) -> None:
    for line in (f"17,{CANARY}", f"{CANARY},2024-01-31", f"{CANARY},{CANARY},7"):
        (tmp_path / "a.csv").write_text(f"{line}\n" * 3, encoding="utf-8")
        message = refused(tmp_path / "a.csv")
        assert "header line" in message
    (tmp_path / "a.csv").write_text("country_code,age\n", encoding="utf-8")
    assert "Did you mean 'country_code'?" in refused(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("user, country\n", encoding="utf-8")
    assert "Did you mean ' country'?" in refused(tmp_path / "a.csv")


def test_nor_is_it_where_another_library_read_the_file(tmp_path: Path) -> None:
    """A frame's names are no more public than the file that they came from."""
    path = tmp_path / "a.csv"
    path.write_text(f"17,{CANARY}\n" * 3, encoding="utf-8")
    frames = [pd.read_csv(path), pl.read_csv(path), pl.scan_csv(path), duckdb.read_csv(path, header=True)]
    for frame in frames:
        with pytest.raises(InvalidSetting, match="header line") as caught:
            th.histogram(frame, CANARY[:-1], epsilon=1, delta=1e-8)
        assert CANARY not in str(caught.value)


def test_a_column_of_a_frame_that_arrow_does_not_read() -> None:
    frame = pd.DataFrame({"age": pd.cut(pd.Series(range(300)), 2), "country": ["fr"] * 300})
    with pytest.raises(InvalidSetting, match=r"column 'age' that Arrow could not read.*astype"):
        th.histogram(frame, "age", epsilon=1, delta=1e-8)
    assert len(th.histogram(frame.astype({"age": str}), "age", epsilon=1, delta=1e-8).to_arrow()) == 2


@pytest.mark.parametrize("make", ["pandas", "polars", "enum", "lazy", "arrow"])
def test_categories_are_text(make: str) -> None:
    import polars as pl

    values = ["a"] * 300 + ["b"] * 300
    data = {
        "pandas": lambda: pd.DataFrame({"x": pd.Categorical(values)}),
        "polars": lambda: pl.DataFrame({"x": pl.Series(values, dtype=pl.Categorical)}),
        "enum": lambda: pl.DataFrame({"x": pl.Series(values, dtype=pl.Enum(["a", "b"]))}),
        "lazy": lambda: pl.LazyFrame({"x": pl.Series(values, dtype=pl.Categorical)}),
        "arrow": lambda: pa.table({"x": pa.array(values).dictionary_encode()}),
    }[make]()
    found = th.histogram(data, "x", epsilon=1, delta=1e-8).to_arrow()  # 300 units are dropped with less than 1e-9
    assert sorted(found["x"].to_pylist()) == ["a", "b"]
