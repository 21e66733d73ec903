"""What is taken from the console looks like the console, and says when it was released and for whom it stands."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import thresher as th
from thresher import console
from thresher.charts.rendering import BLUE, LINES
from thresher.console import downloads
from thresher.console.downloads import Provenance, download
from thresher.verbs.over_time import OverTime

PLAN = th.plan(1.0, 1e-8)
PEOPLE = pa.table({"released": [BLUE] * 3_000 + ["=1+1"] * 4_000})
"""A value that is called as a colour, in a column that is called as one of the file's own."""
RELEASED = 1_700_000_000.0
STYLE = (Path(console.__file__).parent / "static" / "console.css").read_text()


@pytest.fixture(scope="module")
def answer() -> th.verbs.Histogram:
    return th.histogram(PEOPLE, "released", plan=PLAN)


@pytest.fixture(scope="module")
def provenance(answer) -> Provenance:
    return Provenance.of(answer, "histogram of released", RELEASED)


def test_the_colours_are_those_of_the_style_sheet():
    light = dict(re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}),", STYLE))
    names = ("text", "soft", "line", "surface", "bar", "accent", "mark")
    assert [getattr(downloads, name.upper()) for name in names] == [light[name] for name in names]
    trends = re.findall(r"\.trend-\d \{ --trend: light-dark\((#[0-9a-f]{6}),", STYLE)
    assert [downloads.TRENDS[line] for line in LINES] == trends
    assert downloads.FONT in STYLE


@pytest.mark.slow
def test_a_picture_has_the_consoles_title_colours_font_and_date(answer, provenance):
    text = download(answer, "svg", provenance).decode()
    for words in ("Histogram of released", "Released: 14 Nov 2023, 22:13 UTC.", "for one row", "system-ui"):
        assert words in text
    assert downloads.BAR in text
    assert text.count(BLUE) == text.count(f">{BLUE}<") > 0  # the value keeps its name, and nothing is drawn in it


def test_a_csv_says_it_in_every_row_and_runs_nothing(answer, provenance):
    table = csv.read_csv(io.BytesIO(download(answer, "csv", provenance)))
    own = ["answer_released", "stands_for", "guarantee"]
    assert table.column_names == ["released", "count", "estimate", "lower", "upper", *own]
    assert table["released"].to_pylist() == ["'=1+1", BLUE]
    assert set(table["guarantee"].to_pylist()) == {answer.footing()}
    assert set(table["answer_released"].to_pylist()) == {dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)}


def test_json_is_read_back_and_parquet_has_it_beside_its_rows(answer, provenance, tmp_path):
    saved = tmp_path / provenance.file_name("json")
    saved.write_bytes(download(answer, "json", provenance))
    assert saved.name == "histogram-of-released-2023-11-14.json"
    assert th.load(saved).release.table.equals(answer.release.table)
    said = {"title": "Histogram of released", "released": "2023-11-14T22:13:20Z", "guarantee": answer.footing()}
    content = json.loads(saved.read_text())
    assert said.items() <= content.items() and content["stands_for"] == "everybody in the table"
    table = parquet.read_table(io.BytesIO(download(answer, "parquet", provenance)))
    assert table.equals(answer.to_arrow())
    assert {name.encode(): text.encode() for name, text in said.items()}.items() <= table.schema.metadata.items()


@pytest.mark.slow
def test_a_series_has_the_date_of_its_last_release(answer):
    dates = [dt.datetime(2026, 6, day, 9, tzinfo=dt.UTC) for day in (1, 8)]
    over_time = OverTime([(date, answer) for date in dates])
    found = Provenance.of(over_time, "histogram of released", dates[-1].timestamp(), series=True)
    table = csv.read_csv(io.BytesIO(download(over_time, "csv", found)))
    assert table.column_names == ["date", "released", "estimate", "lower", "upper", "stands_for", "guarantee"]
    content = json.loads(download(over_time, "json", found))
    assert content["last_released"] == "2026-06-08T09:00:00Z" and len(content["rows"]) == 4
    text = download(over_time, "svg", found).decode()
    for words in (
        "Histogram of released, over time",
        "Last release: 8 Jun 2026, 09:00 UTC.",
        "each release: (1, 1e-08)",
    ):
        assert words in text
    assert found.file_name("svg") == "histogram-of-released-over-time-2026-06-08.svg"
