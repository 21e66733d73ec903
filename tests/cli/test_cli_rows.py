"""Tables of the command line in terminals of any width: no number is ever cut or broken."""

import pyarrow as pa
import pytest

from thresher.cli.output import console
from thresher.cli.row_tables import rows_table, show_table

NUMBERS = pa.table({f"a_long_name_{i}": [60_000.0, 1_234_567.0] for i in range(6)})
VALUES = pa.table({"value": ["Paris", "a value with many words that needs several lines"], "count": [12_345, 6_789]})


def shown(table: pa.Table, width: int, **settings: object) -> str:
    before = console._width
    try:
        console.width = width
        with console.capture() as caught:
            console.print(rows_table(table, **settings))
    finally:
        console._width = before
    return caught.get()


@pytest.mark.parametrize("width", [26, 40, 80, 200])
def test_numbers_stay_whole(width):
    text = shown(NUMBERS, width)
    assert text.count("60,000") == text.count("1,234,567") == 6
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) == (3 if width == 200 else 13)


def test_text_goes_on_in_the_next_line_before_numbers_give_way():
    text = shown(VALUES, 40)
    assert "12,345" in text
    assert "6,789" in text
    assert text.splitlines()[0].split() == ["value", "count"]
    assert "".join(text.split()).count("█") == 0


@pytest.mark.parametrize("width", [20, 60, 66, 70, 120])
def test_bars_take_the_room_that_is_left(width):
    text = shown(VALUES, width, bars="count")
    assert "…" not in text
    longest = text.splitlines()[1].count("█")
    assert longest == {20: 0, 60: 0, 66: 0, 70: 10, 120: 24}[width]


def test_a_number_that_is_none_is_a_dash():
    assert "nan" not in shown(pa.table({"value": [float("nan")]}), 80)


@pytest.mark.parametrize("width", [30, 80])
def test_text_is_never_markup_and_remarks_stand_below_their_rows(width, monkeypatch, capsys):
    monkeypatch.setattr(type(console), "width", width)
    rows = [("Pr[sample > m]", "1"), ("[red]a\tb[/]", "2")]
    show_table(("quantity", "number"), rows, right=("number",), remarks=["the [first] of them", "x"])
    text = capsys.readouterr().out
    assert "Pr[sample > m]" in text and "[red]a�b[/]" in text
    assert text.index("Pr[") < text.index("\n    the [first] of them\n") < text.index("[red]") < text.index("\n    x\n")
    assert max(map(len, text.splitlines())) <= width
