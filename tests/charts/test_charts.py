"""Pictures from plain numbers: well-formed, in the given order, with labels that can be read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from thresher import charts
from thresher.charts import ticks
from thresher.charts.numbers import short, shortened, told_apart


def drawn(markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup))


def test_pictures_for_pages_are_well_formed_and_styled_by_classes_only():
    nan = math.nan
    shown = [
        charts.visibility([10, 100, 1000], [0.0, 0.93, 1.0], 106),
        charts.spending([(1.0, 0.5), (2.0, 0.5)], 2.0, 10.0, name="epsilon"),
        charts.spending([], 2.0, 10.0, name="delta"),
        charts.check_ins([(3600.0 * hour, hour) for hour in range(24)]),
        charts.check_ins([]),
        charts.distribution_svg(
            [0, 1, 2], [0, 0.5, 1], [0, 0.4, 1], [0, 0.6, 1], title="<b>", marks=[("50 %", 1, 0.5, 0.5, 1.5)]
        ),
        charts.distribution_svg([0, 1], [nan, nan], [0, 0], [1, 1], title="none", chosen=(-5, 5)),
        charts.distribution_svg([0, 1], [0, 1], [0, 1], [0, 1], title="small", small=True),
        charts.group_rows_svg(["mean"], [charts.GroupRow("<b>", [(5.0, 4.0, 900.0)])]).rows[0][1],
        charts.bar_svg(10, 5, 20, 8, 20),
        charts.meter(0.3, "a <part>", more=0.9),
        charts.sparkline([1.0, 2.0, None, nan, 5.0, None], "a <line>"),
        charts.sparkline([], "nothing"),
    ]
    for markup in shown:
        root = drawn(markup)
        for element in root.iter():
            assert "style" not in element.attrib
            assert not any(name.startswith("on") for name in element.attrib)
        assert "nan" not in str(markup).lower().replace("nanoseconds", "")
    assert "&lt;b&gt;" in shown[5]


def test_ticks():
    assert ticks.nice_ticks(0, 1000, 5) == [0, 200, 400, 600, 800, 1000]
    assert ticks.nice_ticks(5, 5) == [5]
    assert ticks.decades(12, 1500) == [100.0, 1000.0]
    assert [ticks.round_up(most) for most in (0, 1, 7, 4899, 100)] == [2, 2, 8, 5000, 100]
    assert ticks.decades(12, 600, (1, 2, 5)) == [20, 50, 100, 200, 500]


def histogram(labels: list[str], **settings: object) -> dict:
    sizes = [10.0 * (1 + index % 3) for index in range(len(labels))]
    return charts.histogram(labels, sizes, sizes, sizes, threshold=5, title="t", subtitle="s", **settings).to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
def test_buckets_are_drawn_in_the_given_order(ordered, tmp_path):
    labels = ["9 to 10", "10 to 11", "11 to 12"]
    sizes = [10.0, 30.0, 20.0]
    chart = charts.histogram(labels, sizes, sizes, sizes, threshold=5, title="t", subtitle="s", ordered=ordered)
    charts.show(chart, tmp_path / "histogram.svg")
    root = ElementTree.parse(tmp_path / "histogram.svg").getroot()
    texts = [element.text for element in root.iter() if element.text in labels]
    assert texts == labels


@pytest.mark.slow
def test_many_buckets_with_an_order_fit_into_one_picture_and_others_keep_their_height():
    labels = [f"{day:04d}" for day in range(1000)]
    assert histogram(labels, ordered=True)["height"] < 1000
    assert histogram(labels)["height"] == 22 * len(labels)


def test_labels_show_joiners_and_hide_controls():
    family = "\U0001f468\u200d\U0001f469"
    assert shortened(f"{family}\u202ea\x00", 32) == f"{family}\ufffda\ufffd"
    assert shortened("x" * 40, 32) == "x" * 31 + "…"
    assert [short(value) for value in (950, 0.25, 12_345, 4e6, 2.5e9)] == ["950", "0.25", "12.3k", "4M", "2.5bn"]


@pytest.mark.slow
def test_long_labels_that_begin_alike_are_told_apart():
    urls = [f"https://example.org/shop/products/{number}" for number in (1, 2)]
    shown = told_apart([*urls, "x" * 40, "short"], 32)
    assert len(set(shown)) == 4 and all(len(each) <= 32 for each in shown)
    assert shown[0].startswith("https://exam") and shown[0].endswith("/products/1")
    assert shown[2:] == ["x" * 31 + "…", "short"]
    groups = [charts.GroupRow(url, [(1.0, 0.5, 1.5)]) for url in urls]
    drawn = charts.group_intervals(["mean"], groups, title="t", subtitle="s", measured="ms").to_dict()
    for picture in (histogram(urls), drawn):
        assert all(f"u2026{each.partition('…')[2]}" in json.dumps(picture) for each in shown[:2])


@pytest.mark.slow
def test_the_last_number_of_a_histograms_axis_stands_below_its_tick():
    across = histogram(["a"])["layer"][0]["encoding"]["x"]
    assert across["axis"]["labelFlush"] is False  # flush to the edge it would run into the number before it


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.svg", "A.SVG", "a.png", "A.PNG", "a.html"])
def test_a_picture_is_written_in_the_format_of_the_files_name(name, tmp_path: Path):
    chart = charts.error_lines([10, 100], {"a": [0.5, 0.1]}, title="t", subtitle="s")
    charts.show(chart, tmp_path / name)
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!DOCTYPE"}[Path(name).suffix.lower()]
    assert (tmp_path / name).read_bytes().lstrip().startswith(begins)


def test_a_small_line_has_gaps_and_a_dash_for_what_stands_alone():
    root = drawn(charts.sparkline([1.0, 2.0, None, 5.0, math.nan, 3.0, 3.0], "numbers"))
    paths = [element.attrib["d"] for element in root.iter() if element.tag.endswith("path")]
    assert len(paths) == 3
    alone = paths[1].removeprefix("M").split("L")
    assert alone[0].split()[1] == alone[1].split()[1]  # level
    level = drawn(charts.sparkline([4.0, 4.0], "level"))
    assert [element.attrib["d"] for element in level.iter() if element.tag.endswith("path")] == ["M0 500L1000 500"]
